"""Tensorization: match the inner loops of a stage with the formula of a tensor intrinsic.

    for io in range(8):                               for io in range(8):
      for i in range(8):                                gemm(C[io*8 : ...], A[io*8 : ...], B)
        for j in range(8):                       ->
          for k in range(8):                          where gemm's formula is
            C[io*8 + i, j] += A[io*8 + i, k]*B[k, j]    z[i, j] = sum(x[i, k]*y[k, j], k)

This takes four steps: find the box of the stage's axes over which the inner loops iterate, check
that it is as large as the intrinsic's, check that both formulas are equal on it, and find the part
of a buffer that each operand stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from minitvm import schedule, tensor, tir
from minitvm.base import DType, LoweringError, Reason, raise_first

from .checks import has_mixed_loops
from .operands import OperandView, instantiate
from .regions import Domain, sweep
from .unify import Base, Difference, unify

Place = Callable[[tensor.Tensor, tuple[tir.Index, ...]], tuple[tir.Index, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The statements that replace the inner loops of a tensorized stage.

    body       computes the results of the inner loops; None if the intrinsic has no body
    reset, update    replace `body` if it is None, or there are reduce loops around the inner loops
    reduces    the variables of those reduce loops
    """

    body: tir.Stmt | None
    reset: tir.Stmt | None
    update: tir.Stmt | None
    reduces: tuple[tir.Var, ...]


def tensorized(stage: schedule.Stage) -> int | None:
    """Return the depth of the outermost loop that an intrinsic replaces, or None if none does."""
    for d, a in enumerate(stage.leaves):
        if stage.note(a).intrin is not None:
            return d
    return None


def region(
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    domain: Domain,
    depth: int,
    buffers: dict[tensor.Tensor, tir.Buffer],
    place: Place,
) -> Region:
    """Return the statements that replace the loops of `stage` from `depth` inwards.

    Raises LoweringError if these loops do not compute the intrinsic's formula; the message shows
    the difference.
    """
    intrin = stage.note(stage.leaves[depth]).intrin
    assert intrin is not None
    what = f"tensorize of {stage.leaves[depth].name!r} in {stage.name} with {intrin.name}"
    outer, inner = stage.leaves[:depth], stage.leaves[depth:]
    raise_first(LoweringError, what, _about_loops(stage, domain, inner))
    fixed = {*domain.around, *(domain.loops[a] for a in outer if a in domain.loops)}
    values, starts = _values(what, op, domain, fixed, intrin)
    raise_first(LoweringError, what, _about_box(domain, inner, intrin))
    operands = _matched(what, op, intrin, values)
    corner = tuple(starts[a] for a in op.axis)
    operands |= {t: (op.output(i), corner) for i, t in enumerate(intrin.outputs)}
    windows = {
        intrin.buffers[t]: OperandView(buffers[source], _placed(place, source, base))
        for t, (source, base) in operands.items()
    }
    reduces = tuple(domain.loops[a] for a in outer if a.kind == "reduce" and a in domain.loops)
    if reduces:
        raise_first(LoweringError, what, _about_update(stage, intrin, reduces))

    def placed(part: tir.Stmt | None) -> tir.Stmt | None:
        return None if part is None else instantiate(part, windows, what)

    return Region(placed(intrin.body), placed(intrin.reset), placed(intrin.update), reduces)


def _placed(
    place: Place, t: tensor.Tensor, base: Base
) -> Callable[[tuple[tir.Index, ...]], tuple[tir.Index, ...]]:
    """Return a function that maps an index relative to `base` to indices of the buffer of `t`."""
    lead = len(base)

    def where(at: tuple[tir.Index, ...]) -> tuple[tir.Index, ...]:
        padded = (0,) * (lead - len(at)) + at
        return place(t, tuple(tir.add(b, i) for b, i in zip(base, padded, strict=True)))

    return where


# --- loops ---------------------------------------------------------------------------------------


def _about_loops(
    stage: schedule.Stage, domain: Domain, inner: tuple[tensor.Axis, ...]
) -> Iterator[Reason]:
    """Yield a reason if an inner loop is not serial, or a guard depends on an inner loop."""
    for a in inner:
        if stage.note(a).kind != "serial":
            why = f"loop {a.name!r} inside it is marked {stage.note(a).kind}"
            yield why, "the intrinsic replaces those loops: mark loops outside of it"
    name_of_loop = {id(domain.loops[a]): a.name for a in inner if a in domain.loops}
    for g in domain.conditions:
        names = [name_of_loop[id(v)] for v in tir.variables(g) if id(v) in name_of_loop]
        if names:
            yield (
                f"the guard {tir.text(g)} depends on loop {', '.join(names)} inside it, "
                "but an intrinsic has no guard and computes all its elements",
                "use split sizes that divide the extents, or pad the tensor in another stage",
            )


def _values(
    what: str,
    op: tensor.ComputeOp,
    domain: Domain,
    fixed: set[tir.Var],
    intrin: tensor.TensorIntrin,
) -> tuple[dict[tensor.Axis, tir.Index], dict[tensor.Axis, tir.Index]]:
    """Map each axis of the stage to its value, and to its first value; return both mappings.

    The values are expressions of the intrinsic's axes and of the variables `fixed` of outer loops.
    Raises LoweringError if the inner loops have other extents than the intrinsic.
    """
    values: dict[tensor.Axis, tir.Index] = {}
    starts: dict[tensor.Axis, tir.Index] = {}
    pairs = ((op.axis, intrin.op.axis), (op.reduce_axis, intrin.op.reduce_axis))
    for axes, intrin_axes in pairs:
        if len(axes) < len(intrin_axes):
            kind, expected = intrin_axes[0].kind, len(intrin_axes)
            why = f"the intrinsic has {expected} {kind} axes, {op.name} has {len(axes)}"
            raise LoweringError(what, why, "use another intrinsic")
        for a, b in zip(
            axes, (*[None] * (len(axes) - len(intrin_axes)), *intrin_axes), strict=True
        ):
            starts[a], last = sweep(domain.values[a], fixed)
            extent, size = tir.add(tir.sub(last, starts[a]), 1), 1 if b is None else b.extent
            if not tir.prove_equal(extent, size):
                raise LoweringError(
                    what,
                    f"the loops inside run over {tir.text(extent)} values of {a.name!r}, "
                    f"the intrinsic over {tir.text(size)}"
                    + ("" if b is None else f" of {b.name!r}"),
                    f"split {a.name} by {tir.text(size)} and move the inner part inside"
                    if b is not None
                    else f"reorder {a.name} to the outside",
                )
            values[a] = starts[a] if b is None else tir.add(starts[a], tir.sub(b, b.start))
    return values, starts


def _about_box(
    domain: Domain, inner: tuple[tensor.Axis, ...], intrin: tensor.TensorIntrin
) -> Iterator[Reason]:
    """Yield a reason unless the inner loops visit each point of the intrinsic's box once."""
    counts = [domain.extents[a] for a in inner]
    axes = (*intrin.op.axis, *intrin.op.reduce_axis)
    box = prod(n for a in axes if isinstance(n := a.extent, int))
    visits = prod(n for n in counts if isinstance(n, int))
    if any(not isinstance(n, int) for n in counts) or visits != box:
        why = f"the loops inside visit {visits} of the {box} points of the intrinsic's box"
        yield why, "split axes by the extents of the intrinsic, and do not fuse them"


def _about_update(
    stage: schedule.Stage, intrin: tensor.TensorIntrin, reduces: tuple[tir.Var, ...]
) -> Iterator[Reason]:
    """Yield a reason if the intrinsic cannot add to results of the outer reduce loops `reduces`."""
    if intrin.update is None:
        yield (
            f"the reduction continues outside, over {', '.join(v.name for v in reduces)}, and the "
            "intrinsic has no update",
            "declare the intrinsic with an fcompute that returns (body, reset, update)",
        )
    for a in stage.leaves:
        if a.kind == "reduce" and stage.note(a).kind == "bind":
            yield (
                f"reduce loop {a.name!r} outside it is bound to threads, and the intrinsic does "
                "not combine their results",
                "rfactor first, or bind data loops",
            )
    if has_mixed_loops(stage):
        why = "a data loop is fused with a reduce loop outside it"
        yield why, "fuse only data loops, or only reduce loops"


# --- formulas ------------------------------------------------------------------------------------


def _matched(
    what: str,
    op: tensor.ComputeOp,
    intrin: tensor.TensorIntrin,
    values: dict[tensor.Axis, tir.Index],
) -> dict[tensor.Tensor, tuple[tensor.Tensor, Base]]:
    """Map each input of the intrinsic to a tensor of the stage and the index where its part begins.

    Raises LoweringError if the stage and the intrinsic have different formulas.
    """
    reduction, expected = op.reduction, intrin.op.reduction
    if (reduction is None) != (expected is None):
        names = (op.name, intrin.op.name) if expected is None else (intrin.op.name, op.name)
        raise LoweringError(what, f"{names[0]} is a reduction, and {names[1]} is not")
    if reduction is not None and (reduction.init or reduction.where is not tir.TRUE):
        raise LoweringError(what, "its reduction has where= or init=, and no intrinsic has these")
    provided = [
        tir.substitute(e, values) for e in (op.body if reduction is None else reduction.sources)
    ]
    pattern = list(intrin.op.body if expected is None else expected.sources)
    try:
        parts = unify(provided, pattern, intrin.op)
        if (
            reduction is not None
            and expected is not None
            and reduction.reducer is not expected.reducer
        ):
            kinds = [e.dtype for e in reduction.sources]
            unify(
                _folding(reduction.reducer, kinds),
                _folding(expected.reducer, kinds),
                intrin.op,
            )
        return parts
    except Difference as d:
        names = ["" if r is None else f"{r.reducer.name} of " for r in (reduction, expected)]
        raise LoweringError(
            what,
            f"the formulas differ\n  {op.name} is {names[0]}{', '.join(map(tir.text, provided))}"
            f"\n  {intrin.name} is {names[1]}{', '.join(map(tir.text, pattern))}"
            f"\n  they differ at {d.provided} and {d.pattern}",
            "the order of loops and of indices, and the types, must be those of the intrinsic",
        ) from None


def _folding(r: tensor.Reducer, kinds: list[DType]) -> list[tir.Expr]:
    """Return the reducer's formulas that combine x0, x1, ... with y0, y1, ..., and its identity.

    `kinds` are the types of the values. Two reducers are the same if these formulas are equal.
    """
    totals, terms = (
        tuple(tir.Load(tir.Buffer(f"{name}{n}", (), t), (), t) for n, t in enumerate(kinds))
        for name in ("x", "y")
    )
    return [*r.combine(totals, terms), *r.identity(tuple(kinds))]
