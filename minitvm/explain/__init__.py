"""Why each bound, guard and copy is there, and what is likely slow, in words."""

# pyright: reportUnusedImport=false

from .caution import Caution, Cautions
from .derive import Derivation, PrintedLoops, explain_bound, loops_of
from .guards import explain_guard
from .report import Explanation, StageReport, explain
