"""topi.schedule makes a good default schedule for a network of topi operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from minitvm import te, tensor
from minitvm.base import ScheduleError, Target
from minitvm.schedule import from_constants, readers

from .attend import ATTENTION
from .attend_schedule import schedule_attention
from .blocks import schedule_layout, schedule_transpose, transposed_row
from .conv import CONV_ROWS, IMAGE_ROWS
from .conv_channels_schedule import schedule_channels
from .conv_dots import CONV_DOTS
from .conv_dots_schedule import schedule_conv_dots
from .conv_schedule import is_unpadded_copy, schedule_rows
from .conv_tiles import CONV_TILES, schedule_conv_tiles
from .convolution import CONV_CHANNELS
from .dispatch import dispatched
from .gemm import schedule_product
from .gpu_schedule import schedule_gpu
from .int8 import DOTS, schedule_dots
from .int8_weights import DENSE_INT8, schedule_dense_int8
from .layout_transform import LAYOUT
from .loops import schedule_plain, schedule_row_by_row
from .norm import ROW
from .operands import check_outputs
from .options import Choose
from .recurrent import CELL, RECURRENT
from .recurrent_schedule import schedule_recurrent
from .shape import INJECTIVE
from .stages import (
    epilogue_or_self,
    epilogue_through,
    is_elementwise,
    is_product,
    nodes_after_inlining,
    reads_once,
)
from .window import WINDOW
from .window_schedule import schedule_window
from .winograd import WINOGRAD, WINOGRAD_PART
from .winograd_schedule import schedule_winograd

Rule: TypeAlias = Callable[
    [te.Schedule, te.ComputeOp, te.StageView, Target, Choose | None], set[str]
]
FindResult: TypeAlias = Callable[[te.Schedule, te.StageView, set[str]], te.StageView]

PRODUCT = "product"  # in place of a tag: products are recognised by their formula
# How to schedule the stages with a tag, and how to find the stage in whose loops they are computed.
# A rule(s, op, out, target, choose) returns the names of the stages that it has scheduled.
RULES: Mapping[str, tuple[Rule, FindResult]] = {
    ATTENTION: (schedule_attention, epilogue_or_self),
    PRODUCT: (schedule_product, epilogue_or_self),
    DENSE_INT8: (schedule_dense_int8, epilogue_or_self),
    DOTS: (schedule_dots, epilogue_through),
    CONV_DOTS: (schedule_conv_dots, epilogue_through),
    CONV_TILES: (schedule_conv_tiles, epilogue_through),
    CONV_ROWS: (schedule_rows, epilogue_through),
    CONV_CHANNELS: (schedule_channels, epilogue_or_self),
    WINOGRAD: (schedule_winograd, epilogue_or_self),
    WINDOW: (schedule_window, epilogue_or_self),
    LAYOUT: (schedule_layout, epilogue_or_self),
    RECURRENT: (schedule_recurrent, epilogue_or_self),
}
LONG = 500  # expression nodes; a formula with this many or more is not inlined


def schedule(
    outs: Any, target: str | Target | None = None, *, choose: Choose | None = None
) -> te.Schedule:
    """Return a good schedule of `outs` (a tensor or a list) for `target`, without any search.

    target     by default the current one: Target.current()
    choose     choose(options) returns the plan of a stage, such as a product or a convolution; by
               default the one that should be fastest, options.known

    Inside `with topi.dispatch.using(dispatcher):` a dispatcher may return another schedule.
    Stages are recognised by their formulas, convolutions by their topi operators. Elementwise
    stages are inlined. A matrix product is tiled for registers and cache, and the elementwise stage
    after it is computed tile by tile. A transpose is computed in square blocks. All other stages
    are vectorized over the last dimension and run in parallel over the others.
    """
    target, outputs = Target(target), check_outputs(outs)
    if choose is None and (tuned := dispatched(outputs, target)) is not None:
        return tuned
    s = te.create_schedule(outputs)
    _inline(s)
    if target.kind == "python":
        return s
    if target.kind == "cuda":
        _check_gpu(s)
        schedule_gpu(s, target.arch, choose)
        return s
    done_names: set[str] = set()
    for stage in reversed(s.stages):
        op = stage.op
        if not isinstance(op, te.ComputeOp) or stage.name in done_names:
            continue
        tag = PRODUCT if is_product(op) else op.tag
        if tag in RULES:
            rule, result_of = RULES[tag]
            done_names |= rule(s, op, result_of(s, stage, done_names), target, choose)
    for stage in reversed(s.stages):
        op, is_settled = stage.op, stage.is_inlined or stage.name in done_names
        if isinstance(op, te.ComputeOp) and op.tag == ROW and not is_settled:
            done_names |= schedule_row_by_row(s, stage, op, target, done_names, choose)
    for stage in s.stages:
        is_settled = stage.is_inlined or stage.is_attached or stage.name in done_names
        if not is_settled and isinstance(stage.op, te.ComputeOp):
            row = transposed_row(stage.op)
            if row is None:
                schedule_plain(s, stage, stage.op, target, choose)
            else:
                output = epilogue_or_self(s, stage, done_names)
                done_names |= schedule_transpose(s, stage.op, output, row, target)
    return s


def _check_gpu(s: te.Schedule) -> None:
    """Raise ScheduleError if a stage has a default schedule for CPUs alone."""
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp) and stage.op.tag in (ATTENTION, RECURRENT):
            what = f"topi.schedule of {stage.name} for a GPU"
            why = "attention and recurrent layers have a default schedule for CPUs only"
            raise ScheduleError(what, why, 'target="llvm", or batch_matmul and softmax')


def _inline(s: te.Schedule) -> None:
    """Inline elementwise stages, except into reductions that would compute them repeatedly."""
    node_counts: dict[tensor.Operation, int] = {}  # the nodes of each inlined formula
    early = from_constants(s.state)  # computed once, before the calls
    for stage in s.stages:
        if stage.is_output or stage.name in early or not _is_simple(stage.op):
            continue
        if transposed_row(stage.op) is not None:  # a transpose is computed in blocks
            continue
        nodes = nodes_after_inlining(stage.op, node_counts)
        into = [s.state.stage(name).op for name in readers(s.state)[stage.name]]
        has_one_reader = len(into) == 1 and reads_once(into[0], stage.op)
        # A formula that is read twice is copied twice: without LONG, a chain could grow
        # exponentially.
        if nodes < LONG and (has_one_reader or all(map(_can_inline_into, into))):
            node_counts[stage.op] = nodes
            stage.compute_inline()


def _can_inline_into(op: tensor.Operation) -> bool:
    """Return whether elementwise stages may be inlined into `op`."""
    if not isinstance(op, te.ComputeOp) or op.tag not in (LAYOUT, IMAGE_ROWS):
        return _is_simple(op)
    return op.tag == LAYOUT or not is_unpadded_copy(op)  # such a copy is itself inlined


def _is_simple(op: tensor.Operation) -> bool:
    """Return whether each element of `op` is computed from a few elements, without a reduction."""
    if not isinstance(op, te.ComputeOp) or op.tag in (CELL, ROW, WINOGRAD, WINOGRAD_PART):
        return False
    return op.tag == INJECTIVE or is_elementwise(op)
