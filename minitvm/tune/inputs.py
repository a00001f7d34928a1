"""Arguments and random inputs for measuring programs, and the tolerances of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from minitvm import lowering, runtime, tir
from minitvm.base import ArgumentError, MeasureError, dtype, holds_floats

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
STEPS = 8  # how many rounding errors of one operation a result may contain
PAIRS = 4  # how many times moved() moves each number up and down
MOVES = 4  # an element may differ by so many of its largest movements


def arguments(func: tir.PrimFunc, inputs: Sequence[Any] | None) -> list[runtime.Argument]:
    """Return the parameters of `func`; ArgumentError if a size or the value of a scalar is unknown.

    inputs   the values of the parameters that are not outputs; only scalars need a value
    """
    if func.sizes:
        names = ", ".join(v.name for v in func.sizes)
        why = f"its size {names} is known only at the call"
        raise ArgumentError(f"measuring {func.name}", why, "integers as sizes")
    values = iter(() if inputs is None else inputs)
    parameters: list[runtime.Argument] = []
    for p in func.params:
        if isinstance(p, tir.Buffer):
            output = any(p is b for b in func.outputs)
            shape = tuple(n for n in p.shape if isinstance(n, int))
            kind = "output" if output else "input"
            parameters.append(runtime.Argument(kind, p.name, str(p.dtype), shape))
            if not output:
                next(values, None)
        else:
            value = next(values, None)
            if not isinstance(value, int):
                why = f"its parameter {p.name} is a number"
                raise ArgumentError(f"measuring {func.name}", why, "inputs=[..., 3, ...]")
            parameters.append(runtime.Argument("scalar", p.name, value=value))
    return parameters


def checked(inputs: Sequence[Any], parameters: Sequence[runtime.Argument]) -> list[Array]:
    """Return the arrays among `inputs`; ArgumentError unless these inputs fit the parameters."""
    expected = [a for a in parameters if a.kind != "output"]
    if len(inputs) != len(expected):
        names = ", ".join(a.name for a in expected)
        raise ArgumentError("inputs", f"{len(inputs)} are given for {names}", "one for each")
    arrays: list[Array] = []
    for a, value in zip(expected, inputs, strict=True):
        if a.kind == "input":
            array = np.ascontiguousarray(value)
            if array.shape != a.shape or str(array.dtype) != a.dtype:
                why = f"{array.dtype} of shape {array.shape}, not {a.dtype} of shape {a.shape}"
                raise ArgumentError(f"inputs: {a.name}", why)
            arrays.append(array)
    return arrays


def draw(parameters: Sequence[runtime.Argument], rng: np.random.Generator) -> list[Array]:
    """Draw the inputs: floats between 1/8 and 1 with random signs, integers up to 1,000 in size.

    Products and sums of such floats are not denormal; arithmetic on denormal numbers is slow.
    """
    return [_drawn(a, rng) for a in parameters if a.kind == "input"]


def _drawn(a: runtime.Argument, rng: np.random.Generator) -> Array:
    """Return random elements for an argument: floats of magnitude 1/8 to 1, integers to 1000."""
    kind = dtype(a.dtype)
    match kind.kind:
        case "float":
            signs = rng.choice(np.array([-1, 1], np.float32), a.shape)
            return (rng.uniform(0.125, 1.0, a.shape) * signs).astype(kind.numpy)
        case "bool":
            return rng.integers(0, 2, a.shape).astype(kind.numpy)
        case _:
            low, high = (int(max(-1000, min(end, 1000))) for end in (kind.low, kind.high))
            return rng.integers(low, high, a.shape, kind.numpy, endpoint=True)


def tolerance(func: tir.PrimFunc) -> float:
    """Return the relative error that the roundings of `func` can be expected to cause.

    Programs for one formula differ in the order of their sums. The errors of n roundings add up to
    a few times sqrt(n) of them, since their signs differ. So this is eight roundings times the
    square root of the operations per sum, but at most the square root of one rounding: half of the
    digits.
    Source: Higham and Mary 2019, "A New Approach to Probabilistic Rounding Error Analysis".
    """
    epsilon = max((b.dtype.epsilon for b in func.outputs if b.dtype.is_float), default=0.0)
    return min(math.sqrt(epsilon), STEPS * epsilon * math.sqrt(_operations(func)))


def _operations(func: tir.PrimFunc) -> float:
    """Return an upper bound of the operations in one sum, or 1 if there is no sum.

    Elements that are stored repeatedly are sums. This is the number of stores to all of them,
    divided by how many the buffer with the fewest has.
    """
    stores: dict[tir.Buffer, float] = {}
    elements: dict[tir.Buffer, float] = {}
    for run in lowering.runs(func.body):
        b, outer_loops = run.store.buffer, run.around
        depths = (
            n for n, s in enumerate(outer_loops) if isinstance(s, tir.Allocate) and s.buffer is b
        )
        lanes = max(tir.lanes(e) for e in (*run.store.indices, run.store.value))
        stores[b] = stores.get(b, 0.0) + _iterations(outer_loops) * lanes
        elements[b] = _iterations(outer_loops[: next(depths, 0)]) * tir.upper_bound(tir.elements(b))
    accumulators = [b for b in stores if stores[b] > elements[b] > 0]
    fewest = min((elements[b] for b in accumulators), default=1.0)
    return max(1.0, sum(stores[b] for b in accumulators) / fewest)


def _iterations(around: Sequence[tir.Stmt]) -> float:
    """Return an upper bound of how often the loops among `around` run what they enclose."""
    loops = (s for s in around if isinstance(s, tir.For))
    return math.prod(max(0, tir.upper_bound(s.extent)) for s in loops)


def expected_of(
    run: Callable[[Sequence[Array]], list[Array]],
    inputs: Sequence[Array],
    by: float | None,
    *,
    drawn: bool,
) -> tuple[Sequence[Array], list[Array], list[Array]]:
    """Run the reference; return the inputs, its outputs, and the largest errors of programs.

    Random inputs have negative numbers, because otherwise max(x, 0) would do nothing. If that makes
    outputs NaN or infinite, as with sqrt(x), the absolute values are the inputs.

    run     computes the outputs of the reference from inputs
    by      the tolerance of the reference; None if outputs are not compared: there are no errors
    drawn   whether the inputs were drawn, so that others may take their place
    """
    outputs = run(inputs)
    if drawn and not _finite(outputs):
        inputs = [np.abs(a) for a in inputs]
        outputs = run(inputs)
    if by is None:
        return inputs, outputs, []
    if not _finite(outputs):
        why = "its outputs have NaN or infinite elements, which cannot be compared"
        raise MeasureError("the reference program", why, "other inputs=[...]; or check=False")
    return inputs, outputs, largest_errors(outputs, map(run, moved(inputs, by)), by)


def _finite(arrays: Iterable[Array]) -> bool:
    return all(np.isfinite(a).all() for a in arrays)


def moved(inputs: Sequence[Array], by: float) -> Iterator[list[Array]]:
    """Yield the inputs with each float moved up or down by the relative amount `by`, at random.

    Nothing is yielded if `by` is 0, which is the tolerance of integers.
    Each choice of directions is followed by its opposite: max(x, 0) may move only one way.
    """
    rng = np.random.default_rng(0)
    for _ in range(PAIRS if by > 0 else 0):
        ups = [rng.integers(0, 2, a.shape, np.int8) for a in inputs]
        for step in (by, -by):
            yield [
                (a * (1 + step * (2.0 * up - 1))).astype(a.dtype) if holds_floats(a) else a
                for a, up in zip(inputs, ups, strict=True)
            ]


def largest_errors(
    outputs: Sequence[Array], others: Iterable[Sequence[Array]], by: float
) -> list[Array]:
    """Return the largest error that each element of each output may have.

    A correct program may differ from the reference as the reference differs from itself when its
    inputs move by a rounding: both change a result by the roundings of all numbers that it is
    computed from. So an element may differ by MOVES times its largest movement, and by the relative
    amount `by`.

    others   the outputs of the reference for the inputs of moved(inputs, by)
    """
    exact = [a.astype(np.float64) for a in outputs]
    limits = [by * np.abs(a) for a in exact]
    for moves in others:
        for n, move in enumerate(moves):
            movement = by * np.abs(exact[n]) + MOVES * np.abs(move - exact[n])
            limits[n] = np.fmax(limits[n], movement)  # a movement to NaN says nothing
    return limits


def unwritten(shape: Sequence[int], name: str) -> Array:
    """Return an output whose elements are wrong until a program writes them; a ReLU gives zeros."""
    kind = dtype(name)
    wrong = np.full(shape, np.nan if kind.is_float else 85)  # 0b01010101
    return wrong.astype(kind.numpy)
