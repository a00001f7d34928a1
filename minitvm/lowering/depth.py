"""Raise a readable error if loops are nested too deeply for Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from minitvm.base import LoweringError


@contextmanager
def within_stack(what: str) -> Generator[None]:
    """Raise LoweringError, naming `what`, if the with block exceeds Python's recursion limit."""
    try:
        yield
    except RecursionError:
        raise LoweringError(
            what,
            f"its loops nest deeper than Python's recursion limit, {sys.getrecursionlimit()} calls",
            "fuse loops, or compute_root the stages that are computed inside them",
        ) from None
