"""Options for tuning and measuring, under TVM's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from minitvm import tune
from minitvm.base import ArgumentError, Reason, Target, check_kind, raise_first


@dataclass(frozen=True, slots=True)
class RecordToFile:
    """Append each measurement to a log; the search also learns from what the log contains."""

    filename: str | Path = "auto_scheduler_tuning.json"

    def __post_init__(self) -> None:
        check_kind("log", self.filename, str, Path, fix="the path of a log")


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """Options of a search.

    num_measure_trials       programs to measure; programs in the log of RecordToFile count too
    early_stopping           stop after this many programs without an improvement
    num_measures_per_round   programs that the search proposes at a time
    verbose                  whether to draw a progress bar
    builder, runner          "local", or a LocalBuilder, and a LocalRunner or an RPCRunner
    measure_callbacks        [RecordToFile(log)], or none
    """

    num_measure_trials: int = 64
    early_stopping: int | None = None
    num_measures_per_round: int = 16
    verbose: int = 1
    builder: tune.LocalBuilder | str = "local"
    runner: tune.LocalRunner | tune.RPCRunner | str = "local"
    measure_callbacks: Sequence[RecordToFile] = ()

    def __post_init__(self) -> None:
        raise_first(ArgumentError, "TuningOptions", self._faults())
        tune.measure_options(self.builder, self.runner)

    def _faults(self) -> Iterator[Reason]:
        for name, least in (("num_measure_trials", 1), ("num_measures_per_round", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                yield f"{name} is {value!r}", f"an integer of at least {least}"
        if self.early_stopping is not None and type(self.early_stopping) is not int:
            yield f"early_stopping is {self.early_stopping!r}", "an integer, or None"
        try:
            callbacks = [*self.measure_callbacks]
        except TypeError:
            callbacks = [self.measure_callbacks]
        if not all(isinstance(c, RecordToFile) for c in callbacks) or len(callbacks) > 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            yield f"measure_callbacks are {callbacks}", "[auto_scheduler.RecordToFile(log)]"

    @property
    def log(self) -> str | Path | None:
        """Return the log to which measurements are written, or None without such a log."""
        return next((c.filename for c in self.measure_callbacks), None)

    @property
    def measure(self) -> tune.MeasureOptions:
        """Return the options for measuring, as tune.run takes them."""
        return tune.measure_options(self.builder, self.runner)


@dataclass(frozen=True, slots=True)
class LocalRPCMeasureContext(tune.LocalRunner):
    """Options for running programs: `runner` is a LocalRunner.

    TVM starts a server on this machine for it. Here every program runs in a separate process.
    """

    @property
    def runner(self) -> tune.LocalRunner:
        """Return the runner, for TuningOptions."""
        return self


@dataclass(frozen=True, slots=True)
class HardwareParams:
    """Facts about the machine on which sketches depend; None means the target's value."""

    num_cores: int | None = None
    vector_unit_bytes: int | None = None

    def on(self, target: Target) -> Target:
        """Return the target on a machine with these facts."""
        facts = {"num_cores": self.num_cores, "vector_bytes": self.vector_unit_bytes}
        for name, value in facts.items():
            if value is not None and (type(value) is not int or value < 1):
                raise ArgumentError("HardwareParams", f"{name} is {value!r}", "a positive integer")
        return target.on(**{name: n for name, n in facts.items() if n is not None})
