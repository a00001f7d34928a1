"""Where Python's stack ends: loops inside loops inside loops."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from minitvm.base import LoweringError


@contextmanager
def within_stack(what: str) -> Generator[None]:
    """Run the block; LoweringError if `what` nests deeper than Python calls can."""
    try:
        yield
    except RecursionError:
        raise LoweringError(
            what,
            f"its loops nest deeper than {sys.getrecursionlimit()} calls of Python",
            "fuse loops, or compute_root what is computed inside of them",
        ) from None
