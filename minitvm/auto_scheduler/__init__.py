"""Ansor: sketches derived by rules, filled by evolution, for any computation without a template.

To add        write
a sketch rule its condition and its effect, and a Rule in RULES (rules.py), or for a GPU in
              GPU_RULES (gpu_rules.py)
a decision    a function in annotate.py that returns or yields a state for each choice
an objective  a function of the latencies, in objectives.py
"""

# pyright: reportUnusedImport=false

from minitvm.tune import LocalBuilder, LocalRunner, RPCRunner

from . import loop_state, objectives, workload_registry, workloads
from .allocation import ObjectiveName, Strategy
from .beam import BeamPolicy, BeamTrace, accuracy_by_completeness
from .dag import ComputeDAG
from .derive import derived, sketches
from .gpu_rules import GPU_RULES
from .history import ApplyHistoryBest, load_best_record, load_records
from .loop_state import LoopState
from .options import HardwareParams, LocalRPCMeasureContext, RecordToFile, TuningOptions
from .policy import (
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    RandomModel,
    SketchPolicy,
    XGBModel,
)
from .rounds import (
    ENDS,
    TaskRound,
    TasksEvent,
    TasksFinished,
    TasksLine,
    TasksListener,
    TasksOutcome,
    TasksStarted,
)
from .rules import RULES, Branch, Rule
from .scheduler import TaskScheduler
from .state import State, Tiles
from .task import SearchTask
from .workload_registry import make_workload_key, register_workload
