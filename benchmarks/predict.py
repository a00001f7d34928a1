"""Measure the time of one prediction for each cost model that the papers compare.

    python benchmarks/predict.py [--quick] [--json FILE] [MODEL ...]

"ours" is the CPU time of computing a candidate's features and its score, in microseconds; a batch
has 512 candidates of the layer C9, one core. "features" is the part of the features, "training" the
CPU microseconds of training on 128 candidates. The models are those of minitvm.papers.SEARCHERS.
TreeGRU comes trained; its training here fits only the last layer.
"""

from __future__ import annotations

from _common import Row, arguments, report

flags = arguments(__doc__)

import time
from collections.abc import Callable

import numpy as np

from minitvm import autotvm, papers, tune

BATCH, TRAINED = 512, 128
MODELS: dict[str, tuple[papers.Encoding, Callable[[], tune.Model]]] = {
    "trees, flattened loops": ("flattened loops", tune.Trees),
    "trees, configuration": ("configuration", tune.Trees),
    "trees, context relation": ("context relation", tune.Trees),
    "five models": ("flattened loops", lambda: papers.Ensemble(lambda s: tune.Trees(seed=s))),
    "random forest (SMAC)": ("configuration", lambda: papers.forest(0)),
    "statement model": ("flattened loops", lambda: tune.PackSum(0)),
    "TreeGRU": ("loop tree", papers.load_treegru),
}


def cpu_us(run: Callable[[], object], rounds: int) -> float:
    """Return the shortest CPU time of a call, in microseconds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return 1e6 * best


def measured(name: str, rounds: int) -> Row:
    """Measure one model."""
    records, (encoding, make) = papers.recorded("C9"), MODELS[name]
    order = np.random.default_rng(0).permutation(len(records.rows))
    known, asked = np.split(order[: TRAINED + BATCH], [TRAINED])
    columns = papers.ENCODINGS[encoding](records.task)

    def described(rows: np.ndarray) -> np.ndarray:
        return autotvm.features_of(records.task, columns, records.rows[rows])

    x, y, features = described(known), records.speeds[known], described(asked)
    model = make()
    training = cpu_us(lambda: model.fit(x, y), rounds)
    parts = cpu_us(lambda: described(asked), rounds) / BATCH
    scores = cpu_us(lambda: model.predict(features), rounds) / BATCH
    return Row(name, 1, "us", parts + scores, {"features": parts, "training": training})


if __name__ == "__main__":
    rounds = 3 if flags.quick else 9
    report([measured(name, rounds) for name in flags.cases or MODELS], flags.json, ())
