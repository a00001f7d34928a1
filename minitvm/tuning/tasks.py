"""Tasks from what a command line or a log says about them."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from minitvm import autotvm, tune
from minitvm.base import ArgumentError, TVMError


def sizes(text: str) -> tuple[int, ...]:
    """Return the numbers of --shape: "512,512,512" or "512x512x512"."""
    if not re.fullmatch(r"\d+([,x]\d+)*", text):
        why = "not a list of numbers without signs"
        raise ArgumentError(f"--shape {text}", why, "--shape 512,512,512")
    return tuple(int(n) for n in re.split("[,x]", text))


def task_of_key(key: str, target: str) -> tune.Task:
    """Return the task that a log names; ArgumentError if its operator is not known."""
    try:
        name, *arguments = json.loads(key)
        return autotvm.task.create(name, _tuples(arguments), target)
    except (TVMError, TypeError, ValueError) as e:
        why = f"no operator of this program makes it ({e})"
        raise ArgumentError(f"task {key} of the log", why) from e


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of lists, as templates take arguments."""
    return tuple(map(_tuples, cast("list[Any]", value))) if isinstance(value, list) else value
