"""The argument checks that all operators share."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

from minitvm import te, tir
from minitvm.base import INT8, UINT8, ArgumentError, ExprError, as_tuple, check_flag, check_text

P = ParamSpec("P")
R = TypeVar("R")


def checks_arguments(operator: Callable[P, R]) -> Callable[P, R]:
    """Decorate `operator` to check the types of its tensor, bool and string arguments.

    Its annotations give the types. Arguments annotated with other types are not checked
    here, nor are those whose names contain "dtype": they may also be DType objects.
    """
    signature = inspect.signature(operator)
    # Annotations are strings because operators import annotations from __future__.
    types = {n: p.annotation for n, p in signature.parameters.items()}
    tensors = [n for n, t in types.items() if t in ("te.Tensor", "te.Tensor | None")]
    flags = [n for n, t in types.items() if t == "bool"]
    strings = [n for n, t in types.items() if t == "str" and "dtype" not in n]

    @functools.wraps(operator)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        try:
            values = signature.bind(*args, **options).arguments
        except TypeError:  # Python's own message names the operator
            return operator(*args, **options)
        for name, x in values.items():
            what = f"topi.{operator.__name__}: {name}"
            if name in tensors and not (x is None and "None" in types[name]):
                check_tensor(f"topi.{operator.__name__}", name, x)
            elif name in flags:
                check_flag(what, x)
            elif name in strings:
                check_text(what, x, f"{name}={signature.parameters[name].default!r}")
        return operator(*args, **options)

    return checked


def check_tensor(what: str, name: str, x: Any) -> None:
    """Raise ExprError unless `x`, the argument `name` of the operator `what`, is a tensor."""
    if not isinstance(x, te.Tensor):
        raise ExprError(
            f"{what}: {name} is {type(x).__name__}",
            "not a tensor",
            'te.placeholder(shape, "float32"); data is passed when the function is called',
        )


def product(x: Any, y: Any, dtype: str) -> Any:
    """Return x * y; both are first converted to `dtype`, unless it is ""."""
    return tir.cast_to(x, dtype) * tir.cast_to(y, dtype) if dtype else x * y


def products_dtype(data: te.Tensor, kernel: te.Tensor, out_dtype: Any) -> str:
    """Return the type of the products of a convolution; "" for the common type of its operands.

    This is `out_dtype` if given. Products of bytes are int32, because their sums need it.
    """
    of_bytes = all(t.dtype in (INT8, UINT8) for t in (data, kernel))
    return str(out_dtype) or ("int32" if of_bytes else "")


def integers(what: str, x: Any) -> list[int]:
    """Return `x`, an integer or a sequence of them, as a list; otherwise raise ExprError."""
    try:
        numbers = list(x)
    except TypeError:
        numbers = [x]
    for n in numbers:
        if not isinstance(n, Integral):
            raise ExprError(f"{what}: {reprlib.repr(n)}", "not an integer")
    return [int(n) for n in numbers]


def dimension(name: str, x: te.Tensor, axis: Any) -> int:
    """Return `axis` as a dimension >= 0 of `x`; raise ExprError unless it is one dimension."""
    axes = [] if axis is None else dimensions(name, x, axis)
    if len(axes) != 1:
        what = f"topi.{name} of {x.name} over axis {axis}"
        raise ExprError(what, "it works along one dimension", "axis=-1")
    return axes[0]


def dimensions(name: str, x: te.Tensor, axis: Any) -> list[int]:
    """Return `axis` as a sorted list of dimensions >= 0 of `x`; raise ExprError if it is invalid.

    A negative dimension is counted from the end, and None stands for all dimensions.
    """
    axes = range(x.ndim) if axis is None else integers(f"topi.{name}: axis", axis)
    positions = [d + x.ndim if d < 0 else d for d in axes]
    if (
        not positions
        or len(set(positions)) < len(positions)
        or not all(0 <= d < x.ndim for d in positions)
    ):
        why = f"these are not different dimensions of {x.name}, which has {x.ndim}"
        raise ExprError(f"topi.{name} of {x.name} over axis {axis}", why)
    return sorted(positions)


def check_rank(what: str, x: te.Tensor, rank: int) -> None:
    """Raise ExprError if `x` does not have `rank` dimensions."""
    if x.ndim != rank:
        raise ExprError(f"{what} of {x.name}", f"it has {x.ndim} dimensions, not {rank}")


def check_vector(what: str, x: te.Tensor, size: tir.Index) -> None:
    """Raise ExprError if `x` is not a vector of `size` elements."""
    if x.ndim != 1 or not tir.prove_equal(x.shape[0], size):
        raise ExprError(f"{what}: {x.name}", f"its shape must be [{tir.text(size)}]")


def check_pad_value(what: str, value: Any, data: te.Tensor) -> int:
    """Return `value`, the value of pixels outside an image; raise ExprError if it does not fit."""
    (number,) = integers(f"{what}: pad_value", (value,))
    if not data.dtype.low <= number <= data.dtype.high:
        why = f"{data.dtype} has the range {data.dtype.low} .. {data.dtype.high}"
        raise ExprError(f"{what}: pad_value={number}", why, "the zero point of the data")
    return number


def check_outputs(outs: Any) -> list[te.Tensor]:
    """Return `outs`, a tensor or several, as a list; raise ArgumentError for anything else."""
    outputs = list(as_tuple(outs))
    for t in outputs:
        if not isinstance(t, te.Tensor):
            raise ArgumentError(
                f"topi.schedule({type(t).__name__})",
                "the argument must be a tensor to compute, or a list of them",
                "topi.schedule(C) or topi.schedule([C, D])",
            )
    return outputs
