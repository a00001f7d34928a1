"""Calls of functions with constants; a separate program packs the constants.

f(a, w, c)          prepack(w, packed); main(a, w, c, packed)         at each call
g = f.bind(W=w)     prepack(w, packed)                                once
g(a, c)             main(a, w, c, packed)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import ArgumentError, Reason, raise_first

from .aligned import Array, empty_aligned
from .arguments import Arguments
from .loading import Run

CONSTANT = 'te.placeholder(..., name="W", constant=True)'


def packing(func: tir.PrimFunc, prepack: Run, main: Run) -> Run:
    """Return a function that packs the constants among its arguments, and then calls `main`."""
    n = len(func.params)
    constant = [i for i, p in enumerate(func.params) if func.is_constant(p)]

    def run(args: list[Any]) -> None:
        packed = pack_constants(func, prepack, [args[i] for i in constant])
        main([*args[:n], *packed, *args[n:]])

    return run


def bound(
    func: tir.PrimFunc, prepack: Run | None, main: Run, constants: Mapping[str, Any]
) -> tuple[tir.PrimFunc, Run]:
    """Return `func` without its constants, and code that calls `main` with the arrays `constants`.

    Raises ArgumentError unless `constants` has a fitting array for each constant.
    """
    raise_first(ArgumentError, f"bind of {func.name}", _about_names(func, constants))
    constants_func = replace(
        func, params=func.constants, outputs=(), sizes=(), needs=(), prepack=None
    )
    arrays = Arguments(constants_func).checked(tuple(constants[b.name] for b in func.constants))
    fixed = {id(b): a for b, a in zip(func.constants, arrays, strict=True)}
    packed = [] if prepack is None else pack_constants(func, prepack, arrays)
    left = tuple(p for p in func.params if id(p) not in fixed)

    def run(args: list[Any]) -> None:
        free = iter(args)
        whole = [fixed[id(p)] if id(p) in fixed else next(free) for p in func.params]
        main([*whole, *packed, *free])

    return replace(func, params=left, constants=()), run


def pack_constants(func: tir.PrimFunc, prepack: Run, constants: list[Any]) -> list[Array]:
    """Compute the buffers func.packed with `prepack` from the arrays of the constants."""
    packed = [empty_aligned((constant_size(b),), b.dtype.numpy) for b in func.packed]
    prepack([*constants, *packed])
    return packed


def constant_size(b: object) -> int:
    """Return the number of elements of a buffer whose shape is constant."""
    assert isinstance(b, tir.Buffer)
    size = tir.elements(b)
    assert isinstance(size, int)
    return size


def _about_names(func: tir.PrimFunc, constants: Mapping[str, Any]) -> Iterator[Reason]:
    """Yield an error for each name that is not a constant, and for constants that are missing."""
    names = [b.name for b in func.constants]
    if not names and func.prepack is not None:
        yield "its constants are bound already", "bind the function that build returned"
    if not names:
        yield "it has no constants", CONSTANT
    for name in constants:
        if name not in names:
            yield f"{name!r} is not a constant of it", f"its constants: {', '.join(names)}"
    missing = [name for name in names if name not in constants]
    if missing:
        yield f"{', '.join(missing)} missing", "all constants are bound at once"
