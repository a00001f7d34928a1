"""From a schedule to a loop program. Read PASSES top to bottom: it is the whole story."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from minitvm import schedule, tensor, tir
from minitvm.base import CHECK, ArgumentError, LoweringError, debug, debug_level

from .bounds import infer
from .double_buffer import inject_double_buffer
from .flatten import flatten
from .nest import nest
from .normalize import normalize
from .partition import partition
from .phases import Pass, names_of
from .program import allocate
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import vectorize
from .vthread import check_threads, inject_virtual_thread

Watch: TypeAlias = Callable[[str, tir.PrimFunc], None]

# what happens to the loops of programs for a CPU, by kind of target
PASSES: dict[str, tuple[Pass, ...]] = {
    "llvm": (
        rewrite_unsafe_select,  # select(i < 7, A[i + 1], 0)  ->  A[i + 1] if i < 7 else 0
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
        rewrite_unsafe_select,
        flatten,
        partition,
        tighten,
        inject_virtual_thread,
        inject_double_buffer,
        tidy,
    ),
    "python": (
        rewrite_unsafe_select,
        flatten,
        inject_virtual_thread,
        inject_double_buffer,
        tidy,
    ),
}

START = "nest"  # the name under which watchers see the loops before the first pass


def lower_state(
    state: schedule.State,
    args: tuple[tensor.Tensor | tir.Var, ...],
    *,
    name: str = "main",
    passes: tuple[Pass, ...] = PASSES["llvm"],
    until: str = "",
    watch: Watch | None = None,
) -> tir.PrimFunc:
    """Lower `state` to a loop program with parameters `args`, running `passes` up to `until`.

    `watch(pass name, program)` sees the program after every stage, beginning with "nest". Pure:
    nothing is changed. Raises ArgumentError if args miss or repeat something, LoweringError if an
    index or a buffer is too large.
    """
    names = [START, *names_of(passes)]
    if until and until not in names:
        raise ArgumentError(f"until={until!r}", "no such pass", f"one of {', '.join(names)}")
    if watch is not None and not callable(watch):
        raise ArgumentError(f"watch={watch!r}", "not a function", "watch(pass name, program)")
    start = time.perf_counter()
    func = _loops(state, args, name)
    _report(names[:1], func, None, time.perf_counter() - start, watch)
    for n, run in enumerate(passes[: names.index(until)] if until else passes):
        start, old = time.perf_counter(), func
        body = _ran(run, func.body)
        func = func if body is func.body else replace(func, body=body)
        _report(names[: n + 2], func, old, time.perf_counter() - start, watch)
    tir.check_buffers(func)
    return func


def _ran(run: Pass, body: tir.Stmt) -> tir.Stmt:
    """Run a pass, perhaps a user's own, and check that it returns a statement."""
    made = run(body)
    if not isinstance(made, tir.Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"pass {run.__name__}", f"it returns {type(made).__name__}", "return a statement"
        )
    return made


def _loops(
    state: schedule.State, args: tuple[tensor.Tensor | tir.Var, ...], name: str
) -> tir.PrimFunc:
    """Return the program before the first pass."""
    plain = normalize(state)
    table = {a: _current(state, plain, a) for a in args if isinstance(a, tensor.Tensor)}
    given = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in table.values()}
    _complete(plain, args, given)
    program = allocate(plain, infer(plain), given)
    params = tuple(given[table[a]] if isinstance(a, tensor.Tensor) else a for a in args)
    outputs = tuple(b for t, b in given.items() if not isinstance(t.op, tensor.PlaceholderOp))
    sizes = _sizes(params)
    func = tir.PrimFunc(name, params, nest(program), outputs, sizes, _needs(state))
    _check_indices(func)
    check_threads(func.body)
    return func


def _report(
    done: list[str],
    func: tir.PrimFunc,
    old: tir.PrimFunc | None,
    seconds: float,
    watch: Watch | None,
) -> None:
    """Log, verify and show the program after the last pass of `done`."""
    name = done[-1]
    if debug_level() >= 2:
        size = sum(1 for _ in tir.walk(func.body))
        debug(2, f"{name:12} {seconds * 1e3:8.2f} ms  {size:6} nodes")
        if debug_level() >= 4:
            debug(4, "(unchanged)" if old is func else str(func))
    if CHECK:
        tir.verify(func, _level(done))
    if watch is not None:
        watch(name, func)


def _level(done: list[str]) -> tir.Level:
    """Return the level of laws that hold after the passes of these names."""
    if "flatten" not in done:
        return "nest"
    return "vector" if "vectorize" in done and "unroll" in done else "flat"


# --- parameters ----------------------------------------------------------------------------------


def _current(state: schedule.State, plain: schedule.State, t: tensor.Tensor) -> tensor.Tensor:
    """Return the present tensor of `t`, which may be older than some steps."""
    for s in state.stages:
        if s.origin is t.op or s.op is t.op:
            for p in plain.stages:
                if p.name == s.name:
                    return tensor.tensor_of(p.op, t.value_index)
            raise ArgumentError(f"argument {t.name}", "it is inlined, so it is never stored")
    if isinstance(t.op, tensor.PlaceholderOp):  # folding may have removed the last read of an input
        return t
    raise ArgumentError(f"argument {t.name}", "it is not part of this schedule")


def _complete(
    plain: schedule.State,
    args: tuple[tensor.Tensor | tir.Var, ...],
    given: dict[tensor.Tensor, tir.Buffer],
) -> None:
    """Check that the arguments are exactly the inputs and outputs, each once.

    Of an operation with several outputs one is enough: the others are computed on the side.
    """
    if len(set(args)) < len(args):
        raise ArgumentError("args", "the same argument is given twice")
    states = tensor.states_of([s.op for s in plain.stages])
    kept = [
        s.op
        for s in plain.stages
        if s.is_output
        or (isinstance(s.op, tensor.PlaceholderOp) and tensor.tensor_of(s.op, 0) not in states)
    ]
    needed = [tensor.tensor_of(op, i) for op in kept for i in range(len(op.dtypes))]
    missing = [
        t.name
        for op in kept
        for t in [tensor.tensor_of(op, 0)]
        if not any(g.op is op for g in given)
    ]
    if missing:
        names = ", ".join(t.name for t in needed)
        raise ArgumentError(
            f"args: {', '.join(missing)} missing",
            "all inputs and outputs of the schedule are arguments",
            f"args = [{names}]",
        )
    for t in given:
        if t in states:
            raise ArgumentError(
                f"argument {t.name}",
                "it is the state of a scan, which lives in the result of that scan",
                f"args = [{', '.join(n.name for n in needed)}]",
            )
        if t not in needed and not isinstance(t.op, tensor.PlaceholderOp):
            raise ArgumentError(
                f"argument {t.name}",
                "it is computed on the way, and would not be written as a whole",
                f"te.create_schedule([..., {t.name}.op]) makes it an output",
            )


def _sizes(params: tuple[tir.Buffer | tir.Var, ...]) -> tuple[tir.Var, ...]:
    """Return the symbolic sizes that a call learns from the shapes of its arguments."""
    found = [
        n for p in params if isinstance(p, tir.Buffer) for n in p.shape if isinstance(n, tir.Var)
    ]
    return tuple(v for v in dict.fromkeys(found) if not any(v is p for p in params))


def _needs(state: schedule.State) -> tuple[tir.Index, ...]:
    """Return the conditions on sizes under which every read is in bounds."""
    ops = [s.origin for s in state.stages]
    return tuple(
        dict.fromkeys(n for op in ops if isinstance(op, tensor.ComputeOp) for n in op.needs)
    )


def _check_indices(func: tir.PrimFunc) -> None:
    """Check that 64 bits hold every index, and that each variable is a loop, parameter or size."""
    bound = {id(v) for v in (*func.params, *func.sizes)}
    for n in tir.walk(func.body):
        if isinstance(n, tir.For):
            bound.add(id(n.var))
        elif tir.overflows(n):
            raise LoweringError(
                f"{func.name}: the index {tir.text(n)}",
                f"computing it may reach {tir.largest_sum(n)}, and indices have 64 bits",
                "smaller extents or split factors",
            )
    for v in tir.variables(func.body):
        if id(v) not in bound:
            raise ArgumentError(
                f"variable {v.name!r}",
                "it has no value: no argument is or has it",
                "add it to args",
            )
