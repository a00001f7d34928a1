"""How to measure, under AutoTVM's names, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple

from minitvm import tune
from minitvm.base import ArgumentError, Target

from .space import ConfigEntity
from .task import Task

FAILED = 1e9  # the cost of a configuration that could not be measured


class MeasureErrorNo(IntEnum):
    """TVM's numbers of errors."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


ERRORS: dict[tune.ErrorKind, MeasureErrorNo] = {
    "": MeasureErrorNo.NO_ERROR,
    "schedule": MeasureErrorNo.INSTANTIATION_ERROR,
    "lower": MeasureErrorNo.INSTANTIATION_ERROR,
    "compile": MeasureErrorNo.COMPILE_HOST,
    "compile time-out": MeasureErrorNo.BUILD_TIMEOUT,
    "crash": MeasureErrorNo.RUNTIME_DEVICE,
    "exit": MeasureErrorNo.RUNTIME_DEVICE,
    "memory": MeasureErrorNo.RUNTIME_DEVICE,
    "garbage": MeasureErrorNo.RUNTIME_DEVICE,
    "run time-out": MeasureErrorNo.RUN_TIMEOUT,
    "wrong answer": MeasureErrorNo.WRONG_ANSWER,
}


class MeasureInput(NamedTuple):
    """What was measured."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """What a measurement found.

    costs       seconds of one call, or the message of the error
    error_no    a MeasureErrorNo
    all_cost    seconds of building and running
    timestamp   seconds since 1970
    """

    costs: tuple[float, ...]
    error_no: int
    all_cost: float
    timestamp: float
    detail: str = ""


def result_of(trial: tune.Trial) -> MeasureResult:
    """Return a trial as TVM reports it."""
    r = trial.result
    number = ERRORS.get(r.error, MeasureErrorNo.UNKNOWN_ERROR)
    costs = r.seconds if not r.error else (FAILED,)
    return MeasureResult(costs, number, r.build_seconds + r.run_seconds, trial.time, r.detail)


@dataclass(frozen=True, slots=True)
class LocalBuilder:
    """Compile on this machine; timeout: seconds of wall time for one program."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Run on this machine, in a process of its own.

    timeout                  seconds of wall time for all calls of one program
    number, repeat           timed calls in a repeat, and repeats
    min_repeat_ms            a repeat ends earlier when its calls have taken this long
    enable_cpu_cache_flush   use other copies of constants in each call, as a network does
    check_correctness        whether to compare the results with those of topi's schedule
    """

    timeout: float = 10.0
    number: int = 40
    repeat: int = 1
    min_repeat_ms: float = 20.0
    enable_cpu_cache_flush: bool = False
    check_correctness: bool = True


@dataclass(frozen=True, slots=True)
class MeasureOption:
    """How to measure: what measure_option returns."""

    builder: LocalBuilder = LocalBuilder()
    runner: LocalRunner = LocalRunner()

    @property
    def options(self) -> tune.MeasureOptions:
        """Return the options of tune.run."""
        r = self.runner
        return tune.MeasureOptions(
            compile_seconds=self.builder.timeout,
            run_seconds=r.timeout,
            number=r.number,
            repeat=r.repeat,
            min_repeat_ms=r.min_repeat_ms,
            cold=r.enable_cpu_cache_flush,
            check=r.check_correctness,
        )


def measure_option(
    builder: LocalBuilder | Literal["local"] = "local",
    runner: LocalRunner | Literal["local"] = "local",
) -> MeasureOption:
    """Return how to measure; "local" stands for LocalBuilder() and LocalRunner()."""
    for name, given in (("builder", builder), ("runner", runner)):
        if isinstance(given, str) and given != "local":
            why = "programs are built and run on this machine only"
            raise ArgumentError(f"{name} {given!r}", why, '"local"')
    return MeasureOption(
        LocalBuilder() if isinstance(builder, str) else builder,
        LocalRunner() if isinstance(runner, str) else runner,
    )
