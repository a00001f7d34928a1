"""Raise a readable error if loops are nested too deeply for Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from minitvm import schedule
from minitvm.base import LoweringError

P = ParamSpec("P")
T = TypeVar("T")


def within_stack(
    f: Callable[Concatenate[schedule.State, P], T],
) -> Callable[Concatenate[schedule.State, P], T]:
    """Make `f` raise LoweringError where a schedule state exceeds Python's recursion limit."""

    @wraps(f)
    def run(state: schedule.State, *args: P.args, **options: P.kwargs) -> T:
        try:
            return f(state, *args, **options)
        except RecursionError:
            limit = sys.getrecursionlimit()
            why = f"its loops nest deeper than Python's recursion limit, {limit} calls"
            fix = "fuse loops, or compute_root the stages that are computed inside them"
            raise LoweringError(f"a schedule of {len(state.stages)} stages", why, fix) from None

    return run
