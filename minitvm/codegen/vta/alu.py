"""A pass that turns loops of arithmetic into ALU operations on whole elements."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import accel, lowering, tir
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of

from .now import stride

OPERATIONS = {"add": "add", "mul": "mul", "min": "min", "max": "max", "shr": "shr", "shl": "shr"}


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A loop of `extent` iterations, each of which advances operand n by strides[n] numbers."""

    extent: int
    strides: tuple[int, ...]


def inject_alu_intrin(s: tir.Stmt) -> tir.Stmt:
    """Turn a loop of arithmetic under the pragma alu into ALU operations on whole elements.

        # pragma alu = 1
        for i in range(64):                      for i in range(64):
          for j in range(16):              ->      vta.add(A_buf[i], B_buf[i])
            A_buf[i*16 + j] =
              A_buf[i*16 + j] + B_buf[i*16 + j]

    The ALU has 32-bit add, mul, min, max and shifts of an accumulator by another or by a constant;
    the result replaces the first operand. A left shift is a right shift by a negative number, a
    copy onto itself is a shift by 0, and a - 3 is a + (-3). If the shift amount is an accumulator,
    a negative amount shifts left, whereas a CPU shifts all bits out.
    Under the pragma skip_alu, the loop is removed.
    Needs flat offsets. Raises LoweringError for other formulas.
    """
    return lowering.replace_marked(s, "alu", _operation)


def _operation(body: tir.Stmt) -> tir.Stmt:
    loops, innermost = lowering.peeled(body)
    if not isinstance(innermost, tir.Store):
        why = "the loops do not contain just one operation"
        fix = "pragma on the first loop of a stage with one operation, and no guard"
        raise LoweringError(f"pragma alu around\n{tir.text(body)}", why, fix)
    _check_memory(innermost)
    name, operand = _matched(innermost)
    operands = [tir.Load(innermost.buffer, innermost.indices, innermost.buffer.dtype)]
    operands += [operand] if isinstance(operand, tir.Load) else []
    return _over_elements(innermost, name, loops, operands, operand)


def _check_memory(store: tir.Store) -> None:
    """Check that the ALU reads and writes only accumulators."""
    for b in (store.buffer, *(e.buffer for e in tir.walk(store.value) if isinstance(e, tir.Load))):
        if lowering.memory_of(b) is not accel.Memory.ACC:
            why = f"{b.name} is in {b.scope!r}, and the ALU works in acc_buffer"
            fix = f"set_scope(env.acc_scope) of {b.name}, or a cache_read into acc_buffer"
            raise _refusal(store, why, fix)


def _matched(store: tir.Store) -> tuple[str, tir.Load | tir.Const]:
    """Return the name of the ALU operation that a store computes, and its second operand."""
    match store.value:
        case tir.Load() as e if _is_target(store, e):
            return "shr", tir.const(0, "int32")
        case tir.Binary("shr" | "shl" as op, a, b) if _is_target(store, a):
            _check_shift(store, b)
            return "shr", _operand(store, b, negate=op == "shl")
        case tir.Binary("sub", a, tir.Const() as b) if _is_target(store, a):
            return "add", _operand(store, b, negate=True)
        case tir.Binary(op, a, b) if op in OPERATIONS and _is_target(store, a):
            return OPERATIONS[op], _operand(store, b)
        case tir.Binary("add" | "mul" | "min" | "max" as op, a, b) if _is_target(store, b):
            return op, _operand(store, a)
        case tir.Binary(op, tir.Load(), tir.Load() | tir.Const()) | tir.Binary(
            op, tir.Const(), tir.Load()
        ) if op in OPERATIONS or (op == "sub" and isinstance(store.value.b, tir.Const)):
            raise _refusal(
                store,
                "the ALU overwrites an operand with the result; here each operand is read later or "
                "has another size",
                "one stage per operation, whose operand no later stage reads",
            )
        case _:
            raise _refusal(
                store,
                "it is not a single operation of the ALU",
                "one stage each for a + b, a - number, a * b, te.max(a, b), te.min(a, b), a >> b, "
                "a << number, of int32",
            )


def _check_shift(store: tir.Store, b: tir.Expr) -> None:
    """Raise LoweringError for a negative shift: the ALU shifts left, a CPU shifts all bits out."""
    if isinstance(b, tir.Const) and b.value < 0:
        why = f"a shift by {b.value} clears all bits on a CPU; the ALU shifts the other way"
        raise _refusal(store, why, "a >> 3 or a << 3: shifts by 0 or more")


def _is_target(store: tir.Store, e: tir.Expr) -> bool:
    """Return whether `e` reads the number that `store` overwrites."""
    return (
        isinstance(e, tir.Load)
        and e.buffer is store.buffer
        and tir.prove_equal(e.indices[0], store.indices[0])
    )


def _operand(store: tir.Store, e: tir.Expr, negate: bool = False) -> tir.Load | tir.Const:
    """Return `e` as an operand of the ALU: an accumulator, or a 16-bit number (-e if `negate`)."""
    match e:
        case tir.Load() if not negate:
            return e
        case tir.Load():
            why = "the ALU shifts left by constants only; by an accumulator it shifts right"
            raise _refusal(store, why, "a << 3; or a >> b with the negative of b")
        case tir.Const(value) if isinstance(value, int):
            number = -value if negate else value
            if number in accel.IMMEDIATES:
                return tir.const(number, "int32")
            what = f"{number}, which is to be added," if negate and number > 0 else f"{number}"
        case _:
            what = tir.text(e)
    allowed_range = f"a number from {accel.IMMEDIATES[0]} to {accel.IMMEDIATES[-1]}"
    why = f"{what} is neither an accumulator nor {allowed_range}"
    raise _refusal(store, why, "load larger numbers into acc_buffer")


def _refusal(store: tir.Store, why: str, fix: str) -> LoweringError:
    return LoweringError(f"pragma alu: {tir.text(store)}", why, fix)


# --- loops over elements -------------------------------------------------------------------------


def _over_elements(
    store: tir.Store,
    name: str,
    loops: list[tir.For],
    operands: list[tir.Load],
    operand: tir.Load | tir.Const,
) -> tir.Stmt:
    """Return loops over whole elements around the ALU operation `name`."""
    config = lowering.machine()
    sweeps = _shortened(_elements(store, _sweeps(store, loops, operands), config))
    begins = [tir.substitute(e.indices[0], {loop.var: 0 for loop in loops}) for e in operands]
    counters = [tir.Var(f"i{n}", 0, sweep.extent - 1) for n, sweep in enumerate(sweeps)]
    args: list[tir.Expr] = []
    for n, (e, begin) in enumerate(zip(operands, begins, strict=True)):
        at: tir.Index = begin
        for v, sweep in zip(counters, sweeps, strict=True):
            at = tir.add(at, tir.mul(v, sweep.strides[n]))
        args.append(
            tir.view_at(e.buffer, (at,), (config.batch, config.block_out), (config.block_out, 1))
        )
    if isinstance(operand, tir.Const):
        args.append(operand)
    body: tir.Stmt = tir.Evaluate(
        tir.Call(f"{lowering.prefix()}.{name}", tuple(args), dtype_of("int32"))
    )
    for v, sweep in zip(reversed(counters), reversed(sweeps), strict=True):
        body = tir.For(v, sweep.extent, body)
    return body


def _sweeps(store: tir.Store, loops: list[tir.For], operands: list[tir.Load]) -> list[Sweep]:
    """Return a Sweep for each loop; merge loops that together step evenly through memory."""
    sweeps: list[Sweep] = []
    for loop in loops:
        strides: list[int] = []
        for e in operands:
            step = stride(e.indices[0], loop.var)
            if not isinstance(loop.extent, int) or step is None:
                why = f"loop {loop.var.name!r} does not step through {e.buffer.name} evenly"
                raise _refusal(store, why, "loops of constant extents over the dimensions")
            strides.append(step)
        assert isinstance(loop.extent, int)
        sweeps.append(Sweep(loop.extent, tuple(strides)))
    # reduction loops outside, so that operations on one accumulator are far apart
    sweeps.sort(key=lambda sweep: (sweep.strides[0] != 0, -sweep.strides[0]))
    merged: list[Sweep] = []
    for sweep in sweeps:
        if merged and merged[-1].strides == tuple(s * sweep.extent for s in sweep.strides):
            merged[-1] = Sweep(merged[-1].extent * sweep.extent, sweep.strides)
        else:
            merged.append(sweep)
    return merged


def _elements(store: tir.Store, sweeps: list[Sweep], config: accel.Config) -> list[Sweep]:
    """Turn loops over numbers into loops over elements, each of which has several numbers.

    Raises LoweringError if the loops do not cover whole elements.
    """
    size = config.batch * config.block_out
    last = sweeps[-1] if sweeps else Sweep(1, ())
    whole = size == 1 or (
        last.extent % size == 0
        and set(last.strides) == {1}
        and all(step % size == 0 for sweep in sweeps[:-1] for step in sweep.strides)
    )
    if not whole:
        last_two = f"last dimensions {config.batch}, {config.block_out} in acc_buffer"
        why = f"it does not work on whole elements of {size} numbers"
        raise _refusal(store, why, f"{last_two}, and the pragma outside of their loops")
    if size == 1:
        return sweeps
    inner = Sweep(last.extent // size, tuple(size for _ in last.strides))
    return [*sweeps[:-1], *([inner] if inner.extent > 1 else [])]


def _shortened(sweeps: list[Sweep]) -> list[Sweep]:
    """Split loops that are too long for an instruction, such as 100352 into 14336 times 7."""
    shorter: list[Sweep] = []
    for sweep in sweeps:
        least = -(-sweep.extent // lowering.MAX_ITERATIONS)
        parts = (n for n in range(least, lowering.MAX_ITERATIONS + 1) if sweep.extent % n == 0)
        inner = 1 if least < 2 else next(parts, 1)
        shorter.append(Sweep(sweep.extent // inner, tuple(n * inner for n in sweep.strides)))
        shorter += [Sweep(inner, sweep.strides)] if inner > 1 else []
    return shorter
