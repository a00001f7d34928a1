"""Checks of the arguments of lower() and build()."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, cast

from minitvm import codegen, te, tensor, tir
from minitvm.base import ArgumentError, Target, check_flag, check_kind, check_text


def check_arguments(s: te.Schedule, args: Any, name: str, binds: Any) -> None:
    """Raise ArgumentError unless the arguments of lower() have the right types."""
    if not isinstance(s, te.Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]  users pass C.op
        what = f"lower({type(s).__name__})"
        raise ArgumentError(what, "not a schedule", "te.create_schedule(C.op)")
    for a in listed(args):
        if not isinstance(a, tensor.Tensor | tir.Var):
            fix = "tensors such as A, not arrays or A.op"
            raise ArgumentError(f"args: {reprlib.repr(a)}", "not a tensor or variable", fix)
    check_text("name", name, 'name="main"')
    _check_binds({} if binds is None else binds)


def listed(args: Any) -> tuple[Any, ...]:
    """Return `args` as a tuple; raise ArgumentError unless it is a list or tuple."""
    if not isinstance(args, list | tuple):
        why, fix = "expected one list of all tensors", "put them in a list: [A, B, C]"
        raise ArgumentError(f"args: {reprlib.repr(args)}", why, fix)
    return tuple(cast("list[Any]", args))


def _check_binds(binds: Any) -> None:
    """Raise ArgumentError unless `binds` maps tensors to contiguous buffers of their shape."""
    check_kind("binds", binds, Mapping, fix="binds={A: buffer}")
    for t, b in cast("Mapping[Any, Any]", binds).items():
        if not isinstance(t, tensor.Tensor) or not isinstance(b, tir.DeclaredBuffer):
            what = f"binds: {reprlib.repr(t)} to {reprlib.repr(b)}"
            raise ArgumentError(what, "not a tensor and a buffer", "{A: tir.decl_buffer(A.shape)}")
        what = f"binds: {t.name} to {b.name}"
        same_form = b.dtype is t.dtype and len(b.shape) == len(t.shape)
        if not same_form or not all(map(tir.prove_equal, b.shape, t.shape)):
            fix = f"tir.decl_buffer({t.name}.shape, {t.name}.dtype)"
            raise ArgumentError(what, f"the tensor is {_form(t)}, the buffer {_form(b)}", fix)
        if b.strides or b.elem_offset is not None or b.scope != "global":
            why = "arguments are contiguous arrays in main memory, without strides or an offset"
            fix = "pass numpy.ascontiguousarray(a[...]), or read with strides in a te.extern"
            raise ArgumentError(what, why, fix)


def _form(b: tir.Buffer) -> str:
    return f"{b.dtype}[{', '.join(map(tir.text, b.shape))}]"


def check_host(target: Target, host: str | Target | None) -> None:
    """Raise ArgumentError if `host`, the target that calls the function, is not `target`."""
    if host is not None and Target(host).kind != target.kind:
        what = f"target_host={str(host)!r} for target {target.kind!r}"
        why = "the machine that runs the function also calls it"
        raise ArgumentError(what, why, "leave target_host out")


def check_isolate(isolate: bool, backend: codegen.Backend[Any], target: Target) -> None:
    """Raise ArgumentError if the target cannot compile in another process."""
    if check_flag("isolate", isolate) and not backend.isolates:
        what = f"isolate=True for target {target.kind!r}"
        raise ArgumentError(what, "only target llvm compiles in another process", "leave it out")
