"""The base class of schedule steps, and the checks that they share.

Steps refer to stages and loops by name: names are unique within a schedule, and replaying the same
steps gives the same names.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from minitvm import tensor

from .scans import update_of
from .state import FuseRelation, Inline, SplitRelation, Stage, State

StageName: TypeAlias = str
LoopName: TypeAlias = str  # a loop of `target` if the step has that field, otherwise of `stage`
Checks: TypeAlias = Iterator[tuple[str, str]]  # why a step is illegal, and what to try
Changes: TypeAlias = Literal["notes", "loops", "places"]


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """A schedule primitive and its arguments.

    stage       the name of the stage that the step is applied to
    changes     what the step may change: with "notes", no formula, loop or attachment, so that all
                stay legal; with "loops", only the loops of the stage; with "places", anything
    primitive   the primitive's name in JSON: the class name in snake case
    samples     values from which random steps draw fields that are neither stages nor loops
    """

    stage: StageName

    changes: ClassVar[Changes] = "notes"
    primitive: ClassVar[str]
    samples: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    def __init_subclass__(cls) -> None:
        cls.primitive = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def verb(self) -> str:
        """Return the name of the method of `s[C]` that takes this step."""
        return self.primitive

    @property
    def what(self) -> str:
        """Return the step in words for the start of an error message: "split of 'i' in C"."""
        axis, target = getattr(self, "axis", None), getattr(self, "target", None)
        if target is not None:
            return f"{self.verb} of {self.stage} at {target}, loop {axis!r}"
        if axis is not None:
            return f"{self.verb} of {axis!r} in {self.stage}"
        return f"{self.verb} {'in' if hasattr(self, 'axes') else 'of'} {self.stage}"

    @abstractmethod
    def checks(self, state: State) -> Checks:
        """Yield (why, what to try) for each reason the step is illegal; nothing if it is legal.

        The caller must stop at the first reason: later checks rely on earlier ones.
        """

    @abstractmethod
    def apply(self, state: State) -> State:
        """Return the state after the step. `checks` must have found the step legal."""


def has_loops(state: State, name: str) -> Checks:
    """Check that the stage `name` has loops to schedule."""
    stage = state.stage(name)
    if isinstance(stage.op, tensor.PlaceholderOp):
        yield f"{name} is an input, nothing is computed there", ""
    if isinstance(stage.attach, Inline):
        yield f"{name} is inlined, it has no loops", "compute_root it first"
    if isinstance(stage.op, tensor.ExternOp):
        why = f"{name} is an extern operation: its loops are in its statement"
        yield why, "write them as they should run: ib.for_range(..., kind='parallel')"


def has_body(step: Step, state: State) -> Checks:
    """Check that the stage of `step` has loops, and that the stage is not a scan."""
    yield from has_loops(state, step.stage)
    op = state.stage(step.stage).op
    if isinstance(op, tensor.ScanOp):
        why = f"{step.stage} is a scan: it has a loop over time, in which its updates are computed"
        yield why, f"{step.verb} of {op.updates[0].op.name}"


def is_inner(state: State, name: str) -> Checks:
    """Check that the stage `name` can be moved: it is no input, no output and no scan update."""
    stage = state.stage(name)
    if isinstance(stage.op, tensor.PlaceholderOp):
        yield f"{name} is an input", f"cache_read({name}, ...) makes a copy that can be moved"
    if stage.is_output:
        yield f"{name} is an output: it must be stored as a whole, at root", ""
    if scan := update_of(state, stage):
        yield (
            f"{name} is an update of {scan}: its rows are computed in the loop over time, and "
            f"stored in the result of {scan}",
            f"cache_write({name}, ...) makes a stage that can be moved",
        )


def is_loop(stage: Stage, *required: str) -> Checks:
    """Check that `stage` has the loops `required`; say which step replaced a former loop."""
    loops = stage.loops
    for name in required:
        if name in loops:
            continue
        names, why = stage.names, f"{stage.name} has no axis {name!r}"
        for r in reversed(stage.relations):
            if isinstance(r, SplitRelation) and names[r.parent] == name:
                why = f"{name!r} was split into {r.outer.name} and {r.inner.name}"
            elif isinstance(r, FuseRelation) and name in (names[r.outer], names[r.inner]):
                why = f"{name!r} was fused into {r.fused.name}"
        yield why, f"one of its loops now: {', '.join(loops) or 'none'}"
