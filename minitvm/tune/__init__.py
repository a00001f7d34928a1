"""The part of tuning that AutoTVM and the auto-scheduler share: search, measurements, logs, models.

outcome = tune.run(task, seconds=60, log="matmul.jsonl")     calling it again resumes
f = driver.build(task.lowered(outcome.best.candidate))
search = tune.Search(task, seconds=60).start()               the same in a thread

To add    write
a policy  a class with the methods of Policy (policy.py); pass it to `run`
a model   a class with the methods of Model (model.py); pass it to GuidedPolicy as `model`
a column  its name in features.py, the number in kernel.py and slowly in tests/tune/oracle.py,
          which a test compares; raise VERSION in features.py
a failure a kind in ErrorKind (trial.py), where measure.py returns it, and its number in TVM in
          autotvm/measure.py
"""

# pyright: reportUnusedImport=false

from . import analytic
from .analytic import ANALYTIC
from .builder import Program
from .cluster import DaskMeasurer
from .columns import COLUMNS, Columns, columns_of, knob_columns
from .derive import CalledSketch, Derived, Made, called, derive, traced
from .events import (
    ENDS,
    End,
    Event,
    Finished,
    Listener,
    Measured,
    Outcome,
    Round,
    Started,
    best_trial,
    best_trials,
    cost_text,
    failures_text,
    fastest,
    rate,
    rate_unit,
)
from .evolve import (
    Evolution,
    Generation,
    Offspring,
    Population,
    Scored,
    diverse,
    empty_population,
    evolve,
    grown,
    ranked,
)
from .features import NAMES, STATEMENT, features
from .guided import GuidedPolicy, labels_of
from .handle import Search
from .history import Gain, Group, Summary, best, bests, candidate_name, gain_of, prune, summaries
from .kernel import Packed
from .knob import Ints, Knob, choice_knob, knob_of, number_knob, sizes_knob, split_knob
from .legal import legal_rows, restricted
from .limits import Limits
from .local import LocalBuilder, LocalRunner, RPCRunner, measure_options
from .loss import (
    Floats,
    Objective,
    best_of,
    pack_sum_loss,
    pairwise_accuracy,
    r2,
    rank_loss,
    recall_at,
    rmse,
)
from .machines import measurer
from .measure import MeasureOptions, Measurer, Processes
from .model import MIN_LABEL, AnalyticModel, Loss, Model, PackSum, Trees, statement_rows
from .packed import Footprint, footprint_chunks, packed
from .policy import Policy, RandomPolicy, Seen, Trial, every_row, spaces_of
from .pool import Pool, PoolDevice, pool
from .progress import BudgetBar, ProgressLine, counted, shown
from .record import (
    Log,
    Reading,
    Record,
    candidate_of,
    from_line,
    machine_facts,
    record_of,
    replay,
    row_of,
    to_line,
)
from .search import Measures, Searching, interruptible, run
from .shared import (
    PRETRAINED,
    ResidualModel,
    SharedModel,
    load_trees,
    loops_in,
    model_for,
    parts_in,
    pretrained,
    save_trees,
)
from .simulated import SimulatedGpu, SimulatedVta
from .sketch import Parameter, Sketch, replayed
from .space import Keys, Mask, Rows, Space, first_of_each
from .statements import Statement, statements
from .stopwatch import Stopwatch
from .table import FOLDER, Table, TableMeasurer, load_table
from .task import Candidate, CandidateProgram, Task
from .trial import ErrorKind, Result
