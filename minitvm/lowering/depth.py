"""A readable error for loops nested too deeply for Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from minitvm.base import LoweringError


@contextmanager
def within_stack(what: str) -> Generator[None]:
    """Run the block; raise LoweringError if `what` nests deeper than Python's recursion limit."""
    try:
        yield
    except RecursionError:
        raise LoweringError(
            what,
            f"its loops nest deeper than {sys.getrecursionlimit()} calls of Python",
            "fuse loops, or compute_root what is computed inside of them",
        ) from None
