"""OPERATORS: how each ONNX operator becomes nodes. A new one is one entry in one of the tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from . import (
    attention,
    blocks,
    control,
    elements,
    indexing,
    linear,
    lp,
    normal,
    quantised,
    recurrent,
    resize,
    shapes,
    windows,
)
from .einsum import einsum
from .padding import pad
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
    **{"Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan"},
    **{"Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos"},
    **{"Cosh": "cosh", "Floor": "floor", "IsNaN": "isnan", "Round": "round", "Sign": "sign"},
    **{"Sin": "sin", "Sinh": "sinh", "Tan": "tan"},
}
PAIRS: dict[str, str] = {  # the same, for operators that broadcast two inputs
    **{"Add": "add", "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal"},
    **{"Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply", "Sub": "subtract"},
    **{"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"},
    "Xor": "not_equal",
}
OPERATORS: dict[str, Function] = {
    **{name: _named(op) for name, op in SAME.items()},
    **{name: _named(op, elements.pair) for name, op in PAIRS.items()},
    "And": elements.logical_and,
    "ArgMax": partial(indexing.best_index, op="max"),
    "ArgMin": partial(indexing.best_index, op="min"),
    "Attention": attention.attention,
    "AveragePool": partial(windows.pool, op="avg_pool2d"),
    "BatchNormalization": linear.batch_norm,
    "BitShift": elements.shift,
    "Cast": elements.cast,
    "Clip": elements.clip,
    "Compress": indexing.compress,
    "Concat": shapes.concat,
    "Constant": shapes.constant,
    "ConstantOfShape": shapes.constant_of_shape,
    "Conv": windows.conv,
    "ConvInteger": quantised.conv_integer,
    "ConvTranspose": windows.conv_transpose,
    "CumProd": partial(indexing.cumulative, op="cumprod"),
    "CumSum": partial(indexing.cumulative, op="cumsum"),
    "DepthToSpace": blocks.depth_to_space,
    "DequantizeLinear": quantised.dequantize,
    "Div": elements.divide,
    "Dropout": shapes.identity,
    "DynamicQuantizeLinear": quantised.dynamic_quantize,
    "Einsum": einsum,
    "Expand": shapes.expand,
    "EyeLike": indexing.eye_like,
    "Flatten": shapes.flatten,
    "Gather": shapes.gather,
    "GatherElements": indexing.gather_elements,
    "GatherND": indexing.gather_nd,
    "Gelu": elements.gelu,
    "Gemm": linear.gemm,
    "GlobalAveragePool": partial(windows.global_pool, op="mean"),
    "GRU": recurrent.layer,
    "GlobalLpPool": lp.global_lp_pool,
    "GlobalMaxPool": partial(windows.global_pool, op="max"),
    "GridSample": resize.grid_sample,
    "GroupNormalization": normal.group_norm,
    "Hardmax": indexing.hardmax,
    "HardSigmoid": elements.hard_sigmoid,
    "HardSwish": elements.hard_swish,
    "Identity": shapes.identity,
    "If": control.if_,
    "InstanceNormalization": normal.instance_norm,
    "IsInf": elements.is_infinite,
    "LSTM": recurrent.layer,
    "LayerNormalization": normal.layer_norm,
    "LeakyRelu": _named("leaky_relu", alpha=0.01),
    "LogSoftmax": partial(linear.softmax, op="log_softmax"),
    "Loop": control.loop,
    "LpNormalization": lp.lp_norm,
    "LpPool": lp.lp_pool,
    "LRN": normal.local_response,
    "MatMul": linear.matmul,
    "MatMulInteger": quantised.matmul_integer,
    "Max": _named("maximum", elements.many),
    "MaxPool": partial(windows.pool, op="max_pool2d"),
    "Mean": elements.mean,
    "Min": _named("minimum", elements.many),
    "Mod": elements.mod,
    "NonZero": indexing.nonzero,
    "Not": elements.logical_not,
    "OneHot": indexing.one_hot,
    "Or": elements.logical_or,
    "Pad": pad,
    "Pow": elements.power,
    "PRelu": elements.prelu,
    "QLinearAdd": quantised.qlinear_add,
    "QLinearConv": quantised.qlinear_conv,
    "QLinearMatMul": quantised.qlinear_matmul,
    "QuantizeLinear": quantised.quantize,
    "Range": shapes.range_,
    "Reciprocal": elements.reciprocal,
    "ReduceL1": linear.absolute_sum,
    "ReduceL2": linear.norm2,
    "ReduceLogSum": linear.log_sum,
    "ReduceLogSumExp": linear.log_sum_exp,
    "ReduceMax": partial(linear.reduced, op="max"),
    "ReduceMean": partial(linear.reduced, op="mean"),
    "ReduceMin": partial(linear.reduced, op="min"),
    "ReduceProd": partial(linear.reduced, op="prod"),
    "ReduceSum": partial(linear.reduced, op="sum"),
    "RNN": recurrent.layer,
    "ReduceSumSquare": linear.square_sum,
    "Reshape": shapes.reshape,
    "Resize": resize.resize,
    "ReverseSequence": indexing.reverse_sequence,
    "RotaryEmbedding": attention.rotary_embedding,
    "Scan": control.scan,
    "ScatterElements": indexing.scatter_elements,
    "ScatterND": indexing.scatter_nd,
    "Shape": shapes.shape,
    "Size": shapes.size,
    "Slice": shapes.slice_,
    "Softmax": partial(linear.softmax, op="softmax"),
    "Softplus": elements.softplus,
    "SpaceToDepth": blocks.space_to_depth,
    "Split": shapes.split,
    "Squeeze": shapes.squeeze,
    "Sum": _named("add", elements.many),
    "Tile": indexing.tile,
    "TopK": indexing.topk,
    "Transpose": shapes.transpose,
    "Trilu": indexing.trilu,
    "Unsqueeze": shapes.unsqueeze,
}
