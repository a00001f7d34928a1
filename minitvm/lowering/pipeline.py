"""Lower a schedule to a loop program; PASSES lists all passes in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from minitvm import schedule, tensor, tir
from minitvm.base import CHECK, debug, debug_level

from .depth import within_stack
from .double_buffer import inject_double_buffer
from .flatten import flatten
from .partition import partition
from .phases import Pass, check_watching, level_after, names_of, run_pass
from .program import first_program
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import vectorize
from .vthread import inject_virtual_thread

Watch: TypeAlias = Callable[[str, tir.PrimFunc], None]

# the passes with which every target begins, on loops as nest builds them
FIRST: tuple[Pass, ...] = (
    rewrite_unsafe_select,  # select(i < 7, A[i + 1], 0)      ->  A[i + 1] if i < 7 else 0
)

# the passes over loop programs, by kind of target
PASSES: dict[str, tuple[Pass, ...]] = {
    "llvm": (
        *FIRST,
        flatten,  #    A[i, j]                             ->  A[i*n + j]
        partition,  #  for i in range(11): if likely(...)  ->  10 iterations without `if`, 1 with
        tighten,  #    for j in range(8): if j < 5: ...    ->  for j in range(5): ...
        vectorize,  #  for j in vectorize(8): C[j] = ...   ->  C[0 : 8] = ...
        inject_virtual_thread,  # for t in bind(2, 'vthread'): body(t)  ->  body(0); body(1)
        inject_double_buffer,  #  fill(i); use(i)          ->  fill(i + 1); use(i)
        storage_rewrite,  #       B = f(A); C = g(B)       ->  B = f(A); B = g(B)
        unroll,  #     for i in unroll(2): body(i)         ->  body(0); body(1)
        tidy,  #       for i in range(0): body             ->  pass
    ),
    "numba": (
        *FIRST,
        flatten,
        partition,
        tighten,
        inject_virtual_thread,
        inject_double_buffer,
        tidy,
    ),
    "python": (*FIRST, flatten, inject_virtual_thread, inject_double_buffer, tidy),
}

START = "nest"  # the name that watchers get for the program before the first pass


@within_stack
def lower_state(
    state: schedule.State,
    args: tuple[tensor.Tensor | tir.Var, ...],
    *,
    name: str = "main",
    passes: tuple[Pass, ...] = PASSES["llvm"],
    until: str = "",
    watch: Watch | None = None,
    prepack: bool = True,
) -> tir.PrimFunc:
    """Lower `state` to a loop program with parameters `args`, running `passes` up to `until`.

    The pass named `until` is the last to run. `watch(pass name, program)` is called with the name
    "nest" before the first pass, and then after every pass. With `prepack`, stages that depend on
    constants alone are a program of their own. `state` does not change. Raises ArgumentError if an
    argument is missing or given twice, LoweringError if an index or a buffer is too large.
    """
    names = [START, *names_of(passes)]
    check_watching(names, until, watch)
    start = time.perf_counter()
    func = first_program(state, args, name, prepack)
    _report(names[:1], func, None, time.perf_counter() - start, watch)
    for n, run in enumerate(passes[: names.index(until)] if until else passes):
        start, old = time.perf_counter(), func
        func = _passed(run, func)
        _report(names[: n + 2], func, old, time.perf_counter() - start, watch)
    tir.check_buffers(func)
    return func


def _passed(run: Pass, func: tir.PrimFunc) -> tir.PrimFunc:
    """Return `func` after running one pass on it and on func.prepack."""
    prepack = None if func.prepack is None else _passed(run, func.prepack)
    body = run_pass(run, func.body)
    unchanged = body is func.body and prepack is func.prepack
    return func if unchanged else replace(func, body=body, prepack=prepack)


def _report(
    done: list[str],
    func: tir.PrimFunc,
    old: tir.PrimFunc | None,
    seconds: float,
    watch: Watch | None,
) -> None:
    """Log and verify the program after the last pass of `done`, and pass it to `watch`."""
    name = done[-1]
    if debug_level() >= 2:
        size = sum(1 for _ in tir.walk(func.body))
        debug(2, f"{name:12} {seconds * 1e3:8.2f} ms  {size:6} nodes")
        if debug_level() >= 4:
            debug(4, "(unchanged)" if old is func else str(func))
    level = level_after(done)
    if CHECK and not (old is func and level == level_after(done[:-1])):
        tir.verify(func, level)
    if watch is not None:
        watch(name, func)
