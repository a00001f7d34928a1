"""How the tests of this package compare what programs compute."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.tir import Buffer, PrimFunc, interpret, substitute, variables

Same = Callable[..., None]


def run(f: PrimFunc, flat: bool, sizes: dict[str, int]) -> list[np.ndarray[Any, Any]]:
    """The outputs of `f` on fixed whole numbers; parallel loops run in a random order."""
    rng = np.random.default_rng(0)
    args: list[Any] = []
    for p in f.params:
        if isinstance(p, Buffer):
            values = [{v: sizes[v.name] for v in variables(n)} for n in p.shape]
            shape = [*map(substitute, p.shape, values)]
            args.append(rng.integers(-4, 5, shape).astype(p.dtype.numpy))
        else:
            args.append(sizes[p.name])
    interpret(f, *args, rng=rng, flat=flat)
    return [a for p, a in zip(f.params, args, strict=True) if any(p is b for b in f.outputs)]


@pytest.fixture
def same() -> Same:
    """Two programs give the same outputs: same(before, after, n=10)."""

    def check(before: PrimFunc, after: PrimFunc, flat: bool = True, **sizes: int) -> None:
        for a, b in zip(run(before, flat, sizes), run(after, True, sizes), strict=True):
            np.testing.assert_array_equal(a, b)

    return check
