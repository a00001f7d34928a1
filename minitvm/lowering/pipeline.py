"""From a schedule to a loop program. Read PASSES top to bottom: it is the whole story."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from minitvm import schedule, tensor, tir
from minitvm.base import CHECK, ArgumentError, LoweringError, debug, debug_level

from .accelerator import apply_remarks, check_capacity, lift_allocations
from .alu import inject_alu_intrin
from .coproc_sync import inject_coproc_sync
from .dma import inject_dma_intrin
from .double_buffer import inject_double_buffer
from .flatten import flatten
from .nest import nest
from .normalize import normalize
from .partition import partition
from .phases import Pass, names_of
from .regions import allocate, infer
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .units import assign_units, check_stores
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import vectorize
from .vthread import check_threads, inject_virtual_thread

Watch: TypeAlias = Callable[[str, tir.PrimFunc], None]

# what happens to the loops, by kind of target
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
    "vta": (
        rewrite_unsafe_select,
        apply_remarks,  # pragma trim_loop: for i in range(64)  ->  for i in range(2)
        inject_dma_intrin,  # for i: AL[i] = A[k, i]            ->  vta.dma_copy2d(AL, A[k])
        flatten,
        check_stores,  # refuses C[i] = A[i] + B[i] that no pragma makes an instruction
        storage_rewrite,  # B = f(A); C = g(B)                  ->  B = f(A); B = g(B)
        inject_alu_intrin,  # for i: CL[i] = CL[i] >> 8         ->  for i: vta.shr(CL[i], 8)
        assign_units,  #  vta.dma_copy2d(AL, A[k])              ->  ld.dma_copy2d(AL, A[k])
        lift_allocations,  # load(A); B = allocate(...)         ->  B = allocate(...); load(A)
        inject_coproc_sync,  # ld...; ex...  ->  ld...; ld.push_dep_to(ex); ex.pop_dep_from(ld); ex
        inject_virtual_thread,  # for t in bind(2, 'cthread'): ld; ex  ->  ld; ld; ex; ex
        tidy,
        check_capacity,  # refuses buffers that together exceed a memory
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
    """The loop program of `state` with parameters `args`, after `passes` up to the one `until`.

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
    """What a pass, perhaps a user's own, makes of the program."""
    made = run(body)
    if not isinstance(made, tir.Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(
            f"pass {run.__name__}", f"it returns {type(made).__name__}", "return a statement"
        )
    return made


def _loops(
    state: schedule.State, args: tuple[tensor.Tensor | tir.Var, ...], name: str
) -> tir.PrimFunc:
    """The program before the first pass."""
    plain = normalize(state)
    table = {a: _current(state, plain, a) for a in args if isinstance(a, tensor.Tensor)}
    given = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in table.values()}
    _complete(plain, args, given)
    context = allocate(plain, infer(plain), given)
    params = tuple(given[table[a]] if isinstance(a, tensor.Tensor) else a for a in args)
    outputs = tuple(b for t, b in given.items() if not isinstance(t.op, tensor.PlaceholderOp))
    sizes = _sizes(params)
    func = tir.PrimFunc(name, params, nest(context), outputs, sizes, _needs(state))
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
    """Everybody who looks at the program between passes looks here; the last of `done` just ran."""
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
    """The laws that hold after the passes of these names; others leave the level as it is."""
    if "flatten" not in done:
        return "nest"
    return "vector" if "vectorize" in done and "unroll" in done else "flat"


# --- parameters ----------------------------------------------------------------------------------


def _current(state: schedule.State, plain: schedule.State, t: tensor.Tensor) -> tensor.Tensor:
    """The tensor that now stands for `t`, which may be older than some steps."""
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
    """Every input and output is an argument, once, and nothing else is.

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
    """The symbolic sizes that a call learns from the shapes of its arguments."""
    found = [
        n for p in params if isinstance(p, tir.Buffer) for n in p.shape if isinstance(n, tir.Var)
    ]
    return tuple(v for v in dict.fromkeys(found) if not any(v is p for p in params))


def _needs(state: schedule.State) -> tuple[tir.Index, ...]:
    """What a call must bring so that every read stays in its tensor."""
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
