"""Search tasks, their formulas and their keys, under TVM's names."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, topi, tune
from minitvm.base import ArgumentError, Target

ONE = "llvm -num-cores=1 -unroll=0"


@pytest.fixture(autouse=True)
def no_workloads_are_left() -> Iterator[None]:
    yield
    auto_scheduler.workload_registry.clear()


def matmul_relu(n: int, m: int) -> list[te.Tensor]:
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m, n), name="B")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, te.compute((n, n), lambda i, j: te.max(c[i, j], 0.0), name="D")]


def task(n: int = 32, **options: Any) -> auto_scheduler.SearchTask:
    auto_scheduler.register_workload(matmul_relu)
    return auto_scheduler.SearchTask(matmul_relu, (n, n), target=ONE, **options)


# --- formulas ------------------------------------------------------------------------------------


def test_a_dag_prints_as_in_tvm() -> None:
    dag = auto_scheduler.ComputeDAG(matmul_relu(512, 256))
    assert str(dag) == (
        "A = PLACEHOLDER [512, 256]\n"
        "B = PLACEHOLDER [256, 512]\n"
        "C(i, j) += (A[i, k]*B[k, j])\n"
        "D(i, j) = max(C[i, j], 0.0)\n"
    )
    assert dag.flop_ct == 512 * 512 * (2 * 256 + 1)


def test_other_reductions_print_their_name() -> None:
    a = te.placeholder((4, 8), name="A")
    text = str(auto_scheduler.ComputeDAG([a, topi.max(a, 1)]))
    assert " max= A[" in text


def test_equal_formulas_have_equal_keys() -> None:
    one, two, other = (auto_scheduler.ComputeDAG(matmul_relu(n, 8)) for n in (8, 8, 16))
    assert one.workload_key() == two.workload_key() != other.workload_key()


def test_a_state_without_steps_is_the_formula() -> None:
    dag = auto_scheduler.ComputeDAG(matmul_relu(8, 8))
    s, args = dag.apply_steps_from_state(dag.get_init_state())
    assert s.steps == ()
    assert [a.name for a in args] == ["A", "B", "D"]


def refused(made: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        auto_scheduler.ComputeDAG(made)
    return str(caught.value)


def test_what_the_rules_cannot_schedule_is_refused() -> None:
    n, a = te.var("n"), te.placeholder((8,), name="A")
    b = te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    assert "the length of i of C is symbolic\n  try: a constant shape" in refused([b, c])
    made = te.extern((8,), [a], lambda ins, outs: te.hardware_intrinsic("f", 1), name="E")
    assert "E is a te.extern" in refused([a, made])
    state = te.scan_state((4, 8))
    first = te.compute((1, 8), lambda _, i: a[i])
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + 1.0)
    assert "is a te.scan" in refused([a, te.scan(first, update, state, name="S")])
    assert "the list lacks A, B" in refused([matmul_relu(8, 8)[-1]])
    assert "there is nothing to compute" in refused([a])


def test_sums_as_long_as_the_data_says_are_scheduled() -> None:
    ends, x = te.placeholder((5,), "int32", name="ends"), te.placeholder((20,), name="x")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, ends[i + 1] - ends[i]), name="k")
        return te.sum(x[ends[i] + k], axis=k)

    rows = te.compute((4,), row, name="rows")
    dag = auto_scheduler.ComputeDAG([ends, x, te.compute((4,), lambda i: rows[i] * 2.0, name="D")])
    assert dag.flop_ct == 0
    made = auto_scheduler.SearchTask(compute_dag=dag, target=ONE)
    starts, data = np.array([0, 3, 3, 10, 20], "int32"), np.arange(20, dtype="float32")
    sums = [data[a:b].sum() for a, b in pairwise(starts)]
    for sketch in made.sketches:
        out = np.full(4, np.nan, "float32")
        s = sketch.scheduled((0,) * len(sketch.space.knobs))
        driver.build(s, made.args, target=made.target)(starts, data, out)
        np.testing.assert_allclose(out, 2 * np.array(sums))


# --- names ---------------------------------------------------------------------------------------


def test_a_workload_is_registered_under_a_name_in_three_ways() -> None:
    @auto_scheduler.register_workload
    def plain(n: int) -> list[te.Tensor]:
        return matmul_relu(n, n)

    @auto_scheduler.register_workload("other")
    def decorated(n: int) -> list[te.Tensor]:
        return matmul_relu(n, n)

    auto_scheduler.register_workload("third", plain)
    keys = [auto_scheduler.make_workload_key(f, (8,)) for f in (plain, decorated, "third")]
    assert keys == ['["plain", 8]', '["other", 8]', '["third", 8]']
    texts = {str(auto_scheduler.ComputeDAG(key)) for key in keys}
    assert len(texts) == 1


def test_an_unknown_workload_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ArgumentError, match=r"no such workload is registered\n.*GMM"):
        auto_scheduler.make_workload_key("gemm", (8,))
    with pytest.raises(ArgumentError, match="numbers, strings, and lists"):
        auto_scheduler.make_workload_key("GMM", (object(),))


def test_a_task_has_the_key_of_its_workload_or_of_its_formulas() -> None:
    named = task()
    assert named.workload_key == named.key == '["matmul_relu", 32, 32]'
    same = auto_scheduler.SearchTask(workload_key=named.key, target=ONE)
    assert same.key == named.key
    own = auto_scheduler.SearchTask(compute_dag=named.compute_dag, target=ONE)
    assert own.key == named.compute_dag.workload_key()


def test_people_see_the_name_of_a_workload_or_of_the_last_tensor() -> None:
    named = task()
    assert tune.shown(named) == "matmul_relu(32, 32)"
    own = auto_scheduler.SearchTask(compute_dag=named.compute_dag, target=ONE)
    assert tune.shown(own) == "D([32, 32], [32, 32], [32, 32])"
    of_network = ("float32[32, 32]", own.key)
    kernel = tune.Task("dense_relu", of_network, ONE, named.args, named.flops, named.sketches)
    assert tune.shown(kernel) == "dense_relu(float32[32, 32])"


def test_a_task_is_made_from_one_thing() -> None:
    for options in ({}, {"compute_dag": task().compute_dag, "workload_key": '["GMM", 1]'}):
        with pytest.raises(ArgumentError, match="either a function, a compute_dag or"):
            auto_scheduler.SearchTask(target=ONE, **options)


def test_facts_of_a_machine_replace_those_of_the_target() -> None:
    made = task(hardware_params=auto_scheduler.HardwareParams(num_cores=4, vector_unit_bytes=16))
    assert (made.target.num_cores, made.target.vector_bytes) == (4, 16)


# --- random programs -----------------------------------------------------------------------------


def test_tile_sizes_are_drawn_uniformly() -> None:
    """Chi-square over the factorizations of each loop, as Wilson and Hilferty approximate it."""
    rng, draws = np.random.default_rng(0), 50_000
    space = task(512).sketches[0].space
    rows = space.sample(rng, draws)
    for n, knob in enumerate(space.knobs):
        counts = np.bincount(rows[:, n], minlength=len(knob))
        free = len(knob) - 1
        chi_square = float(np.sum((counts - draws / len(knob)) ** 2) / (draws / len(knob)))
        normal = ((chi_square / free) ** (1 / 3) - 1 + 2 / (9 * free)) / math.sqrt(2 / (9 * free))
        assert 0.5 * math.erfc(normal / math.sqrt(2)) > 0.01, knob.name


# --- tuning --------------------------------------------------------------------------------------


def tuned(made: auto_scheduler.SearchTask, log: Path, trials: int, **options: Any) -> tune.Outcome:
    tuning = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=4,
        verbose=0,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )
    return made.tune(tuning, **options)


def test_a_task_is_tuned_resumed_and_applied(tmp_path: Path) -> None:
    log, made = tmp_path / "log.json", task(16)
    assert len(tuned(made, log, 3).trials) == 3
    again = tuned(made, log, 4)
    assert (again.earlier, len(again.trials)) == (3, 4)
    model = auto_scheduler.XGBModel()
    model.update_from_file(log)
    policy = auto_scheduler.SketchPolicy(
        made, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    more = tuned(made, log, 2, search_policy=policy)
    assert (more.earlier, len(more.trials)) == (4, 6)

    s, args = made.apply_best(log)
    assert made.print_best(log) == s.python()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 16)).astype("float32") for _ in "ab")
    out = np.full((16, 16), np.nan, "float32")
    driver.build(s, args, target=made.target)(a, b, out)
    np.testing.assert_allclose(out, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


# --- logs that were written by hand --------------------------------------------------------------


def record(
    made: auto_scheduler.SearchTask, number: int, seconds: float, **fields: Any
) -> tune.Record:
    """The record of random program `number`, as if it took so long."""
    sketch = number % len(made.sketches)
    (row,) = made.sketches[sketch].space.sample(np.random.default_rng(number), 1).tolist()
    candidate = tune.Candidate(sketch, tuple(row))
    return tune.record_of(made, tune.Trial(candidate, tune.Result((seconds,)), 1.0, **fields))


def log_of(path: Path, *records: tune.Record) -> Path:
    for r in records:
        tune.Log(path).append(r)
    return path


def test_the_best_record_is_the_fastest_whatever_was_measured_again(tmp_path: Path) -> None:
    """A search ended with 386 us, was resumed, found 189 us, and was killed before its final."""
    made = task()
    ended = [record(made, 0, 300e-6), record(made, 0, 386e-6, final=True)]
    log = log_of(tmp_path / "log", *ended, record(made, 1, 189e-6))
    best = auto_scheduler.load_best_record(log, made.key, ONE)
    assert best is not None
    assert best.seconds == 189e-6
    assert made.apply_best(log)[0].to_json() == tune.replay(best, made).to_json()
    assert auto_scheduler.load_best_record(log, "another") is None


def test_the_default_is_returned_where_it_was_faster(tmp_path: Path) -> None:
    made = task()
    log = log_of(tmp_path / "log", record(made, 0, 3e-3, final=True, default=2e-3))
    assert made.apply_best(log)[0].steps == topi.schedule(made.outputs, made.target).steps


def test_records_of_other_machines_count_if_wanted(tmp_path: Path) -> None:
    made = task()
    fields = json.loads(tune.to_line(record(made, 0, 1e-3)))
    fields["machine"]["cpu"] = "another"
    (tmp_path / "log").write_text(json.dumps(fields) + "\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="on this machine"):
        made.apply_best(tmp_path / "log")
    assert made.apply_best(tmp_path / "log", include_compatible=True)[0].steps


def test_a_log_is_applied_to_equal_formulas(tmp_path: Path) -> None:
    made = task()
    log = log_of(tmp_path / "log", record(made, 3, 1e-3))
    wanted = made.apply_best(log)[0].steps
    out, other = matmul_relu(32, 32)[-1], matmul_relu(32, 16)[-1]
    default = topi.schedule(other, Target(ONE)).steps
    with auto_scheduler.ApplyHistoryBest(log):
        assert topi.schedule(out, Target(ONE)).steps == wanted
        assert topi.schedule(other, Target(ONE)).steps == default
    assert topi.schedule(out, Target(ONE)).steps != wanted


KILLED = """
import sys, time
import numpy as np
from minitvm import auto_scheduler, tune
task = auto_scheduler.SearchTask("GMM", (1, 8, 24, 12), target={target!r})
rng = np.random.default_rng()
class Noisy:
    reference_cost = 1e-3
    def measure(self, programs):
        for _ in programs:
            time.sleep(.002)
            yield tune.Result((1e-3 * rng.uniform(.5, 2),))
    def remeasure(self, programs):
        return [tune.Result(tuple(1e-3 * rng.uniform(.5, 2, 20))) for _ in [*programs, 0]]
known = len(tune.Log({log!r}).read(task).trials)
for _ in range(1000):  # short searches, so that there are final measurements
    known += 5
    policy = tune.RandomPolicy(task, rng)
    tune.run(task, policy, trials=known, batch=5, log={log!r}, measurer=Noisy(), rng=rng)
"""


@pytest.mark.slow
def test_a_search_that_is_killed_ten_times_and_resumed_applies_its_best(tmp_path: Path) -> None:
    made = auto_scheduler.SearchTask("GMM", (1, 8, 24, 12), target=ONE)
    log = tune.Log(tmp_path / "log")
    for _ in range(10):
        before = log.path.stat().st_size if log.path.exists() else 0
        code = KILLED.format(target=ONE, log=str(log.path))
        with subprocess.Popen([sys.executable, "-W", "ignore", "-c", code]) as process:
            while not log.path.exists() or log.path.stat().st_size < before + 40_000:
                assert process.poll() is None
                time.sleep(0.002)
            process.kill()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last line may have no end
            best = tune.best(log.records(), made.key, made.target)
            applied = made.apply_best(log.path)[0]
        assert best is not None
        wanted = tune.replay(best, made)
        if best.default_is_faster:
            wanted = topi.schedule(made.outputs, made.target)
        assert applied.to_json() == wanted.to_json()


# --- models --------------------------------------------------------------------------------------


def test_a_model_is_saved_and_loaded(tmp_path: Path) -> None:
    made, model = task(), auto_scheduler.XGBModel(seed=0)
    log = log_of(tmp_path / "log", *(record(made, n, (1 + n) * 1e-3) for n in range(10)))
    model.update_from_file(log)
    first, _, _ = auto_scheduler.SketchPolicy(made, model, seed=0).policy(None)
    assert isinstance(first, tune.GuidedPolicy)
    assert len(first.trials) == 10
    model.save(tmp_path / "model")

    loaded = auto_scheduler.XGBModel()
    loaded.load(tmp_path / "model")
    second, _, _ = auto_scheduler.SketchPolicy(made, loaded).policy(None)
    assert isinstance(second, tune.GuidedPolicy)
    known, _ = first.samples()
    saved = tune.load_trees(tmp_path / "model")
    np.testing.assert_array_equal(second.model.predict(known), saved.predict(known))


def test_a_model_that_no_search_has_used_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no search has trained it"):
        auto_scheduler.XGBModel().save(tmp_path / "model")


class Template(tune.Sketch):
    """A sketch whose loops are known only after a call."""

    @property
    def traced(self) -> bool:
        return False


def test_models_of_tasks_without_loop_features_start_and_are_not_saved(tmp_path: Path) -> None:
    saved, made, rng = auto_scheduler.XGBModel(seed=1), task(), np.random.default_rng(0)
    first = saved.policy(made, rng)
    assert isinstance(first.model, tune.ResidualModel)
    assert first.model.seed == 1
    first.learn(
        [tune.Trial(c, tune.Result((1e-3 * n,))) for n, c in enumerate(first.propose(9), 1)]
    )
    saved.save(tmp_path / "model")

    loaded = auto_scheduler.XGBModel()
    loaded.load(tmp_path / "model")
    x = made.sketches[0]
    other = Template(x.name, x.args, x.initial, x.steps, x.parameters, x.space)
    second = loaded.policy(tune.Task("t", (), made.target, made.args, 1.0, (other,)), rng)
    assert second.columns.analytic is None
    second.learn([tune.Trial(c, tune.Result((1e-3,))) for c in second.propose(2)])
    with pytest.raises(ArgumentError, match="without the columns of a CPU's analytic model"):
        loaded.save(tmp_path / "model")


# --- nonsense ------------------------------------------------------------------------------------


def test_options_that_make_no_sense_are_refused() -> None:
    record_to_file = auto_scheduler.RecordToFile()
    for options in (
        {"num_measure_trials": 0},
        {"num_measures_per_round": 1.5},
        {"early_stopping": "soon"},
        {"measure_callbacks": [print]},
        {"measure_callbacks": [record_to_file, record_to_file]},
        {"builder": "rpc"},
        {"runner": 3},
    ):
        with pytest.raises(ArgumentError):
            auto_scheduler.TuningOptions(**options)
    with pytest.raises(ArgumentError, match="there is no such input"):
        task(task_inputs={"E": np.zeros(3)})
    with pytest.raises(ArgumentError, match="there is no such file"):
        auto_scheduler.XGBModel().update_from_file("missing.json")
    with pytest.raises(ArgumentError, match="expected XGBModel or RandomModel"):
        auto_scheduler.SketchPolicy(task(), "xgb")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="print_mode 'cuda'"):
        task().print_best("log", print_mode="cuda")  # type: ignore[arg-type]


def test_a_local_context_has_a_runner() -> None:
    context = auto_scheduler.LocalRPCMeasureContext(repeat=2, min_repeat_ms=30, timeout=5)
    measure = auto_scheduler.TuningOptions(runner=context.runner).measure
    assert (measure.repeat, measure.min_repeat_ms, measure.run_seconds) == (2, 30, 5)


def test_formulas_with_other_ranges_types_or_constants_have_other_keys() -> None:
    def key(terms: int = 8, dtype: str = "float32", constant: bool = False) -> str:
        a = te.placeholder((4, 16), dtype, name="A", constant=constant)
        k = te.reduce_axis((0, terms), "k")
        b = te.compute((4,), lambda i: te.sum(a[i, k], k), name="B")
        return auto_scheduler.ComputeDAG([a, b]).workload_key()

    assert key() == key()
    assert len({key(), key(terms=16), key(dtype="float64"), key(constant=True)}) == 4
