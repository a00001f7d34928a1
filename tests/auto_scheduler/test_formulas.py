"""Tasks with several formulas for the same results: all their sketches are searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, tensor, topi, tune
from minitvm.base import ArgumentError, Target

ONE = Target("llvm -num-cores=1")


def formulas(size: int = 8) -> list[auto_scheduler.ComputeDAG]:
    """A convolution of [1, size, size, 8] with 16 constant kernels, directly and by Winograd."""
    found = []
    for method in ("direct", "winograd"):
        data = te.placeholder((1, size, size, 8), name="data")
        weight = te.placeholder((3, 3, 8, 16), name="weight", constant=True)
        out = topi.relu(topi.conv2d(data, weight, 1, 1, method=method, layout="NHWC"))
        found.append(auto_scheduler.ComputeDAG([data, weight, out]))
    return found


def task(*others: auto_scheduler.ComputeDAG) -> auto_scheduler.SearchTask:
    direct, winograd = formulas()
    return auto_scheduler.SearchTask(compute_dag=direct, target=ONE, formulas=others or (winograd,))


class OneOfEach:
    """A policy that proposes one candidate of each sketch."""

    def __init__(self, made: tune.Task) -> None:
        rows = [s.space.sample(np.random.default_rng(0), 1)[0].tolist() for s in made.sketches]
        self.left = [tune.Candidate(n, tuple(row)) for n, row in enumerate(rows)]

    def propose(self, count: int) -> list[tune.Candidate]:
        found, self.left = self.left[:count], self.left[count:]
        return found

    def learn(self, trials: Sequence[tune.Trial]) -> None:
        """Learn nothing."""


class Favours:
    """A measurer for which sketches with `name` in their names are faster than all others."""

    reference_cost = 1.0

    def __init__(self, name: str) -> None:
        self.name = name

    def measure(self, programs: Iterable[tune.CandidateProgram]) -> Iterator[tune.Result]:
        for p in programs:
            good = self.name in p.task.sketches[p.candidate.sketch].name
            yield tune.Result((0.1 if good else 0.5,))

    def remeasure(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
        return [*self.measure(programs), tune.Result((1.0,))]


def test_all_sketches_of_all_formulas_compute_the_same() -> None:
    made, rng = task(), np.random.default_rng(0)
    names = [sketch.name for sketch in made.sketches]
    assert names[0] == "sketch 0, level 1"
    assert names[-1] == "formula 1, sketch 0, plan"
    assert len(set(names)) == len(names) == len(made.states)
    inputs = [rng.standard_normal([*map(int, t.shape)], "float32") for t in made.args[:-1]]
    (expected,) = tensor.evaluate(made.outputs, dict(zip(made.args[:-1], inputs, strict=True)))
    for n, sketch in enumerate(made.sketches):
        (row,) = sketch.space.sample(rng, 1).tolist()
        result = np.zeros(expected.shape, "float32")
        driver.build(made.lowered(tune.Candidate(n, tuple(row))), target=ONE)(*inputs, result)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["formula 1", "sketch 0, level"])
def test_the_fastest_program_of_a_log_brings_its_own_formula(name: str, tmp_path: Path) -> None:
    made, log, rng = task(), tmp_path / "log.jsonl", np.random.default_rng(0)
    tune.run(made, OneOfEach(made), trials=100, measurer=Favours(name), log=log)
    s, args = made.apply_best(log)
    tags = {getattr(op, "tag", "") for op in tensor.producers_first([args[-1].op])}
    winograd = topi.WINOGRAD in tags
    assert winograd == (name == "formula 1")
    inputs = [rng.standard_normal([*map(int, t.shape)], "float32") for t in made.args[:-1]]
    (expected,) = tensor.evaluate(made.outputs, dict(zip(made.args[:-1], inputs, strict=True)))
    result = np.zeros(expected.shape, "float32")
    driver.build(s, args, target=ONE)(*inputs, result)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_a_task_without_the_formula_of_the_fastest_program_says_so(tmp_path: Path) -> None:
    made, log = task(), tmp_path / "log.jsonl"
    tune.run(made, OneOfEach(made), trials=100, measurer=Favours("formula 1"), log=log)
    alone = auto_scheduler.SearchTask(compute_dag=made.compute_dag, target=ONE)
    with pytest.raises(ArgumentError, match=r"formula 1, sketch 0, plan, computes a formula that"):
        alone.apply_best(log)


def test_history_uses_only_programs_of_the_own_formula(tmp_path: Path) -> None:
    made, log = task(), tmp_path / "log.jsonl"
    tune.run(made, OneOfEach(made), trials=100, measurer=Favours("formula 1"), log=log)
    with auto_scheduler.ApplyHistoryBest(log):
        s = topi.schedule(made.outputs, ONE)
    assert s.steps != topi.schedule(made.outputs, ONE).steps
    driver.lower(s, made.args, target=ONE)


def test_history_uses_the_default_if_it_was_faster_before_a_search_that_was_stopped(
    tmp_path: Path,
) -> None:
    class Stopped(Favours):
        reference_cost = 0.3  # of the default; the programs take 0.5

        def remeasure(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
            raise KeyboardInterrupt

    made, log = task(), tmp_path / "log.jsonl"
    tune.run(made, OneOfEach(made), trials=100, measurer=Stopped("no sketch"), log=log)
    default = topi.schedule(made.outputs, ONE).steps
    with auto_scheduler.ApplyHistoryBest(log):
        assert topi.schedule(made.outputs, ONE).steps == default


def test_formulas_with_other_inputs_are_refused() -> None:
    other = formulas(size=6)[1]
    with pytest.raises(ArgumentError, match=r"formula 1 has the arguments data float32.1, 6, 6"):
        task(other)
    with pytest.raises(ArgumentError, match="formulas"):
        auto_scheduler.SearchTask(compute_dag=other, target=ONE, formulas=("winograd",))
