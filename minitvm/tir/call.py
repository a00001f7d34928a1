"""Calls of functions that the compiler does not analyse, and a registry of Python functions.

    call_extern("int32", "f", ...)    calls a C function; prints as extern.f(...)
    call_packed("f", ...)             calls a Python function (register_func): packed.f(...)
    call_intrin("int32", "f", ...)    is an instruction of one target: f(...)

Names of accelerator instructions begin with the unit that runs them: ld.dma_copy2d(AL, A[k]).
Their operands are views. A view prints as the part of the buffer that it covers.

Memory is passed as a Pointer, `access_ptr.r(A[i, j])`, or as a View with shape and strides,
`view(A[i, j], 8, 8, 64, 1)`. Both refer to the first element by a Load that is never executed, so
that a pass that rewrites loads rewrites pointers and views too.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any, TypeGuard

from minitvm.base import ExprError, check_flag, check_text
from minitvm.base import dtype as dtype_of

from .index import row_strides
from .math import intrinsic
from .nodes import Buffer, Call, Expr, Index, Load, Mode, Pointer, View
from .numeric import INTRINSICS
from .value import index, value

EXTERN, PACKED = "extern.", "packed."
UNITS = ("ld.", "ex.", "st.", "vta.", "vdla.")  # prefixes that name the unit

# --- registered functions ------------------------------------------------------------------------

UNREGISTERED = "no Python function of that name is registered"
_functions: dict[str, Callable[..., Any]] = {}  # filled by register_func; see clear_functions
_built_in: dict[str, Callable[..., Any]] = {}  # the meanings of hardware instructions


def register_func(name: str, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register the Python function `f` under `name`, for call_packed, call_extern and call_intrin.

    Without `f`, return a decorator. The function receives numpy arrays for memory and numbers for
    other operands: call_packed(name, A) passes an array with the shape of A; a pointer becomes a
    1-d array that begins at its address. The function writes its results into these arrays.

    Raises ExprError if the name is taken, unless `override` is set or `f` is a new version of the
    same definition, as when a notebook cell runs again.
    """
    check_text("register_func: name", name, '"scale"')
    override = check_flag("register_func: override", override)
    if f is None:
        return lambda g: register_func(name, g, override)  # type: ignore[reportUnknownLambdaType]
    if not callable(f):
        what = f"register_func({name!r}, {reprlib.repr(f)})"
        raise ExprError(what, "not a function", "a function of arrays and numbers")
    if name in _functions and not override and not _redefined(_functions[name], f):
        fix = "override=True, or another name"
        raise ExprError(f"register_func({name!r})", "that name is taken", fix)
    _functions[name] = f
    return f


def _redefined(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Return whether `new` redefines `old`: it is a function with the same name and module.

    Lambdas have no name; they must have the same code.
    """
    names = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", "")) for f in (old, new)]
    if names[1][1].endswith("<lambda>") or not names[1][1]:
        return getattr(old, "__code__", old) == getattr(new, "__code__", new)
    return names[0] == names[1]


def built_in(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for what the hardware instruction `name` computes; it is always known."""

    def known(f: Callable[..., Any]) -> Callable[..., Any]:
        return _built_in.setdefault(name, f)

    return known


def is_registered(name: str) -> bool:
    """Return whether a function is registered as `name`."""
    return name in _functions or name in _built_in


def registered(name: str) -> Callable[..., Any]:
    """Return the Python function registered as `name`; raise ExprError for an unknown name."""
    if not is_registered(name):
        raise ExprError(f"call of {name!r}", UNREGISTERED, f"tir.register_func({name!r}, f)")
    return _functions.get(name) or _built_in[name]


def clear_functions() -> None:
    """Forget all functions of register_func."""
    _functions.clear()


# --- calls ---------------------------------------------------------------------------------------


def call_extern(dtype: str, name: str, *args: Any) -> Call:
    """Build a call of the C function `name`, which returns a `dtype`; pass buffers as pointers."""
    check_text("call_extern: name", name, '"sqrtf"')
    return Call(f"{EXTERN}{name}", _arguments(args, pointer), dtype_of(dtype))


def call_packed(name: str, *args: Any) -> Call:
    """Build a call of the Python function registered as `name`; pass buffers as numpy arrays."""
    check_text("call_packed: name", name, '"scale"')
    return Call(f"{PACKED}{name}", _arguments(args, view), dtype_of("int32"))


def call_intrin(dtype: str, name: str, *args: Any) -> Call:
    """Build a call of the target instruction `name`, or of an intrinsic such as "exp"."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"call_intrin: name={name!r}", "not a string")
    known = name.removeprefix("tir.")
    if known in INTRINSICS:
        return intrinsic(known, *args)
    return Call(name, _arguments(args, pointer), dtype_of(dtype))


def hardware_intrinsic(name: str, *args: Any) -> Call:
    """Build a call of the accelerator instruction `name`. It has an effect, but no result."""
    return call_intrin("int32", name, *args)


def _arguments(args: tuple[Any, ...], memory: Callable[[Buffer], Expr]) -> tuple[Expr, ...]:
    return tuple(memory(a) if isinstance(a, Buffer) else value(a) for a in args)


def pointer(b: Buffer, mode: Mode = "rw", offset: Any = 0) -> Pointer:
    """Return the address that is `offset` elements after the first element of `b`."""
    if not isinstance(mode, str) or mode not in ("r", "w", "rw"):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"access_ptr({mode!r}) of {b.name}"
        raise ExprError(what, "no such mode", '"r", "w" or "rw"')
    return Pointer(Load(b, (0,) * len(b.shape), b.dtype), mode, index(offset))


def view(b: Buffer) -> View:
    """Return a view of the whole buffer `b`."""
    return view_at(b, (0,) * len(b.shape), b.shape, row_strides(b))


def view_at(
    b: Buffer, start: tuple[Index, ...], shape: tuple[Index, ...], strides: tuple[Index, ...]
) -> View:
    """Return a view of `b` that begins at b[start] and has the given shape and strides."""
    return View(Load(b, start, b.dtype), shape, strides)


# --- inspecting calls ----------------------------------------------------------------------------


def is_opaque(e: object) -> bool:
    """Return whether `e` calls a function that the compiler does not analyse."""
    return isinstance(e, Call) and e.name not in INTRINSICS


def is_written(e: object) -> TypeGuard[Pointer | View]:
    """Return whether `e` is a pointer or view through which the callee may write."""
    return isinstance(e, View) or (isinstance(e, Pointer) and e.mode != "r")


def callee(e: Call) -> str:
    """Return the name of the function that `e` calls, without the prefix extern. or packed."""
    return e.name.removeprefix(EXTERN).removeprefix(PACKED)
