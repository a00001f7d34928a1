"""The results of measurements under AutoTVM's names."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from minitvm import tune
from minitvm.base import Target

from .space import ConfigEntity
from .task import Task

FAILED = 1e9  # the cost of a configuration that could not be measured


class MeasureErrorNo(IntEnum):
    """TVM's error numbers."""

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
    """The configuration that was measured, with its task and its target."""

    target: Target
    task: Task
    config: ConfigEntity


class MeasureResult(NamedTuple):
    """The result of a measurement.

    costs       seconds of one call, on a simulated GPU modelled cycles; (FAILED,) after an error
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
    """Return the result of a trial as TVM reports it."""
    r = trial.result
    number = ERRORS.get(r.error, MeasureErrorNo.UNKNOWN_ERROR)
    costs = r.costs if not r.error else (FAILED,)
    return MeasureResult(costs, number, r.build_seconds + r.run_seconds, trial.time, r.detail)
