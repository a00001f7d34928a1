"""Turn a schedule into loops with lower(), and loops into a function that runs with build()."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from minitvm import codegen, lowering, runtime, schedule, te, tensor, tir
from minitvm.base import Target, check_flag, check_text, debug, debug_level

from .arguments import check_arguments, check_host, check_isolate, listed


def lower(
    s: te.Schedule,
    args: Sequence[Any] = (),
    name: str = "main",
    *,
    target: str | Target | None = None,
    passes: tuple[lowering.Pass, ...] | None = None,
    until: str | None = None,
    watch: lowering.Watch | None = None,
    simple_mode: bool = False,
    binds: Mapping[tensor.Tensor, tir.DeclaredBuffer] | None = None,
) -> tir.PrimFunc:
    """Lower a schedule to a loop program whose parameters are `args`, in that order.

    Stages that depend only on constants go to the program's `prepack`, which runs first.

    args         all input and output tensors, and scalar variables that are not sizes of tensors
    target       by default the current one: Target.current()
    passes       the passes to run; by default those of the target's kind
    until        stop after the pass of this name; "nest" stops before the first pass
    watch        a function that is called with (pass name, program) after "nest" and every pass
    simple_mode  leave out the passes that partition, vectorize and unroll loops
    binds        tensor -> buffer, as in TVM; only contiguous buffers in main memory

    Raises ArgumentError if a tensor is missing from args or repeated. The schedule is not changed.
    """
    check_arguments(s, args, name, binds)
    backend = codegen.TARGETS[Target(target).kind]
    default = lowering.START if check_flag("simple_mode", simple_mode) else ""
    func = lowering.lower_state(
        s.state,
        tuple(args),
        name=name,
        passes=backend.passes if passes is None else passes,
        until=check_text("until", default if until is None else until, '"nest"') or default,
        watch=watch,
        prepack=backend.prepacks,
    )
    machine = backend.machine()
    return func if machine is None else replace(func, machine=machine)


def build(
    s: te.Schedule | tir.PrimFunc,
    args: Sequence[Any] = (),
    target: str | Target | None = None,
    name: str = "main",
    *,
    target_host: str | Target | None = None,
    binds: Mapping[tensor.Tensor, tir.DeclaredBuffer] | None = None,
    isolate: bool = False,
) -> runtime.Function:
    """Compile a schedule (or a lowered program) for `target` and return a callable function.

    The function takes arrays in the order of args and writes outputs in place.
    target       by default the current one: Target.current(). If its code may use features that
                 this CPU lacks, the function can be printed and exported, but a call raises
                 BuildError and names them
    target_host  the target that calls the function, as in TVM; here it can only be `target`
    binds        as in lower
    isolate      compile in another process, so that a crash of LLVM becomes a BuildError
    Raises ArgumentError if args do not fit, BuildError if the target cannot run the program.
    """
    start = time.perf_counter()
    args = listed(args)
    to = Target(target)
    backend = codegen.TARGETS[to.kind]
    check_host(to, target_host)
    check_isolate(isolate, backend, to)
    func = s if isinstance(s, tir.PrimFunc) else lower(s, args, name, target=to, binds=binds)
    backend.check(func, to)
    state = None if isinstance(s, tir.PrimFunc) else s.state  # the schedule may change later
    scalar = partial(_scalar, func, state, tuple(args), name)
    function = _loaded(backend, codegen.BuildRequest(func, to, isolate, scalar))
    if debug_level():
        debug(1, f"build {func.name} for {to}: {(time.perf_counter() - start) * 1e3:.1f} ms")
    return function


def _loaded(backend: codegen.Backend[Any], request: codegen.BuildRequest) -> runtime.Function:
    """Compile the program that packs constants, if there is one, and then the program itself."""
    func, scalar = request.func, request.scalar
    if func.prepack is not None:
        first = replace(request, func=func.prepack, scalar=lambda: scalar().prepack or func)
        request = replace(request, prepack=_loaded(backend, first))
    return backend.load(request, backend.emit(func, request.target))


def _scalar(
    func: tir.PrimFunc, state: schedule.State | None, args: tuple[Any, ...], name: str
) -> tir.PrimFunc:
    """Lower the same schedule to plain loops instead of vectors, to be printed as Python."""
    if state is None:
        return func
    return lowering.lower_state(state, args, name=name, passes=lowering.PASSES["python"])
