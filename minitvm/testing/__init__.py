"""Tools to test compilers with: random programs, random schedules, comparisons, a fuzz driver."""

from .case import TARGETS, Outcome, run_case
from .compare import assert_allclose, difference
from .make import random_program
from .peak import fma_peak, fma_run, interleaved
from .program import Program
from .schedules import Tally, random_schedule

__all__ = [
    "TARGETS",
    "Outcome",
    "Program",
    "Tally",
    "assert_allclose",
    "difference",
    "fma_peak",
    "fma_run",
    "interleaved",
    "random_program",
    "random_schedule",
    "run_case",
]
