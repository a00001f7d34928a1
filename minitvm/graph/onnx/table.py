"""OPERATORS: how each ONNX operator becomes nodes. A new one is one entry here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from . import elements, linear, shapes, windows
from .place import Place, Value

Function: TypeAlias = Callable[..., Value | tuple[Value, ...]]  # of a Place and the inputs


def _unary(op: str) -> Function:
    """Return the function of an operator with one input and no attributes."""

    def apply(at: Place, x: Value) -> Value:
        return at.make(op, x)

    return apply


def _binary(function: Callable[..., Value], op: str) -> Function:
    """Return function(place, op, *inputs)."""

    def apply(at: Place, *inputs: Value) -> Value:
        return function(at, op, *inputs)

    return apply


OPERATORS: dict[str, Function] = {
    "Abs": _unary("abs"),
    "Add": _binary(elements.pair, "add"),
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
    "Equal": _binary(elements.pair, "equal"),
    "Erf": _unary("erf"),
    "Exp": _unary("exp"),
    "Expand": shapes.expand,
    "Flatten": shapes.flatten,
    "Floor": elements.rounded,
    "Gather": shapes.gather,
    "Gelu": elements.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": partial(windows.global_pool, op="mean"),
    "GlobalMaxPool": partial(windows.global_pool, op="max"),
    "Greater": _binary(elements.pair, "greater"),
    "GreaterOrEqual": _binary(elements.pair, "greater_equal"),
    "HardSigmoid": elements.hard_sigmoid,
    "HardSwish": elements.hard_swish,
    "Identity": shapes.identity,
    "LayerNormalization": linear.layer_norm,
    "LeakyRelu": elements.leaky_relu,
    "Less": _binary(elements.pair, "less"),
    "LessOrEqual": _binary(elements.pair, "less_equal"),
    "Log": _unary("log"),
    "LogSoftmax": partial(linear.softmax, op="log_softmax"),
    "MatMul": linear.matmul,
    "Max": _binary(elements.many, "maximum"),
    "MaxPool": partial(windows.pool, op="max_pool2d"),
    "Mean": elements.mean,
    "Min": _binary(elements.many, "minimum"),
    "Mul": _binary(elements.pair, "multiply"),
    "Neg": _unary("negative"),
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
    "Relu": _unary("relu"),
    "Reshape": shapes.reshape,
    "Shape": shapes.shape,
    "Sigmoid": _unary("sigmoid"),
    "Size": shapes.size,
    "Slice": shapes.slice_,
    "Softmax": partial(linear.softmax, op="softmax"),
    "Softplus": elements.softplus,
    "Split": shapes.split,
    "Sqrt": _unary("sqrt"),
    "Squeeze": shapes.squeeze,
    "Sub": _binary(elements.pair, "subtract"),
    "Sum": _binary(elements.many, "add"),
    "Tanh": _unary("tanh"),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.unsqueeze,
    "Where": elements.where,
}
