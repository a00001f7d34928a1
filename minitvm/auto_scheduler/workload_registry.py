"""The registry of workloads: named functions that define a computation for given arguments.

@auto_scheduler.register_workload
def matmul(n, dtype):
    ...
    return [A, B, C]                    the inputs, then the outputs

The computations of Ansor's evaluation have names without being registered (workloads.py). The name
and the arguments form the key of a computation; logs find records by this key.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, overload

from minitvm import te
from minitvm.base import ArgumentError

from .checks import listed
from .workloads import WORKLOADS as NAMED

Workload: TypeAlias = Callable[..., Sequence[te.Tensor]]
WORKLOADS: dict[str, Workload] = {}  # registered by the user


@overload
def register_workload(func_name: Workload, f: None = None) -> Workload: ...
@overload
def register_workload(func_name: str, f: Workload) -> Workload: ...
@overload
def register_workload(func_name: str, f: None = None) -> Callable[[Workload], Workload]: ...
def register_workload(func_name: str | Workload, f: Workload | None = None) -> Any:
    """Register a function as a workload under its own or a given name; replace earlier ones.

    Use it as a decorator, @register_workload or @register_workload("name"), or call it.
    """
    if isinstance(func_name, str):
        return _registered(func_name, f) if f is not None else partial(_registered, func_name)
    return _registered(getattr(func_name, "__name__", ""), func_name)


def _registered(name: str, f: Workload) -> Workload:
    if not callable(f) or not name:  # pyright: ignore[reportUnnecessaryComparison]
        raise ArgumentError(f"register_workload of {f!r}", "it is not a function with a name")
    WORKLOADS[name] = f
    return f


def clear() -> None:
    """Forget all workloads."""
    WORKLOADS.clear()


def known() -> dict[str, Workload]:
    """Return the registered workloads and the workloads of Ansor's evaluation, by name."""
    return {**NAMED, **WORKLOADS}


def make_workload_key(func: str | Workload, args: Sequence[Any]) -> str:
    """Return the key of a computation, given a registered function (or its name) and `args`."""
    func_name = func if isinstance(func, str) else None
    names = [name for name, f in known().items() if name == func_name or f is func]
    if not names:
        fix = f"@auto_scheduler.register_workload before it, or one of {', '.join(known())}"
        shown = func if isinstance(func, str) else getattr(func, "__name__", repr(func))
        raise ArgumentError(f"workload {shown!r}", "no such workload is registered", fix)
    try:
        values = listed("args", args, "(512, 512)")
        key = json.dumps([names[0], *values])
        inspect.signature(known()[names[0]]).bind(*values)
    except TypeError as e:
        fix = "numbers, strings, and lists of these, as the function takes them"
        raise ArgumentError(f"arguments of {names[0]}", str(e), fix) from e
    return key


def tensors_of(workload_key: str) -> tuple[te.Tensor, ...]:
    """Call the workload in a key with the arguments in the key; return the tensors it defines."""
    try:
        name, *args = json.loads(workload_key)
    except (ValueError, TypeError) as e:
        fix = "auto_scheduler.make_workload_key(func, args)"
        raise ArgumentError(f"workload key {workload_key!r}", "not a list in JSON", fix) from e
    make_workload_key(name, args)
    tensors = known()[name](*args)
    if not isinstance(tensors, Sequence) or not tensors:  # pyright: ignore[reportUnnecessaryIsInstance]
        why = f"it must return a list of tensors, not {tensors!r}"
        raise ArgumentError(f"workload {name!r}", why, "return [A, B, C]")
    return tuple(tensors)
