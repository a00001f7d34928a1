"""Loop nests of operators that are written as statements, not as formulas."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from minitvm import tir


@contextmanager
def nest(ib: tir.IRBuilder, shape: Sequence[Any]) -> Generator[tuple[Any, ...]]:
    """Open a loop for each size in `shape`, the first outermost, and yield their counters."""
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(ib.for_range(0, n, name=f"i{d}")) for d, n in enumerate(shape)
        )
