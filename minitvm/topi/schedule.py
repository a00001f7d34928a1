"""topi.schedule, which makes a good default schedule for a network of topi operators."""

from __future__ import annotations

from typing import Any

from minitvm import te, tir
from minitvm.base import Target
from minitvm.schedule import effective_readers, from_constants, readers
from minitvm.tensor import Operation, loads

from .conv import CONV_ROWS
from .conv_channels import CONV_CHANNELS
from .conv_channels_schedule import schedule_channels
from .conv_schedule import schedule_rows
from .gemm import schedule_matmul, schedule_matvec
from .int8 import DOTS, schedule_dots
from .kinds import is_elementwise, is_product, size
from .layout_schedule import schedule_layout
from .layout_transform import LAYOUT
from .loops import schedule_plain, schedule_row_by_row
from .norm import ROW
from .operands import check_outputs
from .shape import INJECTIVE
from .window import WINDOW
from .window_schedule import schedule_window
from .winograd import WINOGRAD, WINOGRAD_PART
from .winograd_schedule import schedule_winograd

LONG = 500  # nodes of a formula; a longer one is not inlined
FEW = 2  # rows of a product whose time is the time to read the right operand


def schedule(outs: Any, target: str | Target = "llvm") -> te.Schedule:
    """Return a good schedule of `outs` (a tensor or a list) for `target`, without any search.

    Stages are recognised by their formulas, convolutions by their topi operators. Elementwise
    stages are inlined. A matrix product is tiled for registers and cache, and the elementwise stage
    after it is computed tile by tile. All other stages are vectorized over the last dimension and
    run in parallel over the others.
    """
    to = Target(target)
    s = te.create_schedule(check_outputs(outs))
    _inline(s)
    if to.kind == "python":
        return s
    done: set[str] = set()
    for stage in reversed(s.stages):
        op = stage.op
        if not isinstance(op, te.ComputeOp) or stage.name in done:
            continue
        if is_product(op):
            done |= _matmul(s, stage, op, to, done)
        elif op.tag == DOTS:
            done |= schedule_dots(s, stage, op, to)
        elif op.tag == CONV_ROWS:
            (crop,) = readers(s.state)[stage.name]
            done |= schedule_rows(s, stage, s[crop], to)
        elif op.tag == CONV_CHANNELS:
            done |= schedule_channels(s, stage, _fused(s, stage, done), to)
        elif op.tag == WINOGRAD:
            done |= schedule_winograd(s, stage, _fused(s, stage, done), to)
        elif op.tag == WINDOW:
            done |= schedule_window(s, stage, _fused(s, stage, done), to)
        elif op.tag == LAYOUT:
            done |= _layout(s, stage, to)
        elif op.tag == ROW and not stage.is_inlined:
            done |= schedule_row_by_row(s, stage, op, to)
    for stage in s.stages:
        settled = stage.is_inlined or stage.is_attached or stage.name in done
        if not settled and isinstance(stage.op, te.ComputeOp):
            schedule_plain(s, stage, stage.op, to)
    return s


def _inline(s: te.Schedule) -> None:
    """Inline elementwise stages, except into reductions, which would compute them repeatedly."""
    grown: dict[Operation, int] = {}  # nodes of a formula with those it reads put in
    early = from_constants(s.state)  # computed once, before the calls
    for stage in s.stages:
        if stage.is_output or stage.name in early or not _is_simple(stage.op):
            continue
        nodes = size(stage.op, grown)
        short = nodes < LONG  # a formula that is read twice doubles its reader
        if short and all(_takes_in(s.state.stage(r).op) for r in readers(s.state)[stage.name]):
            grown[stage.op] = nodes
            stage.compute_inline()


def _takes_in(op: Operation) -> bool:
    """Return whether elementwise stages may be inlined into `op`."""
    return _is_simple(op) or (isinstance(op, te.ComputeOp) and op.tag == LAYOUT)


def _is_simple(op: Operation) -> bool:
    if not isinstance(op, te.ComputeOp) or op.tag in (ROW, WINOGRAD, WINOGRAD_PART):
        return False
    return op.tag == INJECTIVE or is_elementwise(op)


# --- matrix products -----------------------------------------------------------------------------


def _matmul(
    s: te.Schedule, stage: te.StageView, op: te.ComputeOp, target: Target, done: set[str]
) -> set[str]:
    """Schedule one matrix product; return the names of the scheduled stages."""
    before = {v.name for v in s.stages}
    out = _fused(s, stage, done)
    b = _right_operand(op)
    if b is None:
        return set()
    tensor, transposed = b
    product, rows = op.output(0), op.shape[-2]
    few = isinstance(rows, int) and rows <= FEW and len(op.shape) == 2
    if few and schedule_matvec(s, product, transposed, target):
        return {stage.name}
    schedule_matmul(s, product, _output(out), tensor, transposed, target)
    return {stage.name, out.name, *(v.name for v in s.stages if v.name not in before)}


def _layout(s: te.Schedule, stage: te.StageView, target: Target) -> set[str]:
    """Schedule the stage of layout_transform that moves pixels; return the scheduled stages."""
    (images,) = readers(s.state)[stage.name]
    names = effective_readers(s.state)[stage.name]
    out = s[names[0]]
    fits = len(names) == 1 and _same_shape(s[images], out)
    fits = fits and (out.name == images or is_elementwise(out.op))
    return schedule_layout(s, stage, out if fits else stage, target)


def _fused(s: te.Schedule, stage: te.StageView, done: set[str]) -> te.StageView:
    """Return the stage whose loops compute `stage` tile by tile: its only reader, or itself.

    The reader must be elementwise, of the same shape, and not scheduled yet.
    """
    names = effective_readers(s.state)[stage.name]
    if stage.is_output or len(names) != 1 or names[0] in done:
        return stage
    reader = s[names[0]]
    return reader if _same_shape(stage, reader) and is_elementwise(reader.op) else stage


def _same_shape(a: te.StageView, b: te.StageView) -> bool:
    mine, theirs = _output(a), _output(b)
    return mine.ndim == theirs.ndim and all(map(tir.prove_equal, mine.shape, theirs.shape))


def _output(stage: te.StageView) -> te.Tensor:
    return stage.op.output(0)


def _right_operand(op: te.ComputeOp) -> tuple[te.Tensor, bool] | None:
    """Return the right operand of the product `op`, and whether it is transposed.

    This is the operand indexed by the product's columns; None if there is none.
    """
    for e in loads(op):
        for d, i in enumerate(e.indices):
            if i is op.axis[-1] and isinstance(e.buffer, te.Tensor):
                return e.buffer, d < e.buffer.ndim - 1
    return None
