"""The argument checks that all operators share."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

from minitvm import te, tir
from minitvm.base import ArgumentError, ExprError, as_tuple, check_flag, check_text

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
    wanted = [n for n, t in types.items() if t in ("te.Tensor", "te.Tensor | None")]
    flags = [n for n, t in types.items() if t == "bool"]
    strings = [n for n, t in types.items() if t == "str" and "dtype" not in n]

    @functools.wraps(operator)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **options).arguments
        except TypeError:  # Python's own message names the operator
            return operator(*args, **options)
        for name in wanted:
            if name not in given or (given[name] is None and "None" in types[name]):
                continue
            check_tensor(f"topi.{operator.__name__}", name, given[name])
        for name in given:
            what = f"topi.{operator.__name__}: {name}"
            if name in flags:
                check_flag(what, given[name])
            elif name in strings:
                check_text(what, given[name], f"{name}={signature.parameters[name].default!r}")
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


def integers(what: str, given: Any) -> list[int]:
    """Return `given`, an integer or a sequence of them, as a list; otherwise raise ExprError."""
    try:
        found = list(given)
    except TypeError:
        found = [given]
    for n in found:
        if not isinstance(n, Integral):
            raise ExprError(f"{what}: {reprlib.repr(n)}", "not an integer")
    return [int(n) for n in found]


def check_rank(what: str, x: te.Tensor, rank: int) -> None:
    """Raise ExprError if `x` does not have `rank` dimensions."""
    if x.ndim != rank:
        raise ExprError(f"{what} of {x.name}", f"it has {x.ndim} dimensions, not {rank}")


def check_vector(what: str, x: te.Tensor, size: tir.Index) -> None:
    """Raise ExprError if `x` is not a vector of `size` elements."""
    if x.ndim != 1 or not tir.prove_equal(x.shape[0], size):
        raise ExprError(f"{what}: {x.name}", f"its shape must be [{tir.text(size)}]")


def check_outputs(outs: Any) -> list[te.Tensor]:
    """Return `outs`, a tensor or several, as a list; raise ArgumentError for anything else."""
    found = list(as_tuple(outs))
    for t in found:
        if not isinstance(t, te.Tensor):
            raise ArgumentError(
                f"topi.schedule({type(t).__name__})",
                "the argument must be a tensor to compute, or a list of them",
                "topi.schedule(C) or topi.schedule([C, D])",
            )
    return found
