"""The limits of a search: trials, seconds, trials without an improvement, failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minitvm.base import ArgumentError, Reason, raise_first


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that end a search; None for no limit.

    trials           trials of the task, including trials that the log already had
    seconds          time for building the policy, and wall time from the first result on. A batch
                     is always measured; programs that are being built or run are still finished
    early_stopping   trials without an improvement, including trials that the log already had
    failures         programs in a row that fail in the same way
    """

    trials: int | None = None
    seconds: float | None = None
    early_stopping: int | None = None
    failures: int = 64

    def __post_init__(self) -> None:
        raise_first(ArgumentError, "budget of a search", self._faults())

    def _faults(self) -> Iterator[Reason]:
        if self.trials is None and self.seconds is None:
            yield "neither trials nor seconds are given", "trials=64 or seconds=60"
        for name, value in (
            ("trials", self.trials),
            ("seconds", self.seconds),
            ("early_stopping", self.early_stopping),
            ("failures", self.failures),
        ):
            if value is not None and not value > 0:
                yield f"{name} is {value}", "a number above 0"
