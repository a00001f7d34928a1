"""OPERATORS: how each ONNX operator becomes nodes. A new one is one entry in one of the tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from . import attention, elements, linear, recurrent, shapes, windows
from .place import Place, Value

Function: TypeAlias = Callable[..., Value | tuple[Value, ...]]  # of a Place and the inputs


def _named(op: str, function: Callable[..., Value] = Place.make, **defaults: float) -> Function:
    """Return function(place, op, *inputs); by default, apply the operator of graphs called `op`.

    defaults   the attributes that are passed on, with their values if they are absent
    """

    def apply(at: Place, *inputs: Value) -> Value:
        attrs = {name: at.attrs.get(name, value) for name, value in defaults.items()}
        return function(at, op, *inputs, **attrs)

    return apply


SAME: dict[str, str] = {  # ONNX's name -> the operator of graphs with the same inputs
    **{"Abs": "abs", "Erf": "erf", "Exp": "exp", "Log": "log", "Neg": "negative", "Relu": "relu"},
    **{"Sigmoid": "sigmoid", "Sqrt": "sqrt", "Tanh": "tanh", "Where": "where"},
}
PAIRS: dict[str, str] = {  # the same, for operators that broadcast two inputs
    **{"Add": "add", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal"},
    **{"Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply", "Sub": "subtract"},
}
OPERATORS: dict[str, Function] = {
    **{name: _named(op) for name, op in SAME.items()},
    **{name: _named(op, elements.pair) for name, op in PAIRS.items()},
    "And": elements.logical_and,
    "Attention": attention.attention,
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
    "Expand": shapes.expand,
    "Flatten": shapes.flatten,
    "Floor": elements.rounded,
    "Gather": shapes.gather,
    "Gelu": elements.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": partial(windows.global_pool, op="mean"),
    "GRU": recurrent.layer,
    "GlobalMaxPool": partial(windows.global_pool, op="max"),
    "HardSigmoid": elements.hard_sigmoid,
    "HardSwish": elements.hard_swish,
    "Identity": shapes.identity,
    "LSTM": recurrent.layer,
    "LayerNormalization": linear.layer_norm,
    "LeakyRelu": _named("leaky_relu", alpha=0.01),
    "LogSoftmax": partial(linear.softmax, op="log_softmax"),
    "MatMul": linear.matmul,
    "Max": _named("maximum", elements.many),
    "MaxPool": partial(windows.pool, op="max_pool2d"),
    "Mean": elements.mean,
    "Min": _named("minimum", elements.many),
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
    "RNN": recurrent.layer,
    "Reshape": shapes.reshape,
    "RotaryEmbedding": attention.rotary_embedding,
    "Shape": shapes.shape,
    "Size": shapes.size,
    "Slice": shapes.slice_,
    "Softmax": partial(linear.softmax, op="softmax"),
    "Softplus": elements.softplus,
    "Split": shapes.split,
    "Squeeze": shapes.squeeze,
    "Sum": _named("add", elements.many),
    "Transpose": shapes.transpose,
    "Unsqueeze": shapes.unsqueeze,
}
