"""What the tests of listings share: running a listing as printed, and asking why it is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from minitvm import te, tir

Names = dict[str, Any]


@pytest.fixture(autouse=True)
def no_functions_are_left() -> Iterator[None]:
    yield
    tir.clear_functions()


@pytest.fixture
def run() -> Callable[..., Names]:
    """The names that a listing leaves, started with `t` and the given ones."""

    def names_after(listing: str, **names: Any) -> Names:
        space: Names = {"t": te, **names}
        exec(listing, space)
        return space

    return names_after


@pytest.fixture
def refusal(run: Callable[..., Names]) -> Callable[..., str]:
    """Why a listing cannot run: the kind of the exception and its message."""

    def why(listing: str, **names: Any) -> str:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # the kind is in the answer
            run(listing, **names)
        return f"{type(caught.value).__name__}: {caught.value}"

    return why


@pytest.fixture
def numbers() -> Callable[..., np.ndarray]:
    """Small whole numbers as float32: their sums are exact."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.integers(-4, 5, shape).astype("float32")
