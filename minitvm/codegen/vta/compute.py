"""Emit the instructions of the compute unit, with their loops and micro-operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from minitvm import accel, lowering, tir
from minitvm.base import BuildError

from .now import Now, stride
from .stream import Kernel, Site, Stream

RESET = "fill_zero"
GEMM = ("gemm", "fused_gemm8x8_add")  # operands: (accumulators, inputs, weights)
ACCUMULATE = "accumulate"  # operands: (inputs, accumulators); the weight is WGT[0]
ALU = {op.name.lower(): op for op in accel.Op}
COMPUTED = (*GEMM, RESET, ACCUMULATE, *ALU)


@dataclass(frozen=True, slots=True)
class Operation:
    """The operation that one instruction of the compute unit repeats, and its constant operand."""

    name: str
    imm: int | None


# the extents of the loops of an instruction; by how many elements (dst, src, wgt) each one advances
# per iteration; and the micro-operations inside
MicroLoops: TypeAlias = tuple[list[int], list[tuple[int, int, int]], tuple[accel.Uop, ...]]


class Compute:
    """An emitter of GEMM and ALU instructions in the iteration `now`.

    The same statement is emitted in every iteration of the enclosing loops, so the results of its
    analysis are cached by the statement's id while its program is emitted.

    operations  the operation of each statement
    inputs      the loop variables and buffers on which each statement depends
    loops       the loops and micro-operations of a statement for given values of its inputs
    """

    def __init__(self, now: Now) -> None:
        self.now = now
        self.operations: dict[int, Operation | None] = {}
        self.inputs: dict[int, tuple[tuple[tir.Var, ...], tuple[tir.Buffer, ...]]] = {}
        self.loops: dict[Site, MicroLoops] = {}

    def kind(self, s: tir.Stmt) -> Operation | None:
        """Return the operation if a single instruction can do all of `s`, else None."""
        if id(s) not in self.operations:
            self.operations[id(s)] = self.find_operation(s)
        return self.operations[id(s)]

    def find_operation(self, s: tir.Stmt) -> Operation | None:
        """Return the operation of `s`, or None, without using the cache of `kind`."""
        match s:
            case tir.For(body=body):
                return self.kind(body)
            case tir.Seq(parts):
                kinds = {self.kind(part) for part in parts}
                return kinds.pop() if len(kinds) == 1 else None
            case tir.Evaluate(tir.Call(name, args)):
                what = name.removeprefix("ex.")
                if what not in COMPUTED:
                    return None
                last = args[-1]
                imm = int(last.value) if isinstance(last, tir.Const) else None
                return Operation(what, imm)
            case _:
                return None

    def emit(self, s: tir.Stmt, kind: Operation, stream: Stream) -> None:
        """Add one GEMM or ALU instruction to `stream`.

        Up to two outer loops of `s` become loops of the instruction, inner loops micro-operations.
        """
        site = self.site(s)
        if site not in self.loops:
            self.loops[site] = find_loops(s, kind, self.now.inside())
        extents, factors, uops = self.loops[site]
        if 0 in extents or not uops:
            return
        name = "gemm" if kind.name in (*GEMM, ACCUMULATE) else kind.name
        begin, end = stream.kernel(Kernel(name, site, uops))
        outer, inner = (*extents, 1, 1)[:2]
        outer_factors, inner_factors = (*factors, (0, 0, 0), (0, 0, 0))[:2]
        dst, src, wgt = zip(outer_factors, inner_factors, strict=True)
        loops = accel.UopLoops(
            begin=begin,
            end=end,
            outer=outer,
            inner=inner,
            dst_factors=dst,
            src_factors=src,
            wgt_factors=wgt,
        )
        if name in ALU:
            stream.add(accel.Alu(op=ALU[name], loops=loops, imm=kind.imm))
        else:
            stream.add(accel.Gemm(loops=loops, reset=name == RESET))

    def site(self, s: tir.Stmt) -> Site:
        """Return a cache key: the id of `s`, and the values of the inputs on which `s` depends."""
        if id(s) not in self.inputs:
            self.inputs[id(s)] = inputs(s)
        loops, buffers = self.inputs[id(s)]
        return (id(s), *(self.now.env[v] for v in loops), *(self.now.base[b] for b in buffers))


def inputs(s: tir.Stmt) -> tuple[tuple[tir.Var, ...], tuple[tir.Buffer, ...]]:
    """Return the loop variables that `s` depends on, and the on-chip buffers it accesses."""
    inner = {n.var for n in tir.walk(s) if isinstance(n, tir.For)}
    buffers = dict.fromkeys(n.first.buffer for n in tir.walk(s) if isinstance(n, tir.View))
    local = tuple(b for b in buffers if lowering.memory_of(b) is not None)
    return tuple(v for v in tir.variables(s) if v not in inner), local


def find_loops(s: tir.Stmt, kind: Operation, now: Now) -> MicroLoops:
    """Return the loops and micro-operations of `s` in the iteration `now`; modify `now`."""
    extents, factors = list[int](), list[tuple[int, int, int]]()
    while isinstance(s, tir.For) and len(extents) < 2:
        steps, extent = _factors(s, now), now.value(s.extent)
        if steps is None or extent > lowering.MAX_ITERATIONS:
            break
        extents.append(extent)
        factors.append(steps)
        now.env[s.var] = 0
        s = s.body
    capacity = lowering.capacity(now.config, accel.Memory.UOP)
    uops = tuple(islice(_uops(s, now), capacity + 1))  # with one too many, UopCache raises
    if 0 not in extents:
        check_distance(kind, uops)
    return extents, factors, uops


def _uops(s: tir.Stmt, now: Now) -> Iterator[accel.Uop]:
    """Yield the micro-operations of a statement in order."""
    match s:
        case tir.For(var, extent, body):
            for i in range(now.value(extent)):
                now.env[var] = i
                yield from _uops(body, now)
        case tir.Seq(parts):
            for part in parts:
                yield from _uops(part, now)
        case tir.Evaluate(tir.Call() as call):
            at = [0 if view is None else now.element(view, memory_in(view)) for view in roles(call)]
            yield accel.Uop(*at)
        case _:
            raise AssertionError("find_operation accepts nothing else")


def _factors(loop: tir.For, now: Now) -> tuple[int, int, int] | None:
    """Return by how many elements dst, src and wgt advance per iteration; None if this varies."""
    factors: set[tuple[int | None, ...]] = set()
    for n in tir.walk(loop.body):
        if isinstance(n, tir.For) and not tir.free_of(n.extent, [loop.var]):
            return None
        if isinstance(n, tir.Evaluate) and isinstance(n.value, tir.Call):
            views = roles(n.value)
            factors.add(tuple(0 if v is None else _step(v, loop.var, now) for v in views))
    dst, src, wgt = factors.pop() if len(factors) == 1 else (None, None, None)
    if dst is None or src is None or wgt is None or min(dst, src, wgt) < 0:
        return None
    return dst, src, wgt


def _step(view: tir.View, var: tir.Var, now: Now) -> int | None:
    """Return by how many elements a view advances if `var` grows by 1; None if this varies."""
    factor, size = stride(view.first.indices[0], var), now.size(memory_in(view))
    return None if factor is None or factor % size else factor // size


# --- checks --------------------------------------------------------------------------------------


def check_distance(kind: Operation, uops: tuple[accel.Uop, ...]) -> None:
    """Raise BuildError if a micro-operation updates an accumulator that the last two updated.

    As in VTA, the two loops around a kernel are not checked, because VTA's tutorials put the
    reduction innermost. AcceleratorFunction.warnings() reports hazards of those loops.

    Source: UopKernel::VerifyDep in the runtime of VTA.
    """
    for n, uop in enumerate(uops):
        if any(uop.dst == before.dst for before in uops[max(0, n - 2) : n]):
            raise BuildError(
                f"{kind.name}: micro-operations {max(0, n - 2)} to {n}",
                f"accumulator {uop.dst} is updated again within three steps, before the pipeline "
                "has finished its last update",
                "reorder(): the reduction loops outside of the loops over accumulators",
            )


def check_blocks(s: tir.Stmt, config: accel.Config) -> None:
    """Check that each product is as large as the machine's matrix unit.

    For example, an intrinsic for 8 x 8 numbers does not fit a machine of 1 x 16 by 16 x 16.
    """
    for n in tir.walk(s):
        if isinstance(n, tir.Call) and n.name.rpartition(".")[2] in (*GEMM, RESET):
            for view in _views(n):
                _check_element(n, view, config)


def _check_element(call: tir.Call, view: tir.View, config: accel.Config) -> None:
    """Check that `view`, an operand of an instruction, has the shape of one element."""
    memory = memory_in(view)
    element = config.element_shape(memory)
    sizes = [n for n in view.shape if n != 1]
    if all(isinstance(n, int) for n in view.shape) and sizes != [n for n in element if n != 1]:
        shape = " x ".join(map(str, view.shape))
        raise BuildError(
            f"{call.name} on {shape} numbers of {view.first.buffer.name}",
            f"the elements of {memory.name} on {config.name} are {' x '.join(map(str, element))}",
            "env.gemm, the intrinsic of this machine; or lower and build for the machine of the "
            "intrinsic, such as inside `with vdla.environment:`",
        )


def roles(call: tir.Call) -> tuple[tir.View | None, tir.View | None, tir.View | None]:
    """Return the views of an instruction of the compute unit as (dst, src, wgt)."""
    views = _views(call)
    if call.name.endswith(f".{ACCUMULATE}"):
        views.reverse()
    dst, src, wgt = (*views, None, None)[:3]
    return dst, src, wgt


def _views(call: tir.Call) -> list[tir.View]:
    return [a for a in call.args if isinstance(a, tir.View)]


def memory_in(view: tir.View) -> accel.Memory:
    """Return the on-chip memory of a view; raise BuildError if it is in main memory."""
    b = view.first.buffer
    memory = lowering.memory_of(b)
    if memory is None:
        what = f"an instruction of the compute unit on {b.name} in {b.scope!r} memory"
        fix = "a cache_read or set_scope into inp_buffer, wgt_buffer or acc_buffer"
        raise BuildError(what, "the unit cannot access that memory", fix)
    return memory
