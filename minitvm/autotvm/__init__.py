"""AutoTVM: templates with knobs, tuners that choose their options, and contexts that apply them.

@autotvm.template("lesson/matmul")
def matmul(n): ...                              returns a schedule and the arguments

task = autotvm.task.create("lesson/matmul", (512,), "llvm")
autotvm.tuner.GuidedTuner(task).tune(seconds=20, callbacks=[autotvm.callback.log_to_file("log")])
with autotvm.apply_history_best("log"):
    s, args = matmul(512)
"""

# pyright: reportUnusedImport=false

from minitvm.tune import LocalBuilder, LocalRunner, RPCRunner
from minitvm.tune import measure_options as measure_option

from . import callback, packed, record, task, tuner
from .columns import columns_of, features_of, relations, touched
from .dispatch import (
    ApplyConfig,
    DispatchContext,
    FallbackContext,
    FallbackWarning,
    Workload,
    get_config,
)
from .entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from .fallback import FallbackConfigEntity
from .history import ApplyHistoryBest, apply_history_best
from .measure import MeasureErrorNo, MeasureInput, MeasureResult
from .operators import OPERATORS, Operator, task_for
from .recognise import recognised
from .record import ApplyGraphBest
from .space import ConfigEntity, ConfigSpace, InstantiationError
from .task import Task
from .templates import Template, args_to_workload, clear, find_template, template
