"""The operators that have templates: by name, with the shapes of their tasks, and by formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from minitvm import te, tensor
from minitvm.base import ArgumentError, Target

from ..dispatch import Workload
from ..space import Config
from ..task import Task, create
from ..templates import TEMPLATES, Template
from .convolutions import conv2d_nchwc, conv2d_nhwc, schedule_conv
from .products import dense, matmul, schedule_product
from .rows import softmax, sum_rows
from .stages import right_load
from .windows import depthwise_nhwc

Scheduler: TypeAlias = Callable[[Config, Sequence[te.Tensor], te.Tensor], te.Schedule]


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator that has a template.

    shape    the names of the numbers that make a task; those in brackets may be left out
    """

    template: Template
    shape: str


OPERATORS = {
    o.template.name: o
    for o in (
        Operator(matmul, "m, n, k"),
        Operator(dense, "m, n, k"),
        Operator(conv2d_nhwc, "n, h, w, c, o, kernel, [stride], [pad]"),
        Operator(conv2d_nchwc, "n, h, w, c, o, kernel, [stride], [pad], [block]"),
        Operator(depthwise_nhwc, "n, h, w, c, kernel, [stride], [pad]"),
        Operator(sum_rows, "rows, columns"),
        Operator(softmax, "rows, columns"),
    )
}


def task_for(name: str, shape: Sequence[int], target: str | Target = "llvm") -> Task:
    """Return the task of tuning an operator: task_for("matmul", (512, 512, 512)).

    Raises ArgumentError for another operator, or if the shape has too few or too many numbers.
    """
    if name not in OPERATORS:
        raise ArgumentError(f"operator {name!r}", "it has no template", ", ".join(OPERATORS))
    known, given = OPERATORS[name], tuple(shape)
    names = known.shape.split(", ")
    least = sum(not n.startswith("[") for n in names)
    if not least <= len(given) <= len(names) or any(type(n) is not int or n < 0 for n in given):
        raise ArgumentError(f"shape {given} of {name}", f"it must be {known.shape}")
    TEMPLATES[name] = known.template
    return create(name, complete(name, given), target)


def complete(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a template with those that were left out."""
    defaults = OPERATORS[name].template.make.__defaults__ or ()
    every = OPERATORS[name].template.make.__code__.co_argcount
    missing = every - len(args)
    return (*args, *defaults[len(defaults) - missing :]) if missing else args


Found: TypeAlias = tuple[Workload, te.Tensor, Scheduler] | None


def recognised(outs: Sequence[te.Tensor]) -> Found:
    """Return the workload of `outs`, its heavy tensor, and what schedules it; None if unknown.

    Only elementwise stages of the same shape may read the heavy tensor. Products and convolutions
    with constant weights are known.
    """
    ops = tensor.producers_first(tuple(t.op for t in outs))
    heavy = [o for o in ops if isinstance(o, te.ComputeOp) and o.reduction is not None]
    if len(outs) != 1 or len(heavy) != 1:
        return None
    (op,) = heavy
    before = {id(o) for o in tensor.producers_first((op,))}
    after = [o for o in ops if id(o) not in before and isinstance(o, te.ComputeOp)]
    if any(o.shape != op.shape for o in after):
        return None
    found = _product(op) if op.tag == "matmul" else None
    found = _convolution(op) if op.tag == "conv_channels" else found
    if found is None or not all(type(n) in (int, str, bool) for n in found[0]):
        return None
    return found


def _product(op: te.ComputeOp) -> Found:
    reads = [e.buffer for e in tensor.loads(op)]
    if len(op.axis) != 2 or not all(_is_input(t) for t in reads):
        return None
    load = right_load(op)
    workload = (*op.shape, op.reduce_axis[0].extent, str(op.dtypes[0]))
    if load.indices[-1] is op.axis[-1]:
        return ("matmul", *workload), op.output(0), schedule_product
    return ("dense", *workload, _is_constant(load.buffer)), op.output(0), schedule_product


def _convolution(op: te.ComputeOp) -> Found:
    image, weight = (e.buffer for e in tensor.loads(op))
    about, data = op.attrs["convolution"], [t for t in _inputs(image) if _is_input(t)]
    high, wide = about.high, about.wide
    square = (high.kernel, high.stride, high.before) == (wide.kernel, wide.stride, wide.before)
    even = high.before == high.after and wide.before == wide.after
    plain = about.groups == 1 and high.dilation == wide.dilation == 1
    if not (square and even and plain and len(data) == 1 and _is_constant(weight)):
        return None
    sizes = about.batch, high.size, wide.size, about.inputs, about.outputs
    window = high.kernel, high.stride, high.before
    if about.layout == "NHWC":
        return ("conv2d_nhwc", *sizes, *window), op.output(0), schedule_conv
    return ("conv2d_nchwc", *sizes, *window, op.shape[-1]), op.output(0), schedule_conv


def _inputs(image: Any) -> list[te.Tensor]:
    """Return the tensors that the padded image reads."""
    return [e.buffer for e in tensor.loads(image.op) if isinstance(e.buffer, te.Tensor)]


def _is_input(t: Any) -> bool:
    return isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp)


def _is_constant(t: Any) -> bool:
    return isinstance(t, te.Tensor) and isinstance(t.op, te.PlaceholderOp) and t.op.constant
