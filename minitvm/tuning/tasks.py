"""Make tasks from the arguments of a command line, or from the keys of tasks in a log."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from minitvm import autotvm, tune
from minitvm.base import ArgumentError, TVMError


def sizes(text: str) -> tuple[int, ...]:
    """Parse the value of --shape, such as "512,512,512" or "512x512x512"."""
    if not re.fullmatch(r"\d+([,x]\d+)*", text):
        why = "not a list of numbers without signs"
        raise ArgumentError(f"--shape {text}", why, "--shape 512,512,512")
    return tuple(int(n) for n in re.split("[,x]", text))


def task_of_key(key: str, target: str) -> tune.Task:
    """Make the task whose key in a log is `key`; raise ArgumentError if no operator makes it."""
    try:
        name, *arguments = json.loads(key)
        return autotvm.task.create(name, _tuples(arguments), target)
    except (TVMError, TypeError, ValueError) as e:
        why = f"no operator of minitvm makes this task ({e})"
        raise ArgumentError(f"task {key} of the log", why) from e


def _tuples(value: Any) -> Any:
    """Convert the lists in a JSON value to tuples, which templates take as arguments."""
    return tuple(map(_tuples, cast("list[Any]", value))) if isinstance(value, list) else value
