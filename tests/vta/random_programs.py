"""Random formulas and schedules for the accelerator, with numbers for their inputs.

Not all of them can be built: a tile does not fit, a loop order needs what the machine has not. Such
a case ends in a refusal, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import minitvm as tvm
from minitvm import te, vta
from minitvm.accel import Config

SMALL = Config(  # 2 x 4 by 4 x 4; room for 64 elements of INP and ACC, 32 of WGT
    name="small",
    batch=2,
    block_in=4,
    block_out=4,
    inp_bytes=64 * 8,
    wgt_bytes=32 * 16,
    acc_bytes=64 * 32,
    uop_bytes=256 * 4,
)
FORGETFUL = replace(vta.vta_pynq, name="forgetful", uop_bytes=32 * 4)  # 32 micro-operations
UNEVEN = replace(SMALL, name="uneven", block_in=8, inp_bytes=64 * 16, wgt_bytes=32 * 32)
MACHINES = (vta.vta_pynq, vta.vdla8x8, SMALL, FORGETFUL, UNEVEN)

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A schedule, its arguments (inputs, then results), and an array for each input."""

    s: te.Schedule
    args: list[te.Tensor]
    arrays: list[np.ndarray]


def pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def chance(rng: Rng, p: float) -> bool:
    return bool(rng.random() < p)


def divisor(rng: Rng, n: int) -> int:
    return pick(rng, [d for d in range(1, n + 1) if n % d == 0])


def shuffled(rng: Rng, items: list[Any]) -> list[Any]:
    return [items[n] for n in rng.permutation(len(items))]


def numbers(rng: Rng, t: te.Tensor, low: int | None = None, high: int | None = None) -> np.ndarray:
    """All numbers of the type, or those from low to high."""
    limits = np.iinfo(str(t.dtype))
    low, high = limits.min if low is None else low, limits.max if high is None else high
    return rng.integers(low, high, t.shape, endpoint=True).astype(str(t.dtype))


# --- loops of the result -------------------------------------------------------------------------


def tiled(rng: Rng, s: te.Schedule, out: te.Tensor) -> tuple[Any, Any]:
    """Where a tile of `out` is complete, and its first loop; perhaps virtual threads around."""
    *space, bi, oi = s[out].op.axis
    outer: list[Any] = []
    inner: list[Any] = []
    for axis in space:
        o, i = s[out].split(axis, factor=divisor(rng, axis.extent))
        outer.append(o)
        inner.append(i)
    if chance(rng, 0.3):
        outer = shuffled(rng, outer)
    s[out].reorder(*outer, *inner, bi, oi)
    at = outer[-1]
    for _ in range(int(rng.integers(3))):
        n = int(rng.integers(len(outer)))
        count = pick(rng, [1, 2, 3])
        if count == 1 or outer[n].extent % count:
            continue
        rest, thread = s[out].split(outer[n], factor=count)
        at = rest if outer[n] is at else at
        outer[n] = rest
        s[out].reorder(thread, *outer)
        s[out].bind(thread, te.thread_axis("cthread"))
    return at, inner[0]


# --- chains of the ALU ---------------------------------------------------------------------------

IMMEDIATES = (0, 1, -1, 3, 127, -128, 1000, (1 << 15) - 1, -(1 << 15))

Rule = Callable[[Any, Any], Any]
RULES: dict[str, Rule] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": te.max,
    "min": te.min,
    "shr": lambda a, b: a >> b,
}


def chain(rng: Rng) -> Case:
    """One to five operations of the ALU on accumulators and numbers, and a store."""
    env = vta.get_env()
    outer = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    shape = (*outer, env.BATCH, env.BLOCK_OUT)
    inputs = [te.placeholder(shape, "int32", "A")]
    arrays = [numbers(rng, inputs[0])]
    stages: list[te.Tensor] = []
    x = inputs[0]
    for n in range(int(rng.integers(1, 6))):
        x, more = operation(rng, x, f"s{n}")
        stages.append(x)
        if more is not None:
            inputs.append(more)
            limits = (0, 31) if x.op.tag == "shr" else (None, None)
            arrays.append(numbers(rng, more, *limits))
    out = copied(x, "int8", "C")
    return Case(chain_schedule(rng, out, stages, inputs), [*inputs, out], arrays)


def operation(rng: Rng, x: te.Tensor, name: str) -> tuple[te.Tensor, te.Tensor | None]:
    """x and a number, or x and another input, perhaps the same for all of some dimensions."""
    kind = pick(rng, list(RULES))
    if chance(rng, 0.5):
        value = int(rng.integers(0, 32)) if kind == "shr" else pick(rng, IMMEDIATES)
        if kind == "add" and chance(rng, 0.3):
            return te.compute(x.shape, lambda *i: x(*i) - value, name=name), None
        if kind == "shr" and chance(rng, 0.4):
            return te.compute(x.shape, lambda *i: x(*i) << value, name=name), None
        return te.compute(x.shape, lambda *i: RULES[kind](x(*i), value), name=name), None
    kept = [d for d in range(x.ndim - 2) if chance(rng, 0.7)] + [x.ndim - 2, x.ndim - 1]
    other = te.placeholder([x.shape[d] for d in kept], "int32", f"{name}_in")

    def value_at(*i: Any) -> Any:
        b = other(*(i[d] for d in kept))
        return RULES[kind](x(*i), b) if kind == "shr" or swap else RULES[kind](b, x(*i))

    swap = chance(rng, 0.5)
    return te.compute(x.shape, value_at, name=name, tag=kind), other


def chain_schedule(
    rng: Rng, out: te.Tensor, stages: list[te.Tensor], inputs: list[te.Tensor]
) -> te.Schedule:
    """All at once, or tile by tile; each input loaded where it is used, or before."""
    env = vta.get_env()
    s = te.create_schedule(out.op)
    at, stored = (None, out.op.axis[0]) if chance(rng, 0.2) else tiled(rng, s, out)
    s[out].pragma(stored, env.dma_copy)
    readers = [[t for t in stages if a in t.op.input_tensors] for a in inputs]
    loaded = [s.cache_read(a, env.acc_scope, r) for a, r in zip(inputs, readers, strict=True)]
    for t in reversed(stages):
        s[t].set_scope(env.acc_scope)
        s[t].pragma(s[t].op.axis[0], env.alu)
        if at is not None:
            s[t].compute_at(s[out], at)
    for t in loaded:
        s[t].pragma(s[t].op.axis[0], env.dma_copy)
        if at is not None and chance(rng, 0.8):
            s[t].compute_at(s[out], at)
    return s


# --- several results -----------------------------------------------------------------------------


def copied(t: te.Tensor, dtype: str, name: str) -> te.Tensor:
    """t as numbers of another type, or of the same."""
    return te.compute(t.shape, lambda *i: t(*i).astype(dtype), name=name)


def linked(rng: Rng) -> Case:
    """Stages that change what the one before made; up to three results, one of them read again."""
    env = vta.get_env()
    shape = (*(int(n) for n in rng.integers(1, 6, rng.integers(1, 3))), env.BATCH, env.BLOCK_OUT)
    kinds = [pick(rng, ["int32", "int32", "int8"]) for _ in range(int(rng.integers(1, 3)))]
    inputs = [te.placeholder(shape, kind, f"A{n}") for n, kind in enumerate(kinds)]
    loads = [copied(inputs[0], "int32", "L")]
    stages = loads[:]
    for n in range(int(rng.integers(2, 6))):
        if chance(rng, 0.6):
            other = copied(pick(rng, inputs), "int32", f"L{n}")
            loads.append(other)
        else:
            other = pick(rng, [None, None, None, *stages])
        stages.append(mixed(rng, stages[-1] if chance(rng, 0.9) else loads[-1], other, f"s{n}"))
    results = [stages[-1]] + ([pick(rng, stages)] if chance(rng, 0.4) else [])
    outs = [copied(t, "int8", f"C{n}") for n, t in enumerate(results)]
    if chance(rng, 0.4):
        loads.append(copied(outs[0], "int32", "again"))
        stages.append(mixed(rng, loads[-1], None, "more"))
        outs.append(copied(stages[-1], "int8", "D"))
    s = te.create_schedule([t.op for t in outs])
    names = {stage.name for stage in s.stages}
    inputs, loads, stages = (
        [t for t in kept if t.name in names] for kept in (inputs, loads, stages[1:])
    )
    link(rng, s, outs, loads, stages)
    return Case(s, [*inputs, *outs], [numbers(rng, t) for t in inputs])


def mixed(rng: Rng, a: te.Tensor, b: te.Tensor | None, name: str) -> te.Tensor:
    """An operation on a, and b or a number; rarely on their rows from the second on."""
    rule, value = RULES[pick(rng, ["add", "mul", "max", "min"])], int(rng.integers(-9, 10))
    rows = [int(t.shape[0]) for t in (a, b or a)]
    down = [int(chance(rng, 0.1) and n > 1) for n in rows]
    shape = (min(n - d for n, d in zip(rows, down, strict=True)), *a.shape[1:])

    def body(*i: Any) -> Any:
        first = a(i[0] + down[0], *i[1:])
        return rule(first, value if b is None else b(i[0] + down[1], *i[1:]))

    return te.compute(shape, body, name=name)


def link(
    rng: Rng, s: te.Schedule, outs: list[te.Tensor], loads: list[te.Tensor], stages: list[te.Tensor]
) -> None:
    """All of it on the accelerator; tiles of a result with what only this one needs, or not."""
    env = vta.get_env()
    for t in (*loads, *stages):
        s[t].set_scope(env.acc_scope)
        s[t].pragma(t.op.axis[0], env.dma_copy if t in loads else env.alu)
    for out in outs:
        at, stored = (None, out.op.axis[0]) if chance(rng, 0.4) else tiled(rng, s, out)
        s[out].pragma(stored, env.dma_copy)
        if chance(rng, 0.3):
            s[out].pragma(stored, env.coproc_sync)
        for t in (*reversed(stages), *loads) if at is not None else ():
            try:
                if chance(rng, 0.8):
                    s[t].compute_at(s[out], at)
            except tvm.ScheduleError:
                pass  # another result needs it, or it stands there already


# --- transfers -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """What of `size` rows is moved: rows[first + step * n] for n < count; zeros outside, if any.

    padded   whether there may be zeros before and after
    """

    size: int
    first: int
    step: int
    count: int
    padded: tuple[bool, bool]

    def inside(self, n: Any) -> list[Any]:
        """The conditions under which the n-th row exists."""
        at, (before, after) = self.first + n, self.padded
        return [at >= 0][:before] + [at < self.size][:after]


def part(rng: Rng) -> Part:
    """Rows with zeros around them, or each row or every other one from some row on."""
    size = int(rng.integers(1, 7))
    if chance(rng, 0.35):
        before, after = pick(rng, [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)])
        return Part(size, -before, 1, before + size + after, (before > 0, after > 0))
    first, step = int(rng.integers(size)), pick(rng, [1, 1, 1, 2])
    return Part(size, first, step, -(-(size - first) // step), (False, False))


def moved(rng: Rng) -> Case:
    """A slice of the input, with steps and with zeros around it: loaded, and stored again."""
    env = vta.get_env()
    element = (env.BATCH, env.BLOCK_OUT)
    parts = [part(rng) for _ in range(int(rng.integers(1, 5)))]
    A = te.placeholder((*(p.size for p in parts), *element), pick(rng, ["int8", "int32"]), "A")

    def value(*i: Any) -> Any:
        rows = list(zip(parts, i, strict=False))
        number = A(*(p.first + p.step * n for p, n in rows), *i[len(parts) :])
        inside = [c for p, n in rows for c in p.inside(n)]
        if inside:
            number = te.if_then_else(te.all(*inside), number, te.const(0, str(A.dtype)))
        return number.astype("int32")

    loaded = te.compute((*(p.count for p in parts), *element), value, name="loaded")
    same = te.compute(loaded.shape, lambda *i: loaded(*i) >> 0, name="same")
    out = copied(same, "int8", "C")
    s = te.create_schedule(out.op)
    at, stored = (None, out.op.axis[0]) if chance(rng, 0.4) else tiled(rng, s, out)
    s[out].pragma(stored, env.dma_copy)
    for t, pragma in ((same, env.alu), (loaded, env.dma_copy)):
        s[t].set_scope(env.acc_scope)
        s[t].pragma(t.op.axis[0], pragma)
        if at is not None:
            s[t].compute_at(s[out], at)
    return Case(s, [A, out], [numbers(rng, A, -128, 127)])
