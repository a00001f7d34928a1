"""lower() and build(): from a schedule to loops, from loops to a function that runs."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from minitvm import accel, codegen, lowering, runtime, schedule, te, tensor, tir
from minitvm.base import (
    ArgumentError,
    BuildError,
    Target,
    check_flag,
    check_text,
    debug,
    debug_level,
)


def lower(
    s: te.Schedule,
    args: Sequence[Any] = (),
    name: str = "main",
    *,
    target: str | Target = "llvm",
    passes: tuple[lowering.Pass, ...] | None = None,
    until: str | None = None,
    watch: lowering.Watch | None = None,
    simple_mode: bool = False,
    binds: Mapping[tensor.Tensor, tir.DeclaredBuffer] | None = None,
) -> tir.PrimFunc:
    """The loop program of a schedule, printable: its parameters are `args`, in that order.

    args         all input and output tensors, and scalar variables that are no sizes of those
    passes       the passes to run; by default those of the target's kind
    until        stop after the pass of this name; "nest": before the first
    watch        called with (pass name, program) after every stage
    simple_mode  stop before loops are partitioned, vectorized and unrolled
    binds        tensor -> buffer, as in TVM; only buffers that lie as arguments do, without gaps

    Raises ArgumentError if args miss or repeat something. The schedule is not changed.
    """
    if not isinstance(s, te.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]  users pass C.op
        raise ArgumentError(
            f"lower({type(s).__name__})", "not a schedule", "te.create_schedule(C.op)"
        )
    for a in _listed(args):
        if not isinstance(a, tensor.Tensor | tir.Var):
            raise ArgumentError(
                f"args: {reprlib.repr(a)}",
                "not a tensor or variable",
                "tensors such as A, not arrays or A.op",
            )
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"name={name!r}", "it names the function", 'name="main"')
    _check_binds({} if binds is None else binds)
    chosen = passes if passes is not None else lowering.PASSES[Target(target).kind]
    early = "nest" if check_flag("simple_mode", simple_mode) else ""
    stop = check_text("until", early if until is None else until, '"nest"') or early
    with lowering.within_stack(f"a schedule of {len(s.stages)} stages"):
        func = lowering.lower_state(
            s.state, tuple(args), name=name, passes=chosen, until=stop, watch=watch
        )
    return replace(func, machine=lowering.machine()) if Target(target).kind == "vta" else func


def _listed(args: Any) -> tuple[Any, ...]:
    """`args`, if it is a list or tuple."""
    if not isinstance(args, list | tuple):
        raise ArgumentError(
            f"args: {reprlib.repr(args)}",
            "all tensors come as one argument",
            "put them in a list: [A, B, C]",
        )
    return tuple(cast("list[Any]", args))


def _check_binds(binds: Any) -> None:
    """ArgumentError if a tensor is bound to a buffer that does not lie as arguments do."""
    if not isinstance(binds, Mapping):
        raise ArgumentError(f"binds={reprlib.repr(binds)}", "not a table", "binds={A: buffer}")
    for t, b in cast("Mapping[Any, Any]", binds).items():
        if not isinstance(t, tensor.Tensor) or not isinstance(b, tir.DeclaredBuffer):
            what = f"binds: {reprlib.repr(t)} to {reprlib.repr(b)}"
            raise ArgumentError(what, "not a tensor and a buffer", "{A: tir.decl_buffer(A.shape)}")
        same_form = b.dtype is t.dtype and len(b.shape) == len(t.shape)
        if not same_form or not all(map(tir.same, b.shape, t.shape)):
            raise ArgumentError(
                f"binds: {t.name} to {b.name}",
                f"one is {_form(t)}, the other {_form(b)}",
                f"tir.decl_buffer({t.name}.shape, {t.name}.dtype)",
            )
        if b.strides or b.elem_offset is not None or b.scope != "global":
            raise ArgumentError(
                f"binds: {t.name} to {b.name}",
                "arguments lie in main memory without gaps, from their first element on",
                "numpy.ascontiguousarray(a[...]) for the call; a te.extern reads with strides",
            )


def _form(b: tir.Buffer) -> str:
    return f"{b.dtype}[{', '.join(map(tir.text, b.shape))}]"


def _check_host(target: Target, host: str | Target | None) -> None:
    """ArgumentError if calls are to begin on another machine than they run on."""
    if host is not None and Target(host).kind != target.kind:
        raise ArgumentError(
            f"target_host={str(host)!r} for target {target.kind!r}",
            "a program for a CPU is called where it runs",
            "leave it out",
        )


def build(
    s: te.Schedule | tir.PrimFunc,
    args: Sequence[Any] = (),
    target: str | Target = "llvm",
    name: str = "main",
    *,
    target_host: str | Target | None = None,
    binds: Mapping[tensor.Tensor, tir.DeclaredBuffer] | None = None,
    isolate: bool = False,
) -> runtime.Function:
    """The schedule (or a lowered program) compiled for `target`, ready to call.

    f(a, b, c) takes arrays in the order of args and writes outputs in place.
    target_host  where the call begins, as in TVM: here that is the target itself
    binds        as in lower
    isolate      compile in a process of its own: should LLVM abort, that is a BuildError
    Raises ArgumentError for args that do not fit, BuildError for what the target cannot run.
    """
    start = time.perf_counter()
    args = _listed(args)
    to = Target(target)
    _check_host(to, target_host)
    if check_flag("isolate", isolate) and to.kind != "llvm":
        what = f"isolate=True for target {to.kind!r}"
        raise ArgumentError(what, "only LLVM's work is done in another process", "leave it out")
    func = s if isinstance(s, tir.PrimFunc) else lower(s, args, name, target=to, binds=binds)
    if to.kind == "vta":
        return _accelerated(func)
    tir.check_buffers(func)
    lowering.refuse_accelerator(func.body, to.kind)
    if to.kind == "python":
        made = _python(func, to)
    elif to.kind == "numba":
        made = _numba(func, to)
    else:
        state = None if isinstance(s, tir.PrimFunc) else s.state  # the schedule may go on changing
        made = _native(func, to, isolate, lambda: _scalar(func, state, tuple(args), name))
    if debug_level():
        debug(1, f"build {func.name} for {to}: {(time.perf_counter() - start) * 1e3:.1f} ms")
    return made


def _scalar(
    func: tir.PrimFunc, state: schedule.State | None, args: tuple[Any, ...], name: str
) -> tir.PrimFunc:
    """The same program with plain loops where vectors are, for reading as Python."""
    return (
        func
        if state is None
        else lowering.lower_state(state, args, name=name, passes=lowering.PASSES["python"])
    )


def _native(
    func: tir.PrimFunc, target: Target, isolate: bool, scalar: Callable[[], tir.PrimFunc]
) -> runtime.Function:
    launch = runtime.LAUNCH if target.num_cores > 1 else ""
    text = codegen.emit_llvm(
        func,
        vector_bytes=target.vector_bytes,
        parallel_launch=launch,
        dot4_lanes=target.dot4_lanes,
    )
    debug(5, text)
    run, machine = runtime.load_native(
        func, text, codegen.clean(func.name), target, isolate=isolate
    )
    sources = {
        "tir": lambda: str(func),
        "python": lambda: codegen.emit_python(scalar()),
        "ll": lambda: machine.ll,
        "asm": lambda: machine.asm,
    }
    kept = {"tir": sources["tir"]}
    return runtime.Function(
        func, run, sources, lambda: _package(func, target, machine.object, kept, machine.calls)
    )


def _python(func: tir.PrimFunc, target: Target) -> runtime.Function:
    text = codegen.emit_python(func)
    debug(5, text)
    return _interpreted(func, target, text, runtime.load_python(text))


def _numba(func: tir.PrimFunc, target: Target) -> runtime.Function:
    text = codegen.emit_numba(func, parallel=target.num_cores > 1)
    debug(5, text)
    return _interpreted(func, target, text, runtime.load_numba(text, target.num_cores))


def _interpreted(
    func: tir.PrimFunc, target: Target, text: str, run: runtime.Run
) -> runtime.Function:
    """The function whose code is the Python source `text`."""
    sources = {"tir": lambda: str(func), "python": lambda: text}
    return runtime.Function(
        func, run, sources, lambda: _package(func, target, text.encode(), sources)
    )


def _accelerated(func: tir.PrimFunc) -> runtime.AcceleratorFunction:
    """The program for the accelerator that `func` is lowered for, if its tokens say enough."""
    config = func.machine if isinstance(func.machine, accel.Config) else lowering.machine()
    program = codegen.emit_vta(func, config)
    # what is left to f.warnings(): hazards of some machines, and what a program that is built to be
    # timed leaves out, such as the loads of a mock
    verdict = replace(accel.verify(program, config), hazards=(), uninitialised=())
    if not verdict.ok:
        found = accel.explain(program, verdict).splitlines()
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise BuildError(
            f"{func.name} on {config.name}",
            found[0] + more,
            "inject_coproc_sync before inject_virtual_thread, and both after assign_units",
        )
    sources = {"tir": lambda: str(func), "vta": lambda: accel.listing(program, config)}
    debug(5, sources["vta"]())
    return runtime.AcceleratorFunction(func, program, config, sources)


def _package(
    func: tir.PrimFunc,
    target: Target,
    code: bytes,
    sources: Mapping[str, Callable[[], str]],
    calls: tuple[str, ...] = (),
) -> runtime.Package:
    texts = {kind: make() for kind, make in sources.items()}
    return runtime.Package(func, target, code, texts, calls)
