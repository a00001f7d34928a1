"""Checks of what lower() and build() are called with."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, cast

from minitvm import codegen, te, tensor, tir
from minitvm.base import ArgumentError, Target, check_flag


def check_arguments(s: te.Schedule, args: Any, name: str, binds: Any) -> None:
    """Raise ArgumentError for what is no schedule, no list of tensors, no name or no binding."""
    if not isinstance(s, te.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]  users pass C.op
        raise ArgumentError(
            f"lower({type(s).__name__})", "not a schedule", "te.create_schedule(C.op)"
        )
    for a in listed(args):
        if not isinstance(a, tensor.Tensor | tir.Var):
            raise ArgumentError(
                f"args: {reprlib.repr(a)}",
                "not a tensor or variable",
                "tensors such as A, not arrays or A.op",
            )
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"name={name!r}", "it names the function", 'name="main"')
    _check_binds({} if binds is None else binds)


def listed(args: Any) -> tuple[Any, ...]:
    """Return `args` as a tuple; ArgumentError unless it is a list or tuple."""
    if not isinstance(args, list | tuple):
        raise ArgumentError(
            f"args: {reprlib.repr(args)}",
            "all tensors come as one argument",
            "put them in a list: [A, B, C]",
        )
    return tuple(cast("list[Any]", args))


def _check_binds(binds: Any) -> None:
    """Raise ArgumentError if a tensor is bound to a buffer with another layout than arguments."""
    if not isinstance(binds, Mapping):
        raise ArgumentError(f"binds={reprlib.repr(binds)}", "not a table", "binds={A: buffer}")
    for t, b in cast("Mapping[Any, Any]", binds).items():
        if not isinstance(t, tensor.Tensor) or not isinstance(b, tir.DeclaredBuffer):
            what = f"binds: {reprlib.repr(t)} to {reprlib.repr(b)}"
            raise ArgumentError(what, "not a tensor and a buffer", "{A: tir.decl_buffer(A.shape)}")
        same_form = b.dtype is t.dtype and len(b.shape) == len(t.shape)
        if not same_form or not all(map(tir.prove_equal, b.shape, t.shape)):
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


def check_host(target: Target, host: str | Target | None) -> None:
    """Raise ArgumentError if calls are to begin on another machine than they run on."""
    if host is not None and Target(host).kind != target.kind:
        raise ArgumentError(
            f"target_host={str(host)!r} for target {target.kind!r}",
            "a program for a CPU is called where it runs",
            "leave it out",
        )


def check_isolate(isolate: bool, backend: codegen.Backend[Any], target: Target) -> None:
    """Raise ArgumentError if the target cannot compile in another process."""
    if check_flag("isolate", isolate) and not backend.isolates:
        what = f"isolate=True for target {target.kind!r}"
        raise ArgumentError(what, "only LLVM's work is done in another process", "leave it out")
