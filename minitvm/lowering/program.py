"""Make the loop program on which the first pass runs, and its prepack program."""

from __future__ import annotations

from dataclasses import replace

from minitvm import schedule, tensor, tir

from .nest import nest
from .normalize import normalize
from .parameters import check_complete, check_indices, current_tensor, needs, sizes
from .prepack import prepack_stages
from .regions import LoweringContext, allocate
from .vthread import check_threads


def first_program(
    state: schedule.State, args: tuple[tensor.Tensor | tir.Var, ...], name: str, prepack: bool
) -> tir.PrimFunc:
    """Return the loop program of `state` before the first pass.

    prepack   whether stages that depend on constants alone become a program of their own
    """
    plain = normalize(state)
    current = {a: current_tensor(state, plain, a) for a in args if isinstance(a, tensor.Tensor)}
    buffers = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in current.values()}
    check_complete(plain, args, buffers)
    params = tuple(buffers[current[a]] if isinstance(a, tensor.Tensor) else a for a in args)
    constants = schedule.constants(plain)
    fixed = {b for t, b in buffers.items() if t.op in constants}
    func = tir.PrimFunc(
        name,
        params,
        tir.NOTHING,
        tuple(b for t, b in buffers.items() if not isinstance(t.op, tensor.PlaceholderOp)),
        sizes(params),
        needs(state),
        constants=tuple(p for p in params if isinstance(p, tir.Buffer) and p in fixed),
    )
    func = _with_loops(func, allocate(plain, buffers), prepack)
    for part in (func, func.prepack) if func.prepack else (func,):
        check_indices(part)
        check_threads(part.body)
    return func


def _with_loops(func: tir.PrimFunc, context: LoweringContext, prepack: bool) -> tir.PrimFunc:
    """Return `func` with the loops of all stages; with `prepack`, some are in func.prepack."""
    prepacked, main = prepack_stages(context) if prepack else ([], [])
    tensors_read = {t for s in main for t in schedule.inputs(s)}
    results = [tensor.tensor_of(s.op, i) for s in prepacked for i in range(len(s.op.dtypes))]
    stored = [t for t in results if t in tensors_read]
    if not stored:
        return replace(func, body=nest(context, context.state.stages))
    context = replace(context, not_allocated=context.not_allocated | {*stored})
    packed = tuple(context.buffers[t] for t in stored)
    params = (*func.constants, *packed)
    first = tir.PrimFunc(f"{func.name}_prepack", params, nest(context, prepacked), packed)
    return replace(func, body=nest(context, main), prepack=first)
