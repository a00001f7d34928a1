"""Random operators of networks compute what the evaluator computes, whatever surrounds them.

To run the case of one seed alone: python -m tests.topi.test_random_operators SEED
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.tensor import evaluate

from .random_operators import Case, Rng, between, draw, fixed, pick

Array = np.ndarray[Any, Any]

FRAME = 64  # elements before and after each array; they must be neither read nor written


def framed(rng: Rng, values: Array) -> tuple[Array, tuple[Array, Array]]:
    """A copy of an array inside a larger one, at any alignment, and what is before and after it.

    The elements around it are nan, or 77 if they are integers.
    """
    outside, start = np.nan if values.dtype.kind == "f" else 77, between(rng, FRAME - 15, FRAME)
    room, end = np.full(values.size + 2 * FRAME, outside, values.dtype), start + values.size
    inner = room[start:end].reshape(values.shape)
    inner[...] = values
    return inner, (room[:start], room[end:])


def numbers(rng: Rng, t: te.Tensor, size: int, reals: bool) -> Array:
    """Values for an input: small integers, or real numbers. size: the symbolic size."""
    shape = [n if isinstance(n, int) else size for n in t.shape]
    values = rng.uniform(-2, 2, shape) if reals else rng.integers(-2, 2, shape, endpoint=True)
    return framed(rng, values.astype(str(t.dtype)))[0]


def check(case: Case, seed: int) -> None:
    """Build and call the function of a case; raise AssertionError unless it is the evaluator's."""
    rng = np.random.default_rng(seed)
    s = topi.schedule(case.outs, pick(rng, [case.target, "llvm"]))
    f = tvm.build(s, [*case.inputs, *case.outs], case.target)
    for size in case.batches:
        arrays = {t: numbers(rng, t, size, case.reals) for t in case.inputs}
        values = evaluate(case.plain, arrays)
        limit = case.error * max(float(abs(v).max(initial=1)) for v in values)
        constants = {t.name: a for t, a in arrays.items() if fixed(t) and case.bound}
        call = f.bind(**constants) if case.bound else f
        made = [framed(rng, np.full_like(v, 77)) for v in values[: len(case.outs)]]
        call(*(a for t, a in arrays.items() if t.name not in constants), *(m for m, _ in made))
        for (got, around), want in zip(made, values, strict=False):
            np.testing.assert_allclose(got, want, rtol=0, atol=limit)
            for a in around:
                assert (np.isnan(a) if a.dtype.kind == "f" else a == 77).all()


def failure(seed: int) -> str:
    """What goes wrong in the case of this seed; empty if it is right."""
    text = "no case was drawn"
    try:
        case = draw(seed)
        text = case.text
        check(case, seed)
    except Exception:
        alone = f"python -m tests.topi.test_random_operators {seed}"
        return f"seed {seed}: {text}\n{traceback.format_exc()}\n  alone: {alone}\n"
    return ""


def run(seeds: range) -> None:
    failures = list(filter(None, map(failure, seeds)))
    assert not failures, "\n".join([f"{len(failures)} of {len(seeds)} cases", *failures])


def test_random_operators_equal_the_evaluator() -> None:
    run(range(12))


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(1000, 3000, 50))
def test_many_random_operators_equal_the_evaluator(start: int) -> None:
    run(range(start, start + 50))


if __name__ == "__main__":
    chosen = int(sys.argv[1])
    print(draw(chosen).text)
    print(failure(chosen) or "right")
