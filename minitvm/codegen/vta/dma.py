"""A pass that turns copy loops into transfers between main memory and the accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from minitvm import accel, lowering, tir
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of

from .accelerator import NOP
from .units import COPY


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Loops that copy `source` to `to` element by element; 0 is stored where `where` is false."""

    loops: tuple[tir.For, ...]
    to: tir.Store
    source: tir.Load
    where: tuple[tir.Compare, ...]

    @property
    def what(self) -> str:
        """Return the name of the copy that error messages use."""
        return f"dma_copy of {self.source.buffer.name} to {self.to.buffer.name}"


def inject_dma_intrin(s: tir.Stmt) -> tir.Stmt:
    """Turn the loops of a copy under the pragma dma_copy into one transfer.

        # pragma dma_copy = 1
        for i in range(8):              ->   vta.dma_copy2d(A_buf, A[k][0:8])
          A_buf[0, i] = A[k, i]

    A copy that is 0 where an index is out of bounds becomes a transfer with padding: the numbers of
    zeros before and after each dimension are further arguments. In main memory an index may have a
    step: A[k, i*2]. Under the pragma skip_dma_copy, the loops are removed. A store narrows numbers
    as a conversion does, and a load of int8 into acc_buffer widens them. Each access needs one
    index per dimension, so `flatten` runs later. Raises LoweringError for loops that do more than
    copy, and for copies that reorder elements.
    """
    return lowering.replace_marked(s, "dma_copy", lambda body: _transfer(_copy(body)))


def _copy(body: tir.Stmt) -> Copy:
    """Return the copy that the loops do, or raise LoweringError if they do something else."""
    loops, innermost = lowering.peeled(body)
    if not isinstance(innermost, tir.Store):
        raise LoweringError(f"pragma dma_copy around\n{tir.text(body)}", *_why_no_copy(innermost))
    value, where = _unconverted(innermost.buffer, innermost.value), tuple[tir.Compare, ...]()
    if isinstance(value, tir.IfThenElse | tir.Select) and _is_zero(value.b):
        where = tuple(_comparison(c, tir.text(body)) for c in lowering.conjuncts(value.cond))
        value = _unconverted(innermost.buffer, value.a)
    if not isinstance(value, tir.Load):
        why = f"it stores {tir.text(innermost.value)}, and a transfer cannot compute"
        fix = "compute the arithmetic in a separate stage with pragma 'alu'"
        raise LoweringError(f"dma_copy to {innermost.buffer.name}", why, fix)
    return Copy(tuple(loops), innermost, value, where)


def _why_no_copy(inside: tir.Stmt) -> tuple[str, str]:
    """Return why the body of the loops is not a copy, and what to try."""
    if isinstance(inside, tir.If):
        return "a condition guards the copy", "split by factors that divide the extents"
    calls = [s.value for s in tir.every(inside) if isinstance(s, tir.Evaluate)]
    if any(isinstance(e, tir.Call) and e.name == NOP for e in calls):
        why = "the loops contain an instruction of the compute unit besides the copy"
        return why, "pragma 'coproc_sync' on the loop that has 'dma_copy'"
    return "the loops do not contain just one copy", "pragma on the first loop of the copy"


def _unconverted(to: tir.Buffer, e: tir.Expr) -> tir.Expr:
    """Return `e` without the type conversion that a transfer to the buffer `to` performs."""
    if not isinstance(e, tir.Cast) or not isinstance(e.value, tir.Expr) or tir.is_index(e.value):
        return e
    memory = lowering.memory_of(to)
    narrows = memory is None  # STORE keeps the low bits, like a conversion
    widens = memory is accel.Memory.ACC and str(e.value.dtype) == lowering.machine().dtype(
        accel.Memory.ACC_8BIT
    )
    return e.value if narrows or widens else e


def _is_zero(e: tir.Expr) -> bool:
    return isinstance(e, tir.Const) and e.value == 0


def _comparison(cond: tir.Expr, what: str) -> tir.Compare:
    """Return the condition if it is a comparison; otherwise raise LoweringError."""
    if isinstance(cond, tir.Compare):
        return cond
    why = f"{tir.text(cond)} is not a bound on an index"
    fix = "te.all(i >= 1, i < n + 1, ...)"
    raise LoweringError(f"pragma dma_copy around\n{what}", why, fix)


# --- boxes ---------------------------------------------------------------------------------------


def _transfer(copy: Copy) -> tir.Stmt:
    """Return the transfer instruction that does the whole copy."""
    if all(lowering.memory_of(e.buffer) is None for e in (copy.to, copy.source)):
        fix = "set_scope(env.inp_scope), wgt_scope or acc_scope for one of them"
        raise LoweringError(copy.what, "neither buffer is in a memory of the accelerator", fix)
    to, source = _box(copy, copy.to), _box(copy, copy.source)
    _check_compact(copy, to if lowering.memory_of(copy.to.buffer) is not None else source)
    _check_order(copy, to, source)
    begins, counts, pads = source.begins, list[tir.Index](source.counts), list[tir.Index]()
    if copy.where:
        begins, counts, pads = _clipped(copy, source)
    transfer = (
        _part(copy.to, to.begins, list(to.counts), to.steps),
        _part(copy.source, begins, counts, source.steps),
    )
    numbers = [tir.cast_to(n, "int32") for n in pads]
    return tir.Evaluate(
        tir.Call(f"{lowering.prefix()}.{COPY}", (*transfer, *numbers), dtype_of("int32"))
    )


@dataclass(frozen=True, slots=True)
class Box:
    """The part of a buffer that loops visit: in dimension d, counts[d] indices, steps[d] apart.

    For example, A[i, j*2 + 1] with i in 0..7 and j in 0..15 has begins [0, 1], counts [8, 16] and
    steps [1, 2].
    """

    begins: list[tir.Index]
    counts: list[int]
    steps: list[int]


def _part(
    e: tir.Load | tir.Store, begins: list[tir.Index], counts: list[tir.Index], steps: list[int]
) -> tir.View:
    """Return a part of a buffer as an argument of a transfer."""
    strides = tuple(
        tir.mul(n, step) for n, step in zip(tir.row_strides(e.buffer), steps, strict=True)
    )
    return tir.view_at(e.buffer, tuple(begins), tuple(counts), strides)


def _box(copy: Copy, e: tir.Load | tir.Store) -> Box:
    """Return the part of a buffer that the loops visit through the load or store `e`."""
    loop_ids = {id(loop.var) for loop in copy.loops}
    box = Box([], [], [])
    for i in e.indices:
        first, last = lowering.sweep(i, [v for v in _variables(i) if id(v) not in loop_ids])
        step = _step(i, loop_ids)
        n = tir.add(tir.floordiv(tir.sub(last, first), step), 1)
        if not isinstance(n, int):
            why = f"it copies {tir.text(n)} elements along {tir.text(i)}, which is not a constant"
            raise LoweringError(copy.what, why, "constant extents")
        box.begins.append(first)
        box.counts.append(n)
        box.steps.append(step if n > 1 else 1)
    visits = [loop.extent for loop in copy.loops]
    if any(not isinstance(n, int) for n in visits) or prod(box.counts) != prod(
        n for n in visits if isinstance(n, int)
    ):
        shape = " x ".join(map(str, box.counts))
        why = f"its loops do not visit each element of a box of {shape} exactly once"
        raise LoweringError(copy.what, why, "one loop over each dimension")
    return box


def _step(i: tir.Index, mine: set[int]) -> int:
    """Return the step between the values of index `i` in the loops: 2 for 2*j + 1.

    `mine` contains the ids of the loop variables. The result is 1 if the step is unknown.
    """
    loop_terms = [
        (a, c) for a, c in tir.split_terms(i)[0] if any(id(v) in mine for v in _variables(a))
    ]
    known = loop_terms and all(isinstance(a, tir.Var) for a, _ in loop_terms)
    return gcd(*(c for _, c in loop_terms)) if known else 1


def _variables(e: tir.Index) -> list[tir.Var]:
    return [] if isinstance(e, int) else tir.variables(e)


def _check_order(copy: Copy, to: Box, source: Box) -> None:
    """Check that the loops visit both boxes in the same order, row by row."""
    position = _position(copy.to.indices, to)
    if not tir.prove_equal(position, _position(copy.source.indices, source)):
        stored = tir.Load(copy.to.buffer, copy.to.indices, copy.to.buffer.dtype)
        from_to = f"{tir.text(copy.source)} to {tir.text(stored)}"
        why = f"it changes the order of dimensions, {from_to}, but a transfer keeps the order"
        raise LoweringError(copy.what, why, "transpose the array when it is packed, in numpy")


def _position(indices: tuple[tir.Index, ...], box: Box) -> tir.Index:
    """Return how many elements of the box precede the one at `indices`, row by row."""
    total: tir.Index = 0
    for i, first, n, step in zip(indices, box.begins, box.counts, box.steps, strict=True):
        total = tir.add(tir.mul(total, n), tir.floordiv(tir.sub(i, first), step))
    return total


def _check_compact(copy: Copy, box: Box) -> None:
    """Check that the elements are contiguous in the memory of the accelerator."""
    is_load = lowering.memory_of(copy.to.buffer) is not None
    local, shape = copy.to.buffer if is_load else copy.source.buffer, box.counts
    partial = [
        d
        for d, (n, whole) in enumerate(zip(shape, local.shape, strict=True))
        if not tir.prove_equal(n, whole)
    ]
    gaps = bool(partial) and any(n != 1 for n in shape[: partial[-1]])
    if gaps or max(box.steps, default=1) > 1 or local.strides:
        raise LoweringError(
            copy.what,
            f"the {' x '.join(map(str, shape))} elements are not contiguous in {local.name}"
            f"[{', '.join(map(tir.text, local.shape))}]; a transfer needs contiguous elements",
            f"compute_at an outer loop, so that all of {local.name} is copied at once",
        )


# --- padding -------------------------------------------------------------------------------------


def _clipped(copy: Copy, box: Box) -> tuple[list[tir.Index], list[tir.Index], list[tir.Index]]:
    """Return the begins and counts of the part of the box that is in bounds, and the padding.

    The padding is (before, after) of each dimension. For example, if the buffer has rows 0 .. 55,
    the part of 8 rows from h*8 - 1 on begins at max(h*8 - 1, 0), and max(0, 1 - h*8) rows of zeros
    are before it. For a tile that is all padding, the count of the part is 0 or negative.
    """
    if lowering.memory_of(copy.to.buffer) is None:
        raise LoweringError(copy.what, "a store cannot pad", "pad when the data is loaded again")
    lows: dict[int, int] = {}
    ends: dict[int, int] = {}
    for c in copy.where:
        _learn(copy, c, lows, ends)
    new: list[tir.Index] = []
    counts: list[tir.Index] = []
    pads: list[tir.Index] = []
    for d, (first, n) in enumerate(zip(box.begins, box.counts, strict=True)):
        if (d in lows or d in ends) and box.steps[d] > 1:
            source, step = tir.text(copy.source), box.steps[d]
            why = f"it pads dimension {d} of {source}, with step {step}; a transfer cannot do both"
            raise LoweringError(copy.what, why, "load all of the rows, or pad a copy of the data")
        before = tir.maximum(0, tir.sub(lows[d], first)) if d in lows else 0
        after = tir.maximum(0, tir.sub(tir.add(first, n), ends[d])) if d in ends else 0
        new.append(tir.add(first, before))
        counts.append(tir.sub(tir.sub(n, before), after))
        pads += [before, after]
    return new, counts, pads


def _learn(copy: Copy, c: tir.Compare, lows: dict[int, int], ends: dict[int, int]) -> None:
    """Record the bound that `c` puts on an index: the first value in `lows`, or the end in `ends`.

    For the load A[y*2 + dy - 1]:
        y*2 + dy >= 1      rest = y*2 + dy - 1 >= 0;     rest - index = 0:    lows[0] = 0
        y*2 + dy < 57      rest = 56 - (y*2 + dy) >= 0;  rest + index = 55:   ends[0] = 56
    """
    more = {"<": (c.b, c.a, 1), "<=": (c.b, c.a, 0), ">": (c.a, c.b, 1), ">=": (c.a, c.b, 0)}
    if c.op in more:
        big, small, least = more[c.op]
        rest = tir.sub(tir.sub(big, small), least)  # >= 0
        for d, i in enumerate(copy.source.indices):
            if isinstance(excess := tir.sub(rest, i), int):  # i + excess >= 0
                lows[d] = max(-excess, lows.get(d, -excess))
                return
            if isinstance(last := tir.add(rest, i), int):  # last - i >= 0
                ends[d] = min(last + 1, ends.get(d, last + 1))
                return
    why = f"{tir.text(c)} is not a bound on an index of {tir.text(copy.source)}"
    fix = "zeros where an index is out of bounds: te.all(i >= 1, i < n + 1, ...)"
    raise LoweringError(copy.what, why, fix)
