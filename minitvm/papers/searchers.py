"""The searchers that the papers compare, by name, and their runs on recorded measurements.

    speeds = search(recorded("C9"), SEARCHERS["trees, rank loss"], trials=250, seed=0)
    trials_to(speeds, 0.95)                  trials until 95 % of the best speed

In these searches the analytic estimate and the trees that come with minitvm are off, and the first
batch is random; "product" is minitvm's own search, with both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minitvm import auto_scheduler, autotvm, tune

from .models import Acquisition, Ensemble, forest
from .recorded import Encoding, Recorded
from .treegru import load_treegru

PLAN = 16  # trials of a batch; the paper's batches have 64, its spaces are much larger
POPULATION = 25  # of the genetic algorithms, which have 10 generations in 250 trials
ELITES, MUTATION, CROSSED = 5, 0.07, 0.8  # of the GA of Tensor Comprehensions
Make = Callable[[Recorded, np.random.Generator], tune.Policy]


@dataclass(frozen=True, slots=True)
class Searcher:
    """A searcher: a policy for a task, and how many candidates it measures per counted trial."""

    policy: Make
    measured: int = 1


def search(records: Recorded, searcher: Searcher, trials: int, seed: int) -> tune.Floats:
    """Search a table; return the best speed after each trial, float32[trials].

    1 is the speed of the table's fastest candidate.
    """
    policy = searcher.policy(records, np.random.default_rng(seed))
    measurer, budget = tune.TableMeasurer(records.table, records.task), trials * searcher.measured
    costs = list[float]()
    while len(costs) < budget:
        candidates = policy.propose(min(PLAN, budget - len(costs)))
        if not candidates:
            break
        done = [tune.Trial(c, measurer.result(c)) for c in candidates]
        policy.learn(done)
        costs += [trial.cost for trial in done]
    costs += [costs[-1]] * (budget - len(costs))  # the space is exhausted
    best = np.minimum.accumulate(np.array(costs))
    return (records.table.best / best[searcher.measured - 1 :: searcher.measured]).astype(
        np.float32
    )


def trials_to(speeds: tune.Floats, share: float) -> int:
    """Return after how many trials a search had this share of the best speed.

    Returns one more than all trials if it had not.
    """
    reached = np.flatnonzero(speeds >= share)
    return int(reached[0]) + 1 if len(reached) else len(speeds) + 1


# --- policies ------------------------------------------------------------------------------------


def _random(records: Recorded, rng: np.random.Generator) -> tune.Policy:
    return autotvm.tuner.RandomTuner(records.task, rng)


def _genetic(records: Recorded, rng: np.random.Generator) -> tune.Policy:
    return autotvm.tuner.GATuner(records.task, pop_size=POPULATION, rng=rng)


class UniformGATuner(autotvm.tuner.GATuner):
    """The genetic algorithm of Tensor Comprehensions (Vasilache et al. 2018, section 5.2).

    Each knob of a child comes from one of three parents; a fifth of the children has one parent.
    """

    def crossed(self, parents: tune.Ints, share: tune.Floats) -> tune.Ints:
        """Return a child: each knob comes from one of three parents, drawn by their speed."""
        three = parents[np.searchsorted(share, self.rng.random(3))]
        if self.rng.random() >= CROSSED:
            return three[0]
        count = parents.shape[1]
        return three[self.rng.integers(0, 3, count), range(count)]


def _uniform(records: Recorded, rng: np.random.Generator) -> tune.Policy:
    return UniformGATuner(
        records.task, pop_size=POPULATION, elite_num=ELITES, mutation_prob=MUTATION, rng=rng
    )


def annealed(
    model: Callable[[int], tune.Model], encoding: Encoding = "flattened loops", **options: Any
) -> Searcher:
    """Return Algorithm 1 with a cost model, made by model(seed); options are ModelTuner's."""

    def policy(records: Recorded, rng: np.random.Generator) -> tune.Policy:
        return autotvm.tuner.ModelTuner(
            records.task,
            model(int(rng.integers(1 << 31))),
            records.columns(encoding),
            plan_size=PLAN,
            rng=rng,
            **options,
        )

    return Searcher(policy)


def _ensemble(acquisition: Acquisition, seed: int) -> Ensemble:
    return Ensemble(lambda s: tune.Trees("regression", s), 5, acquisition, seed)


def _beam(records: Recorded, rng: np.random.Generator) -> tune.Policy:
    columns = records.columns("flattened loops")
    model = tune.Trees("rank", int(rng.integers(1 << 31)))
    return auto_scheduler.BeamPolicy(records.task, rng, model=model, columns=columns)


def _product(records: Recorded, rng: np.random.Generator) -> tune.Policy:
    return tune.GuidedPolicy(records.task, rng)


def _treegru(seed: int) -> tune.Model:
    return load_treegru()


_rank, _regression = partial(tune.Trees, "rank"), partial(tune.Trees, "regression")

SEARCHERS: dict[str, Searcher] = {
    "random": Searcher(_random),
    "random, twice the trials": Searcher(_random, 2),
    "genetic": Searcher(_genetic),
    "genetic, twice the trials": Searcher(_genetic, 2),
    "genetic, Tensor Comprehensions": Searcher(_uniform),
    "random forest, configuration (SMAC)": annealed(forest, "configuration"),
    "trees, rank loss": annealed(_rank),
    "trees, squared error": annealed(_regression),
    "trees, configuration": annealed(_rank, "configuration"),
    "trees, context relation": annealed(_rank, "context relation"),
    "trees, diversity 1": annealed(_rank, diversity_filter_ratio=1),
    "trees, diversity 2": annealed(_rank, diversity_filter_ratio=2),
    "trees, diversity 4": annealed(_rank, diversity_filter_ratio=4),
    "five models, mean": annealed(partial(_ensemble, "mean")),
    "five models, upper confidence bound": annealed(partial(_ensemble, "ucb")),
    "five models, expected improvement": annealed(partial(_ensemble, "ei")),
    "TreeGRU": annealed(_treegru, "loop tree", is_ready=True),
    "statement model": annealed(tune.PackSum),
    "beam search": Searcher(_beam),
    "product": Searcher(_product),
}
