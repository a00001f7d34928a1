"""Arguments and random inputs for measuring programs, and the tolerances of their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from minitvm import lowering, runtime, tir
from minitvm.base import ArgumentError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
STEPS = 8  # how many rounding errors per operation a result may contain


def arguments(func: tir.PrimFunc, inputs: Sequence[Any] | None) -> list[runtime.Argument]:
    """Return the parameters of `func`; ArgumentError if a size or the value of a scalar is unknown.

    inputs   the values of the parameters that are not outputs; only scalars need a value
    """
    if func.sizes:
        names = ", ".join(v.name for v in func.sizes)
        why = f"its size {names} is known only at the call"
        raise ArgumentError(f"measuring {func.name}", why, "integers as sizes")
    values = iter(() if inputs is None else inputs)
    found: list[runtime.Argument] = []
    for p in func.params:
        if isinstance(p, tir.Buffer):
            output = any(p is b for b in func.outputs)
            shape = tuple(n for n in p.shape if isinstance(n, int))
            kind = "output" if output else "input"
            found.append(runtime.Argument(kind, p.name, str(p.dtype), shape))
            if not output:
                next(values, None)
        else:
            value = next(values, None)
            if not isinstance(value, int):
                why = f"its parameter {p.name} is a number"
                raise ArgumentError(f"measuring {func.name}", why, "inputs=[..., 3, ...]")
            found.append(runtime.Argument("scalar", p.name, value=value))
    return found


def checked(given: Sequence[Any], wanted: Sequence[runtime.Argument]) -> list[Array]:
    """Return the arrays among `given`; ArgumentError unless these inputs fit the parameters."""
    expected = [a for a in wanted if a.kind != "output"]
    if len(given) != len(expected):
        names = ", ".join(a.name for a in expected)
        raise ArgumentError("inputs", f"{len(given)} are given for {names}", "one for each")
    arrays: list[Array] = []
    for a, value in zip(expected, given, strict=True):
        if a.kind == "input":
            array = np.ascontiguousarray(value)
            if array.shape != a.shape or str(array.dtype) != a.dtype:
                why = f"{array.dtype} of shape {array.shape}, not {a.dtype} of shape {a.shape}"
                raise ArgumentError(f"inputs: {a.name}", why)
            arrays.append(array)
    return arrays


def draw(wanted: Sequence[runtime.Argument], rng: np.random.Generator) -> list[Array]:
    """Draw the inputs: floats between 1/8 and 1 with random signs, integers up to 1,000 in size.

    Products and sums of such floats are not denormal; arithmetic on denormal numbers is slow.
    """
    return [_drawn(a, rng) for a in wanted if a.kind == "input"]


def _drawn(a: runtime.Argument, rng: np.random.Generator) -> Array:
    dtype = np.dtype(a.dtype)
    match dtype.kind:
        case "f":
            signs = rng.choice(np.array([-1, 1], np.float32), a.shape)
            return (rng.uniform(0.125, 1.0, a.shape) * signs).astype(dtype)
        case "b":
            return rng.integers(0, 2, a.shape).astype(dtype)
        case _:
            ends = np.iinfo(dtype)
            low, high = max(ends.min, -1000), min(ends.max, 1000)
            return rng.integers(low, high, a.shape, dtype, endpoint=True)


def tolerance(func: tir.PrimFunc) -> float:
    """Return how large an error may be, relative to the largest element of the outputs.

    Programs for one formula differ in the order of their sums. A sum of n terms has an error of at
    most n roundings, so this allows eight roundings for each operation per element, but at most the
    square root of one rounding: half of the digits. For float32 and sums of 400 terms or more this
    is 3.5e-4. One missing term of 100,000 still exceeds it.
    """
    floats = [b for b in func.outputs if b.dtype.numpy.kind == "f"]
    if not floats:
        return 0.0
    rounding = max(float(np.finfo(str(b.dtype)).eps) for b in floats)
    elements = sum(math.prod(n for n in b.shape if isinstance(n, int)) for b in func.outputs)
    stores = sum(map(_elements_stored, lowering.runs(func.body)))
    return min(math.sqrt(rounding), STEPS * rounding * max(1.0, stores / max(1, elements)))


def _elements_stored(run: lowering.GuardedStore) -> float:
    """Return an upper bound of the elements that a store writes, repeated writes included."""
    lanes = max(tir.lanes(e) for e in (*run.store.indices, run.store.value))
    return math.prod(max(0, tir.upper_bound(loop.extent)) for loop in run.loops) * lanes
