"""Tables of measurements: small spaces in which every candidate was measured once.

    table = tune.load_table("matmul")
    tune.run(task, policy, trials=64, measurer=tune.TableMeasurer(table, task))

A search on a table needs no time for measuring and no particular machine, and can be repeated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError, Target

from .builder import Program
from .knob import Knob, knob_of, numbers
from .policy import every_row
from .space import Rows, Space
from .task import Candidate, CandidateProgram, Task
from .trial import Result

FOLDER = Path(__file__).parent / "tables"
Seconds: TypeAlias = npt.NDArray[np.float32]
MACHINE = ("vector_bytes", "vector_registers", "l1", "l2", "l3")  # facts that a Target has


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A space and the time of each of its candidates.

    knobs      the knobs and their options
    seconds    the time of one call for each candidate, by its number: float32[space size]; infinity
               if the candidate failed, nan if the space does not allow it
    about      "what" was measured, its "flops", the "target" and the "machine", the "peak" in
               GFLOP/s and the seconds of the "default" schedule in the same run
    """

    name: str
    knobs: tuple[Knob, ...]
    seconds: Seconds
    about: Mapping[str, Any]

    @property
    def space(self) -> Space:
        """Return the space; it allows the candidates that were measured."""
        return Space(self.knobs, lambda rows: ~np.isnan(self.of(rows)))

    @property
    def best(self) -> float:
        """Return the shortest time of all candidates, in seconds."""
        return float(np.nanmin(self.seconds))

    @property
    def measured(self) -> Seconds:
        """Return the times of the allowed candidates, in the order of their numbers."""
        return self.seconds[~np.isnan(self.seconds)]

    @property
    def rows(self) -> Rows:
        """Return the allowed candidates, in the order of their numbers."""
        return every_row(Space(self.knobs))[~np.isnan(self.seconds)]

    @property
    def target(self) -> Target:
        """Return the target that was measured, with the facts of its machine."""
        machine = self.about["machine"]
        return Target(self.about["target"]).on(**{name: machine[name] for name in MACHINE})

    def of(self, rows: Rows) -> Seconds:
        """Return the times of the candidates in `rows`."""
        return self.seconds[Space(self.knobs).indices(rows)]

    def share_within(self, fraction: float) -> float:
        """Return the share of the candidates with at least (1 - fraction) of the best speed."""
        return float(np.mean(self.best / self.measured >= 1 - fraction))

    def save(self, file: str | Path) -> None:
        """Write the table to a .npz file."""
        knobs = [{"name": g.name, "kind": g.kind, "options": g.options} for g in self.knobs]
        head = json.dumps({"name": self.name, "knobs": knobs, "about": dict(self.about)})
        np.savez_compressed(file, seconds=self.seconds, head=np.array(head))

    def __repr__(self) -> str:
        sizes = " x ".join(str(len(g)) for g in self.knobs)
        measured = f"{len(self.measured)} of {sizes} candidates measured"
        return f"table {self.name!r}: {self.about['what']}, {measured}"


def load_table(name: str | Path) -> Table:
    """Load a table that comes with minitvm, such as "matmul", or one from a .npz file."""
    file = Path(name) if str(name).endswith(".npz") else FOLDER / f"{name}.npz"
    if not file.exists():
        known = ", ".join(sorted(f.stem for f in FOLDER.glob("*.npz")))
        raise ArgumentError(f"table {str(name)!r}", "there is no such table", f"one of {known}")
    with np.load(file) as stored:
        head, seconds = json.loads(str(stored["head"])), stored["seconds"]
    return Table(head["name"], tuple(map(_knob, head["knobs"])), seconds, head["about"])


def _knob(fields: Mapping[str, Any]) -> Knob:
    return knob_of(fields["name"], [_frozen(o) for o in fields["options"]], fields["kind"])


def _frozen(option: Any) -> Any:
    """Return an option from JSON, with a tuple in place of a list."""
    return tuple(cast("list[Any]", option)) if isinstance(option, list) else option


class TableMeasurer:
    """A measurer that looks up times in a table.

    task    the sketches of the task must have the knobs of the table, with some or all options
    Use it as `measurer` of tune.run. Programs are neither lowered nor built.
    """

    def __init__(self, table: Table, task: Task) -> None:
        self.table = table
        self._places = [_places(table, sketch.space) for sketch in task.sketches]

    @property
    def reference_cost(self) -> float:
        """Return the time of the default schedule."""
        return float(self.table.about["default"])

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order."""
        for program in programs:
            yield self.result(_candidate(program))

    def remeasure(self, programs: Sequence[Program]) -> list[Result]:
        """Return the results of the programs, then that of the default schedule."""
        results = [self.result(_candidate(p)) for p in programs]
        return [*results, Result((self.reference_cost,))]

    def row(self, candidate: Candidate) -> tuple[int, ...]:
        """Return the row of the table's space that corresponds to a candidate of the task."""
        matches = self._places[candidate.sketch]
        return tuple(options[candidate.row[column]] for column, options in matches)

    def result(self, candidate: Candidate) -> Result:
        """Return the result of a candidate; ArgumentError if the table does not have it."""
        seconds = float(self.table.of(np.array([self.row(candidate)], np.int32))[0])
        if math.isnan(seconds):
            why = "the space of the table does not allow this candidate"
            raise ArgumentError(f"{candidate}", why, f"a task with the space of {self.table!r}")
        return Result((seconds,)) if math.isfinite(seconds) else Result((), "crash", "recorded")


def _candidate(program: Program) -> Candidate:
    if isinstance(program, CandidateProgram):
        return program.candidate
    raise ArgumentError(f"program {program!r}", "it is not a candidate of a task", "tune.run")


def _places(table: Table, space: Space) -> list[tuple[int, list[int]]]:
    """Match the knobs of a table to the knobs of a space; raise ArgumentError if they differ.
    Returns for each knob its column in the space, and the numbers of its options in the table."""
    names = [g.name for g in space.knobs]
    if sorted(names) != sorted(g.name for g in table.knobs):
        expected = ", ".join(g.name for g in table.knobs)
        raise ArgumentError(f"space with {', '.join(names)}", f"{table!r} has {expected}")
    matches = list[tuple[int, list[int]]]()
    for knob in table.knobs:
        column = names.index(knob.name)
        number = numbers(knob)
        if strange := [o for o in numbers(space.knobs[column]) if o not in number]:
            why = f"{table!r} has no option {strange[0]}"
            raise ArgumentError(f"knob {knob.name!r}", why, f"options {', '.join(number)}")
        matches.append((column, [number[o] for o in numbers(space.knobs[column])]))
    return matches
