"""Choose the configuration of a template: ask a stack of contexts, the innermost context first.

    with autotvm.apply_history_best("matmul.log"):
        s, args = matmul(512, 512, 512, "float32")     the best configuration of the log

Each context has configurations for some workloads and leaves the others to the next context. The
outermost context gives the first option of every knob, and warns once for each workload.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from contextvars import ContextVar, Token
from typing import Any, ClassVar, Self, TypeAlias

from minitvm.base import ArgumentError, Target

from .fallback import FallbackConfigEntity
from .space import Config

Workload: TypeAlias = tuple[Any, ...]  # the name of a template and its arguments, as JSON values


class FallbackWarning(UserWarning):
    """The category of the warning that a workload has not been tuned."""


class Current:
    """The attribute DispatchContext.current."""

    def __get__(self, context: DispatchContext | None, owner: type) -> DispatchContext:
        return next(reversed(_stack.get()), FALLBACK)


class DispatchContext(ABC):
    """A source of configurations; use it in a `with` statement.

    A context applies only in the thread that enters it; a new thread starts without contexts.

    current   the innermost context
    """

    current: ClassVar = Current()

    def __init__(self) -> None:
        self._entered: list[Token[tuple[DispatchContext, ...]]] = []

    @abstractmethod
    def find(self, target: Target, workload: Workload) -> Config | None:
        """Return the configuration of a workload; None leaves the workload to the next context."""

    def query(self, target: Target, workload: Workload) -> Config:
        """Return the configuration of a workload from this context or the next outside it."""
        entered = _stack.get()
        outer = entered[: entered.index(self)] if self in entered else entered
        for context in (self, *reversed(outer)):
            cfg = context.find(target, workload)
            if cfg is not None:
                return cfg
        return FALLBACK.find(target, workload)

    def update(self, target: Target, workload: Workload, cfg: Config) -> None:
        """Set the configuration that this context has for a workload."""
        raise ArgumentError(f"{type(self).__name__}.update", "it has one configuration for all")

    def __enter__(self) -> Self:
        self._entered.append(_stack.set((*_stack.get(), self)))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.reset(self._entered.pop())


_stack: ContextVar[tuple[DispatchContext, ...]] = ContextVar("contexts", default=())


def query(target: Target, workload: Workload) -> Config:
    """Return the configuration of a workload from the innermost context that has one."""
    return DispatchContext.current.query(target, workload)


def get_config() -> Config:
    """Return the configuration of the template that is running, or of the innermost ApplyConfig."""
    for context in reversed(_stack.get()):
        if isinstance(context, ApplyConfig):
            return context.config
    return FallbackConfigEntity()


class ApplyConfig(DispatchContext):
    """A context that gives every workload the same configuration."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def find(self, target: Target, workload: Workload) -> Config:
        return self.config


class FallbackContext(DispatchContext):
    """A context that gives the first option of every knob, and warns once for each workload."""

    def __init__(self) -> None:
        super().__init__()
        self._warned = set[str]()
        self._lock = threading.Lock()

    def find(self, target: Target, workload: Workload) -> Config:
        name = repr((str(target), workload))
        with self._lock:
            fresh = name not in self._warned
            self._warned.add(name)
        if fresh:
            text = f"{workload[0]} of {workload[1:]} is not tuned for {target}: it may be slow"
            warnings.warn(text, FallbackWarning, stacklevel=5)
        return FallbackConfigEntity()

    def clear(self) -> None:
        """Forget the warnings: warn about each workload once more."""
        with self._lock:
            self._warned.clear()


FALLBACK = FallbackContext()
