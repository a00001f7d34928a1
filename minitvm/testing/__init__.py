"""Tools for testing compilers: random programs, random schedules, comparisons, a fuzz driver."""

# pyright: reportUnusedImport=false

from .case import TARGETS, CaseResult, run_case
from .compare import assert_allclose, difference
from .make import random_program
from .peak import PeakShare, fma_peak, fma_run, interleaved, share_of_peak
from .program import RandomProgram
from .schedules import random_schedule
from .tally import PRIMITIVES, Tally, primitive
