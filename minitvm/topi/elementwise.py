"""Elementwise operators: each output element depends on the input elements at the same index.

Shapes of two operands broadcast as in numpy: [3, 1] with [4] gives [3, 4].
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from minitvm import te, tensor, tir
from minitvm.base import BOOL, ExprError, named

from .operands import checks_arguments

__all__ = [
    "abs", "add", "cast", "clip", "divide", "equal", "erf", "exp", "gelu", "greater",
    "greater_equal", "leaky_relu", "less", "less_equal", "log", "maximum", "minimum",
    "multiply", "negative", "not_equal", "power", "relu", "rsqrt", "sigmoid", "silu", "sqrt",
    "subtract", "tanh", "where",
]  # fmt: skip

ELEMENTWISE = tensor.ELEMENTWISE


def _map(name: str, f: Callable[[Any], Any], x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: f(x(*i)), name=f"T_{name}", tag=ELEMENTWISE)


def unary(name: str, f: Callable[[Any], Any], doc: str) -> Callable[[te.Tensor], te.Tensor]:
    """Return an operator called `name` that applies `f` to each element of a tensor."""

    def apply(x: te.Tensor) -> te.Tensor:
        return _map(name, f, x)

    return checks_arguments(named(apply, name, doc))


def pairwise(name: str, f: Callable[[Any, Any], Any], doc: str) -> Callable[[Any, Any], te.Tensor]:
    """Return an operator called `name` that applies `f` to two elements; its operands broadcast."""

    def apply(a: Any, b: Any) -> te.Tensor:
        if not isinstance(a, te.Tensor) and not isinstance(b, te.Tensor):
            raise ExprError(f"topi.{name}", "neither operand is a tensor")
        shape = tensor.broadcast_shape(f"topi.{name}", shape_of(a), shape_of(b))
        body: Callable[..., Any] = lambda *i: f(element_at(a, i), element_at(b, i))  # noqa: E731
        return te.compute(shape, body, name=f"T_{name}", tag=ELEMENTWISE)

    return named(apply, name, doc)


# --- one operand ---------------------------------------------------------------------------------

relu = unary("relu", lambda x: te.max(x, 0), "Return max(x, 0).")
sigmoid = unary("sigmoid", te.sigmoid, "Return 1 / (1 + exp(-x)).")
tanh = unary("tanh", te.tanh, "Return the hyperbolic tangent of x.")
gelu = unary(
    "gelu",
    lambda x: x * 0.5 * (1 + te.erf(x * 0.5**0.5)),
    "Return x * Phi(x), where Phi is the normal distribution function, computed by erf.",
)
silu = unary("silu", lambda x: x * te.sigmoid(x), "Return x * sigmoid(x), also called swish.")
exp = unary("exp", te.exp, "Return e ** x.")
log = unary("log", te.log, "Return the natural logarithm of x.")
sqrt = unary("sqrt", te.sqrt, "Return the square root of x.")
rsqrt = unary("rsqrt", te.rsqrt, "Return 1 / sqrt(x).")
erf = unary("erf", te.erf, "Return the error function of x.")
negative = unary("negative", operator.neg, "Return -x.")
abs = unary("abs", te.abs, "Return |x|.")


@checks_arguments
def leaky_relu(x: te.Tensor, alpha: float = 0.01) -> te.Tensor:
    """Return x where x > 0, else alpha * x."""
    return _map("leaky_relu", lambda v: tir.select(v > 0, v, v * alpha), x)


@checks_arguments
def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """Return x limited to a_min .. a_max."""
    return _map("clip", lambda v: te.min(te.max(v, a_min), a_max), x)


@checks_arguments
def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """Return x converted to `dtype`."""
    return _map("cast", lambda v: tir.cast_to(v, dtype), x)


# --- two operands --------------------------------------------------------------------------------

add = pairwise("add", operator.add, "Return a + b; one of them may be a number.")
subtract = pairwise("subtract", operator.sub, "Return a - b.")
multiply = pairwise("multiply", operator.mul, "Return a * b.")
divide = pairwise("divide", lambda x, y: x / y, "Return a / b on floats.")
maximum = pairwise("maximum", te.max, "Return the larger of a and b.")
minimum = pairwise("minimum", te.min, "Return the smaller of a and b.")
power = pairwise("power", te.power, "Return a ** b on floats.")
equal = pairwise("equal", operator.eq, "Return a == b as bool; one of them may be a number.")
not_equal = pairwise("not_equal", operator.ne, "Return a != b as bool.")
less = pairwise("less", operator.lt, "Return a < b as bool.")
less_equal = pairwise("less_equal", operator.le, "Return a <= b as bool.")
greater = pairwise("greater", operator.gt, "Return a > b as bool.")
greater_equal = pairwise("greater_equal", operator.ge, "Return a >= b as bool.")


# --- several operands ----------------------------------------------------------------------------


@checks_arguments
def where(condition: te.Tensor, x: Any, y: Any) -> te.Tensor:
    """Return x where `condition` is true or not 0, and y elsewhere.

    All three broadcast; x and y may be numbers.
    """
    shape = shape_of(condition)
    for t in (x, y):
        shape = tensor.broadcast_shape("topi.where", shape, shape_of(t))

    def body(*i: Any) -> Any:
        c = element_at(condition, i)
        return tir.select(c if c.dtype is BOOL else c != 0, element_at(x, i), element_at(y, i))

    return te.compute(shape, body, name="T_where", tag=ELEMENTWISE)


def shape_of(x: Any) -> tuple[tir.Index, ...]:
    """Return the shape of a tensor; () for a number."""
    return x.shape if isinstance(x, te.Tensor) else ()


def element_at(x: Any, i: tuple[Any, ...]) -> Any:
    """Return the element that `x`, broadcast to a larger shape, has at index `i`."""
    if not isinstance(x, te.Tensor):
        return x
    return x(*tensor.broadcast_index(x.shape, i))
