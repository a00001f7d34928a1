"""OPERATORS: how each ONNX operator becomes nodes. A new one is one entry here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from . import elements, linear, shapes, windows
from .place import Place, Value

Function: TypeAlias = Callable[..., Value | tuple[Value, ...]]  # of a Place and the inputs


def _named(op: str, function: Callable[..., Value] = Place.make) -> Function:
    """Return function(place, op, *inputs); by default, apply the operator of graphs called `op`."""

    def apply(at: Place, *inputs: Value) -> Value:
        return function(at, op, *inputs)

    return apply


OPERATORS: dict[str, Function] = {
    "Abs": _named("abs"),
    "Add": _named("add", elements.pair),
    "And": elements.logical_and,
    "AveragePool": partial(windows.pool, op="avg_pool2d"),
    "BatchNormalization": linear.batch_norm,
    "Cast": elements.cast,
    "Ceil": elements.rounded,
    "Clip": elements.clip,
    "Concat": shapes.concat,
    "Constant": shapes.constant,
    "ConstantOfShape": shapes.constant_of_shape,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "Div": elements.divide,
    "Dropout": shapes.identity,
    "Equal": _named("equal", elements.pair),
    "Erf": _named("erf"),
    "Exp": _named("exp"),
    "Expand": shapes.expand,
    "Flatten": shapes.flatten,
    "Floor": elements.rounded,
    "Gather": shapes.gather,
    "Gelu": elements.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": partial(windows.global_pool, op="mean"),
    "GlobalMaxPool": partial(windows.global_pool, op="max"),
    "Greater": _named("greater", elements.pair),
    "GreaterOrEqual": _named("greater_equal", elements.pair),
    "HardSigmoid": elements.hard_sigmoid,
    "HardSwish": elements.hard_swish,
    "Identity": shapes.identity,
    "LayerNormalization": linear.layer_norm,
    "LeakyRelu": elements.leaky_relu,
    "Less": _named("less", elements.pair),
    "LessOrEqual": _named("less_equal", elements.pair),
    "Log": _named("log"),
    "LogSoftmax": partial(linear.softmax, op="log_softmax"),
    "MatMul": linear.matmul,
    "Max": _named("maximum", elements.many),
    "MaxPool": partial(windows.pool, op="max_pool2d"),
    "Mean": elements.mean,
    "Min": _named("minimum", elements.many),
    "Mul": _named("multiply", elements.pair),
    "Neg": _named("negative"),
    "Not": elements.logical_not,
    "Or": elements.logical_or,
    "Pad": shapes.pad,
    "Pow": elements.power,
    "PRelu": elements.prelu,
    "Range": shapes.range_,
    "Reciprocal": elements.reciprocal,
    "ReduceL2": linear.norm2,
    "ReduceMax": partial(linear.reduced, op="max"),
    "ReduceMean": partial(linear.reduced, op="mean"),
    "ReduceMin": partial(linear.reduced, op="min"),
    "ReduceProd": partial(linear.reduced, op="prod"),
    "ReduceSum": partial(linear.reduced, op="sum"),
    "Relu": _named("relu"),
    "Reshape": shapes.reshape,
    "Shape": shapes.shape,
    "Sigmoid": _named("sigmoid"),
    "Size": shapes.size,
    "Slice": shapes.slice_,
    "Softmax": partial(linear.softmax, op="softmax"),
    "Softplus": elements.softplus,
    "Split": shapes.split,
    "Sqrt": _named("sqrt"),
    "Squeeze": shapes.squeeze,
    "Sub": _named("subtract", elements.pair),
    "Sum": _named("add", elements.many),
    "Tanh": _named("tanh"),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.unsqueeze,
    "Where": _named("where"),
}
