"""All steps by name, and the conversion of lists of steps to JSON, to save and replay them."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, cast

from minitvm.base import ScheduleError, as_tuple

from .dataflow import DATAFLOW
from .layout import TransformLayout
from .loops import LOOPS
from .marks import MARKS
from .places import PLACES
from .prefetch import Prefetch
from .rfactor import RFactor
from .step import Step
from .storage import STORAGE

STEPS: dict[str, type[Step]] = {
    cls.primitive: cls
    for cls in (*LOOPS, *MARKS, Prefetch, *PLACES, *STORAGE, *DATAFLOW, RFactor, TransformLayout)
}


def to_json(steps: tuple[Step, ...]) -> str:
    """Return the steps as JSON, one step per line."""
    rows = [json.dumps([s.primitive, asdict(s)]) for s in steps]
    return "[\n" + ",\n".join(rows) + "\n]"


def from_json(text: str) -> tuple[Step, ...]:
    """Return the steps that `to_json` wrote; raise ScheduleError if `text` is anything else."""
    try:
        rows = json.loads(text)
        return tuple(_step(name, arguments) for name, arguments in rows)
    except (ValueError, TypeError, RecursionError) as e:
        raise ScheduleError("steps from JSON", f"not a list of steps ({e})") from e


def _step(name: str, arguments: dict[str, Any]) -> Step:
    if name not in STEPS:
        raise ValueError(f"no step is called {name!r}")
    cls = STEPS[name]
    known = {f.name for f in fields(cls)}
    for key in arguments:
        if key not in known:
            raise ValueError(f"{name} has no {key}")
    values: dict[str, Any] = {
        k: as_tuple(v) if isinstance(v, list) else v for k, v in arguments.items()
    }
    step = cls(**values)
    wrong = misfit(step)
    if wrong:
        raise ValueError(wrong)
    return step


def misfit(step: object) -> str:
    """Describe the first field of `step` whose value has the wrong type: "factor of split is 'x'".

    Returns "" if all types are right.
    """
    if not isinstance(step, Step):
        return f"{reprlib.repr(step)} is not a step"
    for f in fields(step):
        v = getattr(step, f.name)
        if not FITS[str(f.type)](v):
            shown = list(cast("tuple[Any, ...]", v)) if isinstance(v, tuple) else v  # as in JSON
            return f"{f.name} of {step.primitive} is {reprlib.repr(shown)}"
    return ""


def _is_str(v: object) -> bool:
    return isinstance(v, str)


def _is_int(v: object) -> bool:
    return type(v) is int and -(2**63) <= v < 2**63  # True is not a number


def _are_strs(v: object) -> bool:
    return isinstance(v, tuple) and all(isinstance(x, str) for x in cast("tuple[Any, ...]", v))


FITS: dict[str, Callable[[Any], bool]] = {  # whether a value fits a declared type
    **dict.fromkeys(("str", "StageName", "LoopName", "Kind"), _is_str),
    **dict.fromkeys(
        ("tuple[str, ...]", "tuple[StageName, ...]", "tuple[LoopName, ...]"), _are_strs
    ),
    "bool": lambda v: isinstance(v, bool),
    "int": _is_int,
    "int | None": lambda v: v is None or _is_int(v),
    "int | str | None": lambda v: v is None or isinstance(v, str) or _is_int(v),
    "int | str": lambda v: isinstance(v, str) or _is_int(v),
}
