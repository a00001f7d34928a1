"""Explain in words why each bound and guard of a schedule is needed, and what is likely slow."""

# pyright: reportUnusedImport=false

from .derive import Derivation, PrintedLoops, explain_bound, loops_of
from .guards import explain_guard
from .report import Explanation, StageReport, explain
from .warning import PerformanceWarning, PerformanceWarnings
