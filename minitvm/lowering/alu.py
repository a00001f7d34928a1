"""Loops of arithmetic in the accumulators become operations on whole elements."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.accel import IMMEDIATES, Memory
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of
from minitvm.tir import (
    Binary,
    Call,
    Const,
    Evaluate,
    Expr,
    For,
    Index,
    Load,
    Stmt,
    Store,
    Var,
    add,
    const,
    free_of,
    mul,
    same,
    split_terms,
    sub,
    substitute,
    text,
    view_at,
    walk,
)

from .machine import MOST_TURNS, element_size, machine, memory_of, prefix
from .statements import peeled, replace_marked

OPERATIONS = {"add": "add", "mul": "mul", "min": "min", "max": "max", "shr": "shr", "shl": "shr"}


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A loop of `extent` iterations; each moves operand n by strides[n] numbers."""

    extent: int
    strides: tuple[int, ...]


def inject_alu_intrin(s: Stmt) -> Stmt:
    """Under the pragma alu, a loop of arithmetic becomes one of operations on elements.

        # pragma alu = 1
        for i in range(64):                      for i in range(64):
          for j in range(16):              ->      vta.add(A_buf[i], B_buf[i])
            A_buf[i*16 + j] =
              A_buf[i*16 + j] + B_buf[i*16 + j]

    The ALU knows add, mul, min, max and shifts of 32 bits, of an accumulator with another or with
    a number; the result replaces the first operand. A shift to the left is one to the right by a
    negative number, a copy onto itself one by 0; a - 3 is a + (-3). Where an accumulator says by
    how much another is shifted, a negative one shifts to the left, though on a CPU all bits go.
    skip_alu: nothing is computed.
    Needs flat offsets. Raises LoweringError for other formulas.
    """
    return replace_marked(s, "alu", _operation)


def _operation(body: Stmt) -> Stmt:
    loops, inside = peeled(body)
    if not isinstance(inside, Store):
        raise LoweringError(
            f"pragma alu around\n{text(body)}",
            "it is not one operation in loops",
            "pragma on the first loop of a stage with one operation, and no guard",
        )
    _check_memory(inside)
    name, operand = _matched(inside)
    operands = [Load(inside.buffer, inside.indices, inside.buffer.dtype)]
    operands += [operand] if isinstance(operand, Load) else []
    return _over_elements(inside, name, loops, operands, operand)


def _check_memory(store: Store) -> None:
    """The ALU reads and writes accumulators."""
    for b in (store.buffer, *(e.buffer for e in walk(store.value) if isinstance(e, Load))):
        if memory_of(b) is not Memory.ACC:
            raise LoweringError(
                f"pragma alu: {text(store)}",
                f"{b.name} is in {b.scope!r}, the ALU works in acc_buffer",
                f"{b.name}: set_scope(env.acc_scope), or a cache_read into it",
            )


def _matched(store: Store) -> tuple[str, Load | Const]:
    """The operation, and its operand beside the accumulator that it changes."""
    match store.value:
        case Load() as e if _is_target(store, e):
            return "shr", const(0, "int32")
        case Binary("shr" | "shl" as op, a, b) if _is_target(store, a):
            _check_shift(store, b)
            return "shr", _operand(store, b, negate=op == "shl")
        case Binary("sub", a, Const() as b) if _is_target(store, a):
            return "add", _operand(store, b, negate=True)
        case Binary(op, a, b) if op in OPERATIONS and _is_target(store, a):
            return OPERATIONS[op], _operand(store, b)
        case Binary("add" | "mul" | "min" | "max" as op, a, b) if _is_target(store, b):
            return op, _operand(store, a)
        case Binary(op, Load(), Load() | Const()) | Binary(op, Const(), Load()) if (
            op in OPERATIONS or (op == "sub" and isinstance(store.value.b, Const))
        ):
            raise LoweringError(
                f"pragma alu: {text(store)}",
                "the result of the ALU replaces an operand, and here each is needed later, or has "
                "another size",
                "one stage for each operation, with the operand not read after it",
            )
        case _:
            raise LoweringError(
                f"pragma alu: {text(store)}",
                "the ALU has no such operation, or these are several",
                "a + b, a - number, a * b, te.max(a, b), te.min(a, b), a >> b, a << number of "
                "int32; one a stage",
            )


def _check_shift(store: Store, b: Expr) -> None:
    """Refuse a number that the ALU would shift by the other way; a CPU shifts all bits out."""
    if isinstance(b, Const) and b.value < 0:
        raise LoweringError(
            f"pragma alu: {text(store)}",
            f"a shift by {b.value} shifts all bits out, the ALU shifts them the other way",
            "a >> 3 or a << 3: shifts by numbers from 0 on",
        )


def _is_target(store: Store, e: Expr) -> bool:
    """Is `e` the number that is replaced?"""
    return isinstance(e, Load) and e.buffer is store.buffer and same(e.indices[0], store.indices[0])


def _operand(store: Store, e: Expr, negate: bool = False) -> Load | Const:
    """Another accumulator, or a number of 16 bits; the negative of it, if it is to be negated."""
    match e:
        case Load() if not negate:
            return e
        case Load():
            raise LoweringError(
                f"pragma alu: {text(store)}",
                "the ALU shifts to the left by numbers only, by another accumulator to the right",
                "a << 3; or a >> b with the negative of b",
            )
        case Const(value) if isinstance(value, int):
            number = -value if negate else value
            if number in IMMEDIATES:
                return const(number, "int32")
            what = f"{number}, which is to be added," if negate and number > 0 else f"{number}"
        case _:
            what = text(e)
    raise LoweringError(
        f"pragma alu: {text(store)}",
        f"{what} is neither an accumulator nor a number from {IMMEDIATES[0]} to {IMMEDIATES[-1]}",
        "load larger numbers into acc_buffer",
    )


# --- loops over elements -------------------------------------------------------------------------


def _over_elements(
    store: Store, name: str, loops: list[For], operands: list[Load], operand: Load | Const
) -> Stmt:
    """The operation in loops over elements."""
    config, size = machine(), element_size(Memory.ACC)
    sweeps = _shortened(_elements(store, _sweeps(store, loops, operands), size))
    begins = [substitute(e.indices[0], {loop.var: 0 for loop in loops}) for e in operands]
    counters = [Var(f"i{n}", 0, sweep.extent - 1) for n, sweep in enumerate(sweeps)]
    args: list[Expr] = []
    for n, (e, begin) in enumerate(zip(operands, begins, strict=True)):
        at: Index = begin
        for v, sweep in zip(counters, sweeps, strict=True):
            at = add(at, mul(v, sweep.strides[n]))
        args.append(
            view_at(e.buffer, (at,), (config.batch, config.block_out), (config.block_out, 1))
        )
    if isinstance(operand, Const):
        args.append(operand)
    made: Stmt = Evaluate(Call(f"{prefix()}.{name}", tuple(args), dtype_of("int32")))
    for v, sweep in zip(reversed(counters), reversed(sweeps), strict=True):
        made = For(v, sweep.extent, made)
    return made


def _sweeps(store: Store, loops: list[For], operands: list[Load]) -> list[Sweep]:
    """What each loop does to each operand; neighbours that run on become one."""
    found: list[Sweep] = []
    for loop in loops:
        strides: list[int] = []
        for e in operands:
            factors = [c for a, c in split_terms(e.indices[0])[0] if a is loop.var]
            rest = sub(e.indices[0], mul(loop.var, sum(factors)))
            if not isinstance(loop.extent, int) or not free_of(rest, [loop.var]):
                raise LoweringError(
                    f"pragma alu: {text(store)}",
                    f"loop {loop.var.name!r} does not move {e.buffer.name} in even steps",
                    "loops of constant extents over the dimensions",
                )
            strides.append(sum(factors))
        assert isinstance(loop.extent, int)
        found.append(Sweep(loop.extent, tuple(strides)))
    # the loops of a reduction outside: the next operation on an accumulator comes late
    found.sort(key=lambda sweep: (sweep.strides[0] != 0, -sweep.strides[0]))
    joined: list[Sweep] = []
    for sweep in found:
        if joined and joined[-1].strides == tuple(s * sweep.extent for s in sweep.strides):
            joined[-1] = Sweep(joined[-1].extent * sweep.extent, sweep.strides)
        else:
            joined.append(sweep)
    return joined


def _elements(store: Store, sweeps: list[Sweep], size: int) -> list[Sweep]:
    """The loops without those inside an element of `size` numbers."""
    last = sweeps[-1] if sweeps else Sweep(1, ())
    whole = size == 1 or (
        last.extent % size == 0
        and set(last.strides) == {1}
        and all(step % size == 0 for sweep in sweeps[:-1] for step in sweep.strides)
    )
    if not whole:
        raise LoweringError(
            f"pragma alu: {text(store)}",
            f"it does not work on whole elements of {size} numbers",
            f"the last dimensions in acc_buffer are {machine().batch}, {machine().block_out}, "
            "and the pragma stands outside of their loops",
        )
    if size == 1:
        return sweeps
    inner = Sweep(last.extent // size, tuple(size for _ in last.strides))
    return [*sweeps[:-1], *([inner] if inner.extent > 1 else [])]


def _shortened(sweeps: list[Sweep]) -> list[Sweep]:
    """Two loops in place of one that is too long for an instruction: 100352 is 14336 of 7."""
    found: list[Sweep] = []
    for sweep in sweeps:
        least = -(-sweep.extent // MOST_TURNS)
        parts = (n for n in range(least, MOST_TURNS + 1) if sweep.extent % n == 0)
        inner = 1 if least < 2 else next(parts, 1)
        found.append(Sweep(sweep.extent // inner, tuple(n * inner for n in sweep.strides)))
        found += [Sweep(inner, sweep.strides)] if inner > 1 else []
    return found
