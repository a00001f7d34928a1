"""Make tasks from the arguments of a command line, or from the keys of tasks in a log."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from minitvm import auto_scheduler, autotvm, tune
from minitvm.base import ArgumentError, TVMError

BATCH_MATMUL = "Multiply a [batch, m, k] by b [batch, k, n], by sketches instead of a template."


def sizes(text: str) -> tuple[int, ...]:
    """Parse the value of --shape, such as "512,512,512" or "512x512x512"."""
    if not re.fullmatch(r"\d+([,x]\d+)*", text):
        why = "not a list of numbers without signs"
        raise ArgumentError(f"--shape {text}", why, "--shape 512,512,512")
    return tuple(int(n) for n in re.split("[,x]", text))


def operators() -> dict[str, tuple[str, str]]:
    """Return (what it computes, the numbers of --shape) of each operator that can be tuned."""
    known = {
        name: (o.template.make.__doc__ or "", o.shape) for name, o in autotvm.OPERATORS.items()
    }
    return {**known, "batch_matmul": (BATCH_MATMUL, "batch, m, n, k")}


def task_of(name: str, shape: tuple[int, ...], target: str) -> tune.Task:
    """Make the task of an operator; raise ArgumentError if the shape does not fit it."""
    if name != "batch_matmul":
        return autotvm.task_for(name, shape, target)
    if len(shape) != 4 or 0 in shape:
        why = "it must be batch, m, n, k, at least 1 each"
        raise ArgumentError(f"shape {shape} of {name}", why)
    return auto_scheduler.SearchTask("GMM", shape, target=target)


def task_of_key(key: str, target: str) -> tune.Task:
    """Make the task whose key in a log is `key`; raise ArgumentError if no operator makes it.

    The log may be one of AutoTVM's templates or of the auto-scheduler's workloads.
    """
    try:
        name, *arguments = json.loads(key)
        if name in auto_scheduler.workload_registry.known():
            return auto_scheduler.SearchTask(workload_key=key, target=target)
        return autotvm.task.create(name, _tuples(arguments), target)
    except (TVMError, TypeError, ValueError) as e:
        why = f"no operator of minitvm makes this task ({e})"
        raise ArgumentError(f"task {key} of the log", why) from e


def _tuples(value: Any) -> Any:
    """Convert the lists in a JSON value to tuples, which templates take as arguments."""
    return tuple(map(_tuples, cast("list[Any]", value))) if isinstance(value, list) else value
