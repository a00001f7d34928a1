"""Templates of topi's operators; their knobs are the parameters of topi's own schedules.

topi.schedule makes a plan for a product, a convolution, a sum of rows or a softmax: a record of the
numbers in the schedule, such as topi.gemm.Plan. The knobs of a template are the fields of this
plan, so the default schedule is one of the configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

from minitvm import te, topi
from minitvm.base import ArgumentError, Target

from .dispatch import get_config
from .space import Config, ConfigEntity
from .task import Task, create
from .templates import TEMPLATES, Instance, Template, template


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator that has a template.

    shape    the names of the numbers that make a task; those in brackets may be left out
    """

    template: Template
    shape: str


OPERATORS: dict[str, Operator] = {}


def operator(make: Callable[..., Instance]) -> Template:
    """Register a function as the template of the operator of its name."""
    sizes = [p for p in signature(make).parameters.values() if p.annotation == "int"]
    names = [p.name if p.default is p.empty else f"[{p.name}]" for p in sizes]
    OPERATORS[make.__name__] = Operator(template(make.__name__)(make), ", ".join(names))
    return OPERATORS[make.__name__].template


def scheduled(outs: Sequence[te.Tensor]) -> te.Schedule:
    """Return topi's schedule of `outs`, with the plan that the current configuration chooses.

    The knobs of the configuration are the fields of the plan. A workload that has not been tuned
    gets topi's default.
    """
    cfg = get_config()
    return topi.schedule(outs, Target.current(), choose=lambda options: _plan(cfg, options))


def _plan(cfg: Config, options: topi.Options) -> Any:
    """Define the fields of a plan as knobs; return the plan with the chosen options.

    A field that a tuned configuration lacks keeps its default: a constant operand has more fields.
    """
    for name, values in options.fields.items() if not isinstance(cfg, ConfigEntity) else ():
        if isinstance(values[0], tuple):
            cfg.define_split(name, 1, "candidate", candidate=values)
        else:
            cfg.define_knob(name, values)
    if cfg.is_fallback:
        return options.known
    return options.plan({name: cfg[name].json for name in options.fields if name in cfg})


@operator
def matmul(m: int, n: int, k: int, dtype: str = "float32") -> Instance:
    """Multiply a [m, k] by b [k, n]."""
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    c = topi.matmul(a, b)
    return scheduled([c]), [a, b, c]


@operator
def dense(m: int, n: int, k: int, dtype: str = "float32", constant: bool = False) -> Instance:
    """Multiply data [m, k] by the transposed weight [n, k]; the weight may be constant."""
    a = te.placeholder((m, k), dtype, name="data")
    w = te.placeholder((n, k), dtype, name="weight", constant=constant)
    c = topi.dense(a, w)
    return scheduled([c]), [a, w, c]


@operator
def conv2d_nhwc(
    n: int, h: int, w: int, c: int, o: int, kernel: int, stride: int = 1, pad: int = 0
) -> Instance:
    """Convolve images [n, h, w, c] with constant weights [kernel, kernel, c, o]."""
    data = te.placeholder((n, h, w, c), name="data")
    weight = te.placeholder((kernel, kernel, c, o), name="weight", constant=True)
    out = topi.conv2d(data, weight, stride, pad, layout="NHWC")
    return scheduled([out]), [data, weight, out]


@operator
def conv2d_nchwc(
    n: int,
    h: int,
    w: int,
    c: int,
    o: int,
    kernel: int,
    stride: int = 1,
    pad: int = 0,
    block: int = 16,
) -> Instance:
    """Convolve images [n, c / block, h, w, block] with constant weights [o, c, kernel, kernel]."""
    data = te.placeholder((n, c // block, h, w, block), name="data")
    weight = te.placeholder((o, c, kernel, kernel), name="weight", constant=True)
    out = topi.conv2d(data, weight, stride, pad, layout=f"NCHW{block}c")
    return scheduled([out]), [data, weight, out]


@operator
def depthwise_nhwc(
    n: int, h: int, w: int, c: int, kernel: int, stride: int = 1, pad: int = 0
) -> Instance:
    """Convolve each channel of images [n, h, w, c] with weights [kernel, kernel, c, 1]."""
    data = te.placeholder((n, h, w, c), name="data")
    weight = te.placeholder((kernel, kernel, c, 1), name="weight", constant=True)
    out = topi.depthwise_conv2d(data, weight, stride, pad, layout="NHWC")
    return scheduled([out]), [data, weight, out]


@operator
def sum_rows(rows: int, columns: int) -> Instance:
    """Add the elements of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.sum(x, axis=1)
    return scheduled([out]), [x, out]


@operator
def softmax(rows: int, columns: int) -> Instance:
    """Compute the softmax of each row of x [rows, columns]."""
    x = te.placeholder((rows, columns), name="x")
    out = topi.softmax(x)
    return scheduled([out]), [x, out]


def task_for(name: str, shape: Sequence[int], target: str | Target = "llvm") -> Task:
    """Return the task of tuning an operator: task_for("matmul", (512, 512, 512)).

    Raises ArgumentError for another operator, or if the shape has too few or too many numbers.
    """
    if name not in OPERATORS:
        raise ArgumentError(f"operator {name!r}", "it has no template", ", ".join(OPERATORS))
    known, sizes = OPERATORS[name], tuple(shape)
    names = known.shape.split(", ")
    least = sum(not n.startswith("[") for n in names)
    if not least <= len(sizes) <= len(names) or any(type(n) is not int or n < 0 for n in sizes):
        raise ArgumentError(f"shape {sizes} of {name}", f"it must be {known.shape}")
    TEMPLATES[name] = known.template
    arguments = signature(known.template.make).bind(*sizes)
    arguments.apply_defaults()
    return create(name, arguments.args, target)
