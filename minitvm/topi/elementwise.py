"""Elementwise operators: every output element depends on the input elements at its own place.

Shapes of two operands broadcast as in numpy: [3, 1] with [4] gives [3, 4].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .operands import on_tensors

ELEMENTWISE = "elementwise"


def _map(name: str, f: Callable[[Any], Any], x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: f(x(*i)), name=f"T_{name}", tag=ELEMENTWISE)


@on_tensors
def relu(x: te.Tensor) -> te.Tensor:
    """max(x, 0)."""
    return _map("relu", lambda v: te.max(v, 0), x)


@on_tensors
def leaky_relu(x: te.Tensor, alpha: float = 0.01) -> te.Tensor:
    """x where x > 0, else alpha * x."""
    return _map("leaky_relu", lambda v: tir.select(v > 0, v, v * alpha), x)


@on_tensors
def sigmoid(x: te.Tensor) -> te.Tensor:
    """1 / (1 + exp(-x))."""
    return _map("sigmoid", te.sigmoid, x)


@on_tensors
def tanh(x: te.Tensor) -> te.Tensor:
    """Hyperbolic tangent."""
    return _map("tanh", te.tanh, x)


@on_tensors
def gelu(x: te.Tensor) -> te.Tensor:
    """x * Phi(x), with Phi the normal distribution function, by erf."""
    return _map("gelu", lambda v: v * 0.5 * (1 + te.erf(v * 0.5**0.5)), x)


@on_tensors
def silu(x: te.Tensor) -> te.Tensor:
    """x * sigmoid(x), also called swish."""
    return _map("silu", lambda v: v * te.sigmoid(v), x)


@on_tensors
def exp(x: te.Tensor) -> te.Tensor:
    """e ** x."""
    return _map("exp", te.exp, x)


@on_tensors
def log(x: te.Tensor) -> te.Tensor:
    """Natural logarithm."""
    return _map("log", te.log, x)


@on_tensors
def sqrt(x: te.Tensor) -> te.Tensor:
    """Square root."""
    return _map("sqrt", te.sqrt, x)


@on_tensors
def rsqrt(x: te.Tensor) -> te.Tensor:
    """1 / sqrt(x)."""
    return _map("rsqrt", te.rsqrt, x)


@on_tensors
def erf(x: te.Tensor) -> te.Tensor:
    """The error function."""
    return _map("erf", te.erf, x)


@on_tensors
def negative(x: te.Tensor) -> te.Tensor:
    """-x."""
    return _map("negative", lambda v: -v, x)


@on_tensors
def abs(x: te.Tensor) -> te.Tensor:
    """|x|."""
    return _map("abs", te.abs, x)


@on_tensors
def clip(x: te.Tensor, a_min: float, a_max: float) -> te.Tensor:
    """x, but at least a_min and at most a_max."""
    return _map("clip", lambda v: te.min(te.max(v, a_min), a_max), x)


@on_tensors
def cast(x: te.Tensor, dtype: str) -> te.Tensor:
    """x converted to `dtype`."""
    return _map("cast", lambda v: tir.cast_to(v, dtype), x)


# --- two operands --------------------------------------------------------------------------------


def add(a: Any, b: Any) -> te.Tensor:
    """a + b; one of them may be a number."""
    return broadcast("add", lambda x, y: x + y, a, b)


def subtract(a: Any, b: Any) -> te.Tensor:
    """a - b."""
    return broadcast("subtract", lambda x, y: x - y, a, b)


def multiply(a: Any, b: Any) -> te.Tensor:
    """a * b."""
    return broadcast("multiply", lambda x, y: x * y, a, b)


def divide(a: Any, b: Any) -> te.Tensor:
    """a / b on floats."""
    return broadcast("divide", lambda x, y: x / y, a, b)


def maximum(a: Any, b: Any) -> te.Tensor:
    """The larger of a and b."""
    return broadcast("maximum", te.max, a, b)


def minimum(a: Any, b: Any) -> te.Tensor:
    """The smaller of a and b."""
    return broadcast("minimum", te.min, a, b)


def power(a: Any, b: Any) -> te.Tensor:
    """a ** b on floats."""
    return broadcast("power", te.power, a, b)


def broadcast(name: str, f: Callable[[Any, Any], Any], a: Any, b: Any) -> te.Tensor:
    """The tensor of f(element of a, element of b), where one of them may be a number."""
    if not isinstance(a, te.Tensor) and not isinstance(b, te.Tensor):
        raise ExprError(f"topi.{name}", "neither operand is a tensor")
    shape = broadcast_shape(name, shape_of(a), shape_of(b))
    body: Callable[..., Any] = lambda *i: f(element_at(a, i), element_at(b, i))  # noqa: E731
    return te.compute(shape, body, name=f"T_{name}", tag=ELEMENTWISE)


def shape_of(x: Any) -> tuple[tir.Index, ...]:
    """The shape of a tensor; of a number, ()."""
    return x.shape if isinstance(x, te.Tensor) else ()


def element_at(x: Any, i: tuple[Any, ...]) -> Any:
    """The element of x that belongs to place i of the broadcast shape."""
    if not isinstance(x, te.Tensor):
        return x
    mine = i[len(i) - x.ndim :]
    return x(*(0 if _is_one(n) else j for n, j in zip(x.shape, mine, strict=True)))


def _is_one(n: tir.Index) -> bool:
    return isinstance(n, int) and n == 1


def broadcast_shape(
    name: str, a: tuple[tir.Index, ...], b: tuple[tir.Index, ...]
) -> tuple[tir.Index, ...]:
    """The shape numpy would give to an operation on shapes a and b."""
    rank = max(len(a), len(b))
    wide = [(1,) * (rank - len(s)) + s for s in (a, b)]
    found: list[tir.Index] = []
    for x, y in zip(*wide, strict=True):
        if not (_is_one(x) or _is_one(y) or tir.same(x, y)):
            shown = [f"[{', '.join(tir.text(n) for n in s)}]" for s in (a, b)]
            raise ExprError(f"topi.{name} of {' and '.join(shown)}", "the shapes do not broadcast")
        found.append(y if _is_one(x) else x)
    return tuple(found)
