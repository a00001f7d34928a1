"""topi.schedule, which makes a good default schedule for a network of topi operators."""

from __future__ import annotations

from typing import Any

from minitvm import te, tensor
from minitvm.base import Target
from minitvm.schedule import from_constants, readers

from .blocks import row_of_source, schedule_transpose
from .conv import CONV_ROWS
from .conv_channels import CONV_CHANNELS
from .conv_channels_schedule import schedule_channels
from .conv_schedule import schedule_rows
from .dispatch import dispatched
from .fusion import cropped, fused, reads_once
from .gemm import schedule_product
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


def schedule(outs: Any, target: str | Target | None = None) -> te.Schedule:
    """Return a good schedule of `outs` (a tensor or a list) for `target`, without any search.

    target   by default the current one: Target.current()

    Inside `with topi.dispatch.using(dispatcher):` a dispatcher may return another schedule.
    Stages are recognised by their formulas, convolutions by their topi operators. Elementwise
    stages are inlined. A matrix product is tiled for registers and cache, and the elementwise stage
    after it is computed tile by tile. A transpose is computed in square blocks. All other stages
    are vectorized over the last dimension and run in parallel over the others.
    """
    to, outputs = Target(target), check_outputs(outs)
    if (tuned := dispatched(outputs, to)) is not None:
        return tuned
    s = te.create_schedule(outputs)
    _inline(s)
    if to.kind == "python":
        return s
    done: set[str] = set()
    for stage in reversed(s.stages):
        op = stage.op
        if not isinstance(op, te.ComputeOp) or stage.name in done:
            continue
        if is_product(op):
            done |= schedule_product(s, stage, op, fused(s, stage, done), to)
        elif op.tag == DOTS:
            done |= schedule_dots(s, stage, op, to)
        elif op.tag == CONV_ROWS:
            done |= schedule_rows(s, stage, cropped(s, stage, done), to)
        elif op.tag == CONV_CHANNELS:
            done |= schedule_channels(s, stage, fused(s, stage, done), to)
        elif op.tag == WINOGRAD:
            done |= schedule_winograd(s, stage, fused(s, stage, done), to)
        elif op.tag == WINDOW:
            done |= schedule_window(s, stage, fused(s, stage, done), to)
        elif op.tag == LAYOUT:
            done |= schedule_layout(s, stage, to)
        elif op.tag == ROW and not stage.is_inlined:
            done |= schedule_row_by_row(s, stage, op, to)
    for stage in s.stages:
        settled = stage.is_inlined or stage.is_attached or stage.name in done
        if not settled and isinstance(stage.op, te.ComputeOp):
            row = row_of_source(stage.op)
            if row is None:
                schedule_plain(s, stage, stage.op, to)
            else:
                done |= schedule_transpose(s, stage, fused(s, stage, done), row, to)
    return s


def _inline(s: te.Schedule) -> None:
    """Inline elementwise stages, except into reductions that would compute them repeatedly."""
    grown: dict[tensor.Operation, int] = {}  # nodes of a formula with those it reads put in
    early = from_constants(s.state)  # computed once, before the calls
    for stage in s.stages:
        if stage.is_output or stage.name in early or not _is_simple(stage.op):
            continue
        if row_of_source(stage.op) is not None:  # it is computed in blocks
            continue
        nodes = size(stage.op, grown)
        short = nodes < LONG  # a formula that is read twice doubles its reader
        found = [s.state.stage(r).op for r in readers(s.state)[stage.name]]
        alone = len(found) == 1 and reads_once(found[0], stage.op)
        if short and (alone or all(map(_takes_in, found))):
            grown[stage.op] = nodes
            stage.compute_inline()


def _takes_in(op: tensor.Operation) -> bool:
    """Return whether elementwise stages may be inlined into `op`."""
    return _is_simple(op) or (isinstance(op, te.ComputeOp) and op.tag == LAYOUT)


def _is_simple(op: tensor.Operation) -> bool:
    if not isinstance(op, te.ComputeOp) or op.tag in (ROW, WINOGRAD, WINOGRAD_PART):
        return False
    return op.tag == INJECTIVE or is_elementwise(op)
