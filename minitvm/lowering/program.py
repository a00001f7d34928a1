"""Make the loop program on which the first pass runs, and its prepack program."""

from __future__ import annotations

from dataclasses import replace

from minitvm import schedule, tensor, tir

from .nest import nest
from .normalize import normalize
from .parameters import check_complete, check_indices, current_tensor, needs, sizes
from .prepack import beforehand
from .regions import Context, allocate, infer
from .vthread import check_threads


def first_program(
    state: schedule.State, args: tuple[tensor.Tensor | tir.Var, ...], name: str, prepack: bool
) -> tir.PrimFunc:
    """Return the loop program of `state` before the first pass.

    prepack   whether stages that depend on constants alone become a program of their own
    """
    plain = normalize(state)
    table = {a: current_tensor(state, plain, a) for a in args if isinstance(a, tensor.Tensor)}
    given = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in table.values()}
    check_complete(plain, args, given)
    context = allocate(plain, infer(plain), given)
    params = tuple(given[table[a]] if isinstance(a, tensor.Tensor) else a for a in args)
    outputs = tuple(b for t, b in given.items() if not isinstance(t.op, tensor.PlaceholderOp))
    constants = schedule.constants(plain)
    fixed = {b for t, b in given.items() if t.op in constants}
    func = tir.PrimFunc(
        name,
        params,
        tir.NOTHING,
        outputs,
        sizes(params),
        needs(state),
        constants=tuple(p for p in params if isinstance(p, tir.Buffer) and p in fixed),
    )
    func = _with_loops(func, context, beforehand(context) if prepack else ())
    for part in (func, func.prepack) if func.prepack else (func,):
        check_indices(part)
        check_threads(part.body)
    return func


def _with_loops(
    func: tir.PrimFunc, context: Context, early: tuple[schedule.Stage, ...]
) -> tir.PrimFunc:
    """Return `func` with the loops of all stages; the stages `early` are in func.prepack."""
    stages = context.state.stages
    late = [s for s in stages if not any(s is e for e in early)]
    read = {t for s in late for t in schedule.inputs(s)}
    made = [tensor.tensor_of(s.op, i) for s in early for i in range(len(s.op.dtypes))]
    kept = [t for t in made if t in read]
    if not kept:
        return replace(func, body=nest(context, stages))
    context = replace(context, not_allocated=context.not_allocated | {*kept})
    packed = tuple(context.buffers[t] for t in kept)
    params = (*func.constants, *packed)
    prepack = tir.PrimFunc(f"{func.name}_prepack", params, nest(context, early), packed)
    return replace(func, body=nest(context, late), prepack=prepack)
