"""ONNX operators on quantised numbers: a byte q stands for the real number (q - zero) * scale.

All of them become quantise and dequantise nodes around operators on real numbers, as in a model
with QuantizeLinear and DequantizeLinear. The pass `integers` then finds what runs in integers.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from . import elements, linear, windows
from .model import TYPES
from .place import Array, Place, Value, dtype_of, shape_of

BYTES = ("uint8", "int8")
Parameters: TypeAlias = tuple[Value, Value | None]  # scale and zero point


def quantize(at: Place, x: Value, scale: Value, zero: Value | None = None) -> Value:
    """QuantizeLinear to bytes."""
    at.only(block_size=0, saturate=1, precision=0)
    named = TYPES.get(at.attrs.get("output_dtype", 0), "uint8")
    return _quantised(at, x, (scale, zero), at.attrs.get("axis", 1), named)


def dequantize(at: Place, q: Value, scale: Value, zero: Value | None = None) -> Value:
    """DequantizeLinear of bytes, or of the int32 sums of their products."""
    at.only(block_size=0, output_dtype=0)
    return _real(at, q, (scale, zero), at.attrs.get("axis", 1))


def _quantised(
    at: Place, x: Value, parameters: Parameters, axis: int = -1, dtype: str = "uint8"
) -> Value:
    scale, zero = parameters
    to = dtype if zero is None else str(dtype_of(zero))
    if to not in BYTES:
        raise at.refusal(f"it quantises to {to}; graphs quantise to {' and '.join(BYTES)}")
    if str(dtype_of(x)) == "int32":
        x = at.make("cast", x, dtype="float32")
    if str(dtype_of(x)) != "float32":
        raise at.refusal(f"it quantises {dtype_of(x)}; graphs quantise float32")
    operands, attrs = _operands(at, shape_of(x), (scale, zero), axis)
    return at.make("quantise", x, *operands, **attrs, dtype=to)


def _real(at: Place, q: Value, parameters: Parameters, axis: int = -1) -> Value:
    """Return the real numbers that `q` stands for, as a node even if `q` is constant.

    Then the pass `integers` finds the constant bytes.
    """
    if str(dtype_of(parameters[0])) != "float32":
        raise at.refusal(f"its scale is {dtype_of(parameters[0])}; graphs have float32 scales")
    if str(dtype_of(q)) not in (*BYTES, "int32"):
        raise at.refusal(f"it reads {dtype_of(q)}; graphs dequantise uint8, int8 and int32")
    operands, attrs = _operands(at, shape_of(q), parameters, axis)
    name = f"{at.call.name}.constant"
    nodes = [at.scope.node(x, name) for x in (q, *operands)]
    return at.scope.b.call("dequantise", *nodes, name=at.call.name, **attrs)


def _operands(
    at: Place, shape: tuple[int, ...], parameters: Parameters, axis: int
) -> tuple[list[Value], dict[str, float | int]]:
    """Return scale and zero point as operands of the operators of graphs, and as attributes.

    Constant numbers become attributes; everything else becomes vectors along the axis.
    """
    scale, zero = parameters
    zero = None if isinstance(zero, np.ndarray) and not zero.any() else zero
    both = [p for p in (scale, zero) if p is not None]
    if any(shape_of(p) not in ((), (1,)) for p in both):
        at_axis = at.axis(axis, len(shape))
        for p in both:
            if shape_of(p) not in ((shape[at_axis],), (), (1,)):
                why = f"its scale or zero point {list(shape_of(p))} does not fit its input"
                raise at.refusal(f"{why} {list(shape)} along axis {at_axis}")
    elif all(isinstance(p, np.ndarray) for p in both):
        attrs: dict[str, float | int] = {"scale": at.constant(scale, "scale").item()}
        return [], attrs if zero is None else attrs | {"zero": at.constant(zero, "zero").item()}
    elif not shape:
        raise at.refusal("it reads one number, and its scale depends on an input")
    else:
        at_axis = len(shape) - 1
    size = (shape[at_axis],)
    vectors = [p if shape_of(p) == size else at.make("broadcast_to", p, shape=size) for p in both]
    return vectors, {"axis": at_axis}


def dynamic_quantize(at: Place, x: Value) -> tuple[Value, Value, Value]:
    """DynamicQuantizeLinear: scale and zero point follow from the least and greatest element."""
    zero = np.zeros((), np.float32)
    low = at.make("minimum", at.make("min", x), zero)
    high = at.make("maximum", at.make("max", x), zero)
    scale = elements.pair(at, "divide", at.make("subtract", high, low), np.float32(255) + zero)
    steps = _quantised(at, at.reshape(at.make("negative", low), (1,)), (scale, None))
    point = at.reshape(steps, ())
    return _quantised(at, x, (scale, point)), scale, point


def qlinear_conv(at: Place, *inputs: Value) -> Value:
    """QLinearConv: a convolution of quantised images with a quantised result.

    inputs   images, kernel and result: each with its scale and zero point; the int32 bias
    """
    (x, *of_x), (w, *of_w), of_y = inputs[:3], inputs[3:6], inputs[6:8]
    scale = at.make("multiply", of_w[0], at.reshape(of_x[0], ()))
    bias = [_real(at, q, (scale, None), 0) for q in inputs[8:]]
    y = windows.conv(at, _real(at, x, _pair(*of_x)), _real(at, w, _pair(*of_w), 0), *bias)
    return _quantised(at, y, _pair(*of_y))


def qlinear_matmul(at: Place, *inputs: Value) -> Value:
    """QLinearMatMul: a product of quantised matrices with a quantised result."""
    (a, *of_a), (b, *of_b), of_y = inputs[:3], inputs[3:6], inputs[6:]
    rows = _real(at, a, _pair(*of_a), -min(2, len(shape_of(a))))
    y = linear.matmul(at, rows, _real(at, b, _pair(*of_b)))
    return _quantised(at, y, _pair(*of_y))


def qlinear_add(at: Place, *inputs: Value | None) -> Value:
    """QLinearAdd of com.microsoft: a sum of quantised tensors with a quantised result."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (*inputs, *[None] * 8)[:8]
    if a is None or b is None or a_scale is None or b_scale is None or y_scale is None:
        raise at.refusal("it lacks an operand or a scale")
    x, y = _real(at, a, (a_scale, a_zero)), _real(at, b, (b_scale, b_zero))
    return _quantised(at, elements.pair(at, "add", x, y), (y_scale, y_zero))


def _pair(scale: Value, zero: Value | None = None) -> Parameters:
    return scale, zero


def conv_integer(
    at: Place, x: Value, w: Value, x_zero: Value | None = None, w_zero: Value | None = None
) -> Value:
    """ConvInteger: a convolution of bytes, with int32 sums."""
    return windows.conv(at, _centred(at, x, x_zero, 1), _centred(at, w, w_zero, 0))


def matmul_integer(
    at: Place, a: Value, b: Value, a_zero: Value | None = None, b_zero: Value | None = None
) -> Value:
    """MatMulInteger: a product of matrices of bytes, with int32 sums.

    A constant b that is int8 without its zero point is multiplied as bytes, since the product of
    a - a_zero and b is a @ b - a_zero * (sums of the columns of b).
    """
    rank, columns = len(shape_of(a)), _centred(at, b, b_zero, -1)
    if isinstance(columns, np.ndarray) and columns.ndim == 2 <= rank and _are_int8(columns):
        product = linear.matmul(at, a, columns.astype(np.int8), out_dtype="int32")
        if a_zero is None:
            return product
        sums = columns.sum(0, dtype=np.int32)
        shift = at.make("multiply", _point(at, a_zero, shape_of(a), -2), sums)
        return elements.pair(at, "subtract", product, shift)
    return linear.matmul(at, _centred(at, a, a_zero, -min(2, rank)), columns)


def _are_int8(x: Array) -> bool:
    return bool(x.min() >= -128 and x.max() <= 127)


def _centred(at: Place, x: Value, zero: Value | None, axis: int) -> Value:
    """Return x - zero as int32; zero is a number, or a vector along the axis."""
    whole = at.make("cast", x, dtype="int32")
    if zero is None or (isinstance(zero, np.ndarray) and not zero.any()):
        return whole
    return elements.pair(at, "subtract", whole, _point(at, zero, shape_of(x), axis))


def _point(at: Place, zero: Value, shape: tuple[int, ...], axis: int) -> Value:
    """Return a zero point as int32 that broadcasts with a tensor of this shape."""
    point = at.make("cast", zero, dtype="int32")
    if shape_of(point) in ((), (1,)):
        return at.reshape(point, ())
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return at.reshape(point, tuple(sizes))
