"""Quantised numbers: bytes q that stand for the real numbers (q - zero) * scale.

zero, the zero point, is the byte that stands for 0. All operators round half to even and compute in
float32, in the order of ONNX Runtime's kernels, so that results are equal to the last bit.
(Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", 2018, section 2.1; ONNX operators QuantizeLinear and DequantizeLinear.)

A quantised convolution is conv2d of bytes, which gives int32, and then `requantise`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

from minitvm import te, tensor, tir
from minitvm.base import INT8, INT32, UINT8, DType, ExprError, Reason, raise_first
from minitvm.base import dtype as dtype_named

from .elementwise import ELEMENTWISE
from .operands import check_vector, checks_arguments, dimension, integers

__all__ = ["add_requantised", "dequantise", "quantise", "requantise"]


@checks_arguments
def quantise(
    x: te.Tensor, scale: Any, zero: Any = 0, dtype: str = "uint8", axis: int = -1
) -> te.Tensor:
    """Return rint(x / scale) + zero as bytes, limited to the range of `dtype`.

    scale, zero: numbers, or tensors with one element for each index of `axis`. dtype: "uint8" or
    "int8". NaN becomes the byte 0.
    """
    to = dtype_named(dtype)
    raise_first(ExprError, f"topi.quantise of {x.name}", _byte_errors(to, zero))
    along = _along("quantise", x, axis, scale, zero)

    def body(*i: Any) -> Any:
        return _stored(x(*i) / along(scale, i), along(zero, i), to.low, to.high, to)

    return te.compute(x.shape, body, name="T_quantise", tag=ELEMENTWISE)


@checks_arguments
def dequantise(q: te.Tensor, scale: Any, zero: Any = 0, axis: int = -1) -> te.Tensor:
    """Return (q - zero) * scale as float32; q is of type uint8, int8 or int32.

    scale, zero: numbers, or tensors with one element for each index of `axis`.
    """
    if q.dtype not in (UINT8, INT8, INT32):
        why = f"it has type {q.dtype}"
        raise ExprError(f"topi.dequantise of {q.name}", why, "uint8, int8 or int32")
    along = _along("dequantise", q, axis, scale, zero)

    def body(*i: Any) -> Any:
        steps = q(*i).astype("int32") - _int32(along(zero, i))
        return steps.astype("float32") * _float32(along(scale, i))

    return te.compute(q.shape, body, name="T_dequantise", tag=ELEMENTWISE)


@checks_arguments
def requantise(
    acc: te.Tensor,
    bias: te.Tensor,
    scale: te.Tensor,
    zero: int = 0,
    low: int = 0,
    high: int = 255,
    dtype: str = "uint8",
    axis: int = -1,
) -> te.Tensor:
    """Return rint(float32(acc + bias) * scale) + zero as bytes, limited to low .. high.

    acc: int32 sums of products of bytes. bias: int32 [O], scale: float32 [O], one element for each
    index of `axis`. With data of scale sx and weights of scale sw[o], scale[o] is sx * sw[o] / sy,
    where sy is the scale of the result. dtype: "uint8" or "int8". A ReLU is low=zero.
    """
    to, what = dtype_named(dtype), f"topi.requantise of {acc.name}"
    raise_first(ExprError, what, _range_errors(to, zero, low, high))
    along = _along("requantise", acc, axis, bias, scale)

    def body(*i: Any) -> Any:
        total = (acc(*i) + along(bias, i)).astype("float32")
        return _stored(total * along(scale, i), zero, low, high, to)

    return te.compute(acc.shape, body, name="T_requantise", tag=ELEMENTWISE)


@checks_arguments
def add_requantised(
    a: te.Tensor,
    b: te.Tensor,
    ra: float,
    rb: float,
    rc: float,
    low: int = 0,
    high: int = 255,
    dtype: str = "uint8",
) -> te.Tensor:
    """Return rint(a * ra + (b * rb + rc)) as bytes, limited to low .. high; a and b are bytes.

    This is the sum of two quantised tensors with scales sa, sb and zero points za, zb, where the
    result has scale sy and zero point zy: ra = sa / sy, rb = sb / sy and rc = zy - (ra * za +
    rb * zb), in float32. A CPU with a fused multiply-add rounds each product and sum once.
    """
    to = dtype_named(dtype)
    what = f"topi.add_requantised of {a.name} and {b.name}"
    raise_first(ExprError, what, _range_errors(to, 0, low, high))
    for factor in (ra, rb, rc):
        _check_number("add_requantised", factor)
    shape = tensor.broadcast_shape("topi.add_requantised", a.shape, b.shape)

    def body(*i: Any) -> Any:
        x, y = (t(*tensor.broadcast_index(t.shape, i)).astype("float32") for t in (a, b))
        return _stored(x * _float32(ra) + (y * _float32(rb) + _float32(rc)), 0, low, high, to)

    return te.compute(shape, body, name="T_add_requantised", tag=ELEMENTWISE)


def _stored(value: Any, zero: Any, low: Any, high: Any, dtype: DType) -> Any:
    """Return rint(value) + zero, limited to low .. high, as `dtype`.

    Converting float32 to bytes limits them to the range of `dtype`, so other limits need no code.
    """
    q = te.round(value)
    if not (isinstance(zero, int) and zero == 0):
        q = q + _float32(zero)
    if low > dtype.low:
        q = te.max(q, _float32(low))
    if high < dtype.high:
        q = te.min(q, _float32(high))
    return q.astype(dtype)


def _float32(x: Any) -> Any:
    return tir.cast_to(x, "float32")


def _int32(x: Any) -> Any:
    return tir.cast_to(x, "int32")


def _along(
    name: str, x: te.Tensor, axis: int, *parameters: Any
) -> Callable[[Any, tuple[Any, ...]], Any]:
    """Return a function that reads a parameter of the element `i` of `x`.

    A parameter is a number, or a vector with one element for each index of dimension `axis`.
    Raises ExprError if a vector among `parameters` has another length.
    """
    at = dimension(name, x, axis) if x.ndim else 0
    for p in parameters:
        if isinstance(p, te.Tensor):
            check_vector(f"topi.{name}", p, x.shape[at] if x.ndim else 1)
        else:
            _check_number(name, p)

    def read(parameter: Any, i: tuple[Any, ...]) -> Any:
        return parameter(i[at]) if isinstance(parameter, te.Tensor) else parameter

    return read


def _check_number(name: str, x: Any) -> None:
    """Raise ExprError unless the parameter `x` of the operator `name` is a number."""
    if not isinstance(x, Real):
        raise ExprError(f"topi.{name}: {reprlib.repr(x)}", "it must be a number", "0.5")


def _byte_errors(dtype: DType, zero: Any) -> Iterator[Reason]:
    """Yield an error unless `dtype` is a type of bytes whose range contains the number `zero`."""
    if dtype not in (UINT8, INT8):
        yield f"dtype is {dtype}", '"uint8" or "int8"'
    elif not isinstance(zero, te.Tensor | Integral):
        yield f"zero is {reprlib.repr(zero)}", "an integer, or a tensor with one for each channel"
    elif not isinstance(zero, te.Tensor) and not dtype.low <= int(zero) <= dtype.high:
        yield (f"zero is {zero}, but {dtype} has the range {dtype.low} .. {dtype.high}",)


def _range_errors(dtype: DType, zero: int, low: int, high: int) -> Iterator[Reason]:
    """Yield an error for a zero point or for limits that bytes of type `dtype` cannot hold."""
    integers("topi: low, high", (low, high))
    yield from _byte_errors(dtype, zero)
    if not dtype.low <= low <= high <= dtype.high:
        why = f"the limits are {low} .. {high}, not a part of {dtype.low} .. {dtype.high}"
        yield why, "low <= high in the range of dtype"
