"""Tuners under AutoTVM's names: strategies for choosing the configurations to measure.

    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(n_trial=200, callbacks=[autotvm.callback.log_to_file("matmul.log")])

A tuner is a policy of tune.run, which measures, logs, resumes and stops. GuidedTuner is the best of
them: it starts from the analytic model, and evolves candidates with high scores of a cost model.
"""

# pyright: reportUnusedImport=false

from .base import GridSearchTuner, RandomTuner, Tuner
from .genetic import GATuner
from .model import GuidedTuner, ModelTuner, XGBTuner
