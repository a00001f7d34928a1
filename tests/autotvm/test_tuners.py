"""Tuners: what they propose, what they learn, and which of TVM's faults they do not have."""

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import autotvm, driver, te, topi, tune
from minitvm.autotvm import space
from minitvm.autotvm.annealing import Annealing, anneal
from minitvm.autotvm.columns import columns_of
from minitvm.autotvm.recognise import recognised
from minitvm.autotvm.space import shuffled
from minitvm.autotvm.tuner import (
    GATuner,
    GridSearchTuner,
    GuidedTuner,
    RandomTuner,
    XGBTuner,
)
from minitvm.base import ArgumentError

TUNERS = (RandomTuner, GridSearchTuner, GATuner, XGBTuner, GuidedTuner)


def seconds(cfg: autotvm.ConfigEntity) -> float:
    """The fastest configuration has tiles of 4 x 8, and vectors."""
    far = abs(cfg["tile_y"].size[-1] - 4) + abs(cfg["tile_x"].size[-1] - 8)
    slower = 1 if cfg["vector"].val else 2
    return 1e-3 * (1 + far / 4 + cfg["unroll"].val / 64) * slower


@pytest.mark.parametrize("tuner", TUNERS)
def test_no_configuration_is_measured_twice(tuner: Any, matmul: Any, pretended: Any) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    options = {"feature_type": "knob", "plan_size": 16} if tuner is XGBTuner else {}
    found = tuner(task, rng=np.random.default_rng(1), **options)
    outcome = found.tune(60, measurer=pretended(task, seconds))
    assert len({t.candidate for t in outcome.trials}) == 60


def test_a_model_finds_faster_configurations_than_chance(matmul: Any, pretended: Any) -> None:
    task = autotvm.task.create("test/matmul", (64,))
    sizes = np.array([len(g) for g in task.config_space.space.knobs])

    def bowl(cfg: autotvm.ConfigEntity) -> float:
        at = np.array(task.config_space.row(cfg)) / (sizes - 1)
        return 1e-3 * (1 + float(np.sum((at - [0.3, 0.7, 0.5, 0.5, 1.0, 0.0]) ** 2)))

    def excess(tuner: Any) -> float:
        return tuner.tune(96, measurer=pretended(task, bowl)).best.seconds - 1e-3

    chance = [excess(RandomTuner(task, rng=np.random.default_rng(n))) for n in range(3)]
    learned = [
        excess(XGBTuner(task, plan_size=16, feature_type="knob", rng=np.random.default_rng(n)))
        for n in range(3)
    ]
    assert np.median(learned) < 0.5 * np.median(chance)


def test_random_numbers_are_drawn_in_constant_time_and_once(monkeypatch) -> None:
    monkeypatch.setattr(space, "PERMUTED", 1000)
    for count in (1000, 1001, 5000):
        assert sorted(shuffled(count, np.random.default_rng(3))) == list(range(count))
    many = shuffled(1 << 80, np.random.default_rng(3))
    begin = time.process_time()
    assert len({next(many) for _ in range(5_000)}) == 5_000
    assert time.process_time() - begin < 5  # a list of visited numbers takes minutes


def test_annealing_keeps_negative_scores() -> None:
    space = tune.Space((tune.number_knob("g", range(3)),))
    scores, none = np.array([-3.0, -1.0, -2.0]), np.zeros(0, np.uint64)
    rng = np.random.default_rng(4)
    best, _ = anneal(space, lambda rows: scores[rows[:, 0]], rng, count=2, known=none)
    assert best.rows.tolist() == [[1], [2]]


def test_annealing_finds_the_best_rows_that_are_not_known() -> None:
    space = tune.Space(tuple(tune.number_knob(f"g{n}", range(8)) for n in range(3)))
    top = np.array([[7, 7, 7]], np.int32)
    best, _ = anneal(
        space,
        lambda rows: rows.sum(axis=1).astype(float),
        np.random.default_rng(4),
        count=3,
        known=space.keys(top),
    )
    assert best.scores.tolist() == [20.0, 20.0, 20.0]


def test_diversity_weighs_options_against_real_scores() -> None:
    scored = [
        tune.Scored(s, tune.Candidate(0, r))
        for s, r in ((1.0, (0, 0)), (0.9, (0, 1)), (0.2, (1, 1)))
    ]
    assert [s.score for s in tune.diverse(scored, 2, 0.05)] == [1.0, 0.9]
    assert [s.score for s in tune.diverse(scored, 2, 1.0)] == [1.0, 0.2]


def test_the_same_call_resumes(matmul: Any, pretended: Any, tmp_path: Path) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    log = [autotvm.callback.log_to_file(tmp_path / "log")]
    RandomTuner(task).tune(12, callbacks=log, measurer=pretended(task, seconds))
    outcome = GATuner(task).tune(20, callbacks=log, measurer=pretended(task, seconds))
    assert (outcome.earlier, len({t.candidate for t in outcome.trials})) == (12, 20)


def test_callbacks_see_tvms_errors(matmul: Any, pretended: Any) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    seen = list[int]()
    broken = pretended(task, lambda cfg: 0.0 if cfg["vector"].val else 1e-3)

    def callback(tuner: Any, inputs: Any, results: Any) -> None:
        seen.append(results[0].error_no)

    RandomTuner(task, rng=np.random.default_rng(5)).tune(30, callbacks=[callback], measurer=broken)
    assert set(seen) == {0, autotvm.MeasureErrorNo.RUNTIME_DEVICE}


def test_a_log_gives_its_measurements_back(matmul: Any, pretended: Any, tmp_path: Path) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    path = tmp_path / "log"
    tuner = RandomTuner(task)
    log = [autotvm.callback.log_to_file(path)]
    tuner.tune(12, callbacks=log, measurer=pretended(task, seconds))
    records = list(autotvm.record.load_from_file(path))
    given, result = records[0]
    again = autotvm.record.decode(autotvm.record.encode(given, result))
    assert again is not None
    assert again[0].config == given.config
    assert again[1].costs == result.costs
    autotvm.record.pick_best(path, tmp_path / "best")
    ((best, _),) = autotvm.record.load_from_file(tmp_path / "best")
    assert best.config == tuner.best_config
    with autotvm.apply_history_best(tmp_path / "best"):
        assert matmul(16)[0].steps == task.instantiate(best.config)[0].steps
    other = XGBTuner(autotvm.task.create("test/matmul", (32,)))
    other.load_history(records, min_seed_records=8)
    assert len(other.propose(4)) == 4


def test_a_log_is_split_into_one_for_each_workload(
    matmul: Any, pretended: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    for size in (16, 8):
        task = autotvm.task.create("test/matmul", (size,))
        log = [autotvm.callback.log_to_file(path)]
        RandomTuner(task).tune(4, callbacks=log, measurer=pretended(task, seconds))
    twice = [*path.read_text().splitlines(), *path.read_text().splitlines()]
    path.write_text("\n".join(twice))
    autotvm.record.split_workload(path)
    for n, size in enumerate((16, 8)):
        records = tune.Log(f"{path}.{n:03d}.wkl").records()
        assert [r.task for r in records] == [f'["test/matmul", {size}]'] * 4
    autotvm.record.split_workload(path, clean=False)
    assert len(tune.Log(f"{path}.000.wkl").records()) > 4


def test_the_configurations_of_a_log_are_given_one_after_the_other(
    matmul: Any, pretended: Any, tmp_path: Path
) -> None:
    for size in (16, 8):
        task = autotvm.task.create("test/matmul", (size,))
        log = [autotvm.callback.log_to_file(tmp_path / "log")]
        RandomTuner(task).tune(4, callbacks=log, measurer=pretended(task, seconds))
    autotvm.record.pick_best(tmp_path / "log", tmp_path / "best")
    measured = list(autotvm.record.load_from_file(tmp_path / "best"))
    expected = [i.task.instantiate(i.config)[0].steps for i, _ in measured]
    with autotvm.ApplyGraphBest(tmp_path / "best"):
        assert [matmul(16)[0].steps, matmul(8)[0].steps] == expected
        assert matmul(16)[0].steps == expected[0]  # as before
    with (
        autotvm.ApplyGraphBest(measured),
        pytest.raises(ArgumentError, match="the next record is"),
    ):
        matmul(8)


def test_the_innermost_context_is_current(matmul: Any) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    cfg, workload = task.config_space.get(3), ("test/matmul", 16)
    empty = autotvm.ApplyHistoryBest()
    with autotvm.ApplyConfig(cfg), empty:
        assert autotvm.DispatchContext.current is empty
        assert empty.query(task.target, workload) is cfg  # of the context outside
    assert isinstance(autotvm.DispatchContext.current, autotvm.FallbackContext)


def test_rank_binary_tells_only_fast_from_slow(matmul: Any, pretended: Any) -> None:
    task = autotvm.task.create("test/matmul", (16,))

    def taught(sign: int) -> XGBTuner:
        """A tuner that has seen times of which the slow ones are in the order of `sign`."""
        tuner = XGBTuner(task, 16, "knob", "rank-binary", rng=np.random.default_rng(0))

        def changed(cfg: autotvm.ConfigEntity) -> float:
            return 8e-3 + sign * seconds(cfg) / 8 if seconds(cfg) > 4e-3 else seconds(cfg)

        tuner.tune(32, measurer=pretended(task, changed))
        return tuner

    rows = task.config_space.space.sample(np.random.default_rng(1), 50)
    np.testing.assert_array_equal(taught(1).score(rows), taught(-1).score(rows))


def test_annealing_reports_to_tvms_logger(matmul: Any, pretended: Any, caplog: Any) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    tuner = XGBTuner(
        task, 16, "knob", num_threads=2, optimizer=Annealing(steps=32), log_interval=16
    )
    with caplog.at_level("DEBUG", logger="autotvm"):
        tuner.tune(20, measurer=pretended(task, seconds))
    assert [m.split(",")[0] for m in caplog.messages] == ["annealing: step 0", "annealing: step 16"]


def test_the_features_of_a_history_are_computed_in_batches(
    matmul: Any, pretended: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, path = autotvm.task.create("test/matmul", (16,)), tmp_path / "log"
    log = [autotvm.callback.log_to_file(path)]
    RandomTuner(task).tune(24, callbacks=log, measurer=pretended(task, seconds))
    records = list(autotvm.record.load_from_file(path))
    batches = list[int]()

    def counted(task: autotvm.Task, kind: Any) -> tune.Columns:
        columns = columns_of(task, kind)

        def of(n: int, rows: tune.Rows) -> tune.Floats:
            batches.append(len(rows))
            return columns.of(n, rows)

        return tune.Columns(of, columns.names)

    monkeypatch.setattr("minitvm.autotvm.tuner.model.columns_of", counted)
    XGBTuner(autotvm.task.create("test/matmul", (32,))).load_history(records, 8)
    assert sum(batches) == len(records)
    assert len(batches) <= len(task.sketches)


def test_a_tuner_may_have_features_of_its_own(matmul: Any, pretended: Any) -> None:
    class TwoColumns(XGBTuner):
        def features(self, rows: tune.Rows) -> tune.Floats:
            return super().features(rows)[:, :2]

    task = autotvm.task.create("test/matmul", (16,))
    assert len(columns_of(task, "itervar").names) > 2
    tuner = TwoColumns(task, plan_size=16, rng=np.random.default_rng(0))
    assert len(tuner.tune(40, measurer=pretended(task, seconds)).trials) == 40
    assert tuner.fitted == 32


@pytest.mark.parametrize("constant", [False, True])
def test_a_tuned_product_has_any_elementwise_stage_after_it(
    constant: bool, pretended: Any, tmp_path: Path
) -> None:
    task, path = autotvm.task_for("matmul", (32, 32, 32)), tmp_path / "log"
    fast = pretended(task, lambda cfg: 1e-3 * cfg["columns"].val + 1e-4 * (not cfg["pack"].val))
    log = [autotvm.callback.log_to_file(path)]
    RandomTuner(task, rng=np.random.default_rng(6)).tune(24, callbacks=log, measurer=fast)
    A, R = (te.placeholder((32, 32), name=n) for n in "AR")
    B = te.placeholder((32, 32), name="B", constant=constant)
    bias = te.placeholder((32,), name="bias")
    C = topi.relu(topi.add(topi.add(topi.matmul(A, B), bias), R))
    with autotvm.apply_history_best(path):
        s = topi.schedule(C)
    assert s.steps != topi.schedule(C).steps
    a, b, r = np.random.default_rng(7).standard_normal((3, 32, 32)).astype("float32")
    v, c = np.ones(32, "float32"), np.empty((32, 32), "float32")
    driver.build(s, [A, B, bias, R, C])(a, b, v, r, c)
    np.testing.assert_allclose(c, np.maximum(a @ b + v + r, 0), rtol=1e-4, atol=1e-4)


def test_a_workload_that_is_not_tuned_is_mentioned_once(matmul: Any) -> None:
    with pytest.warns(autotvm.FallbackWarning, match="not tuned"):
        matmul(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matmul(8)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda t: RandomTuner(t).tune(0), "trials is 0"),
        (lambda t: XGBTuner(t, feature_type="tree"), "feature_type"),
        (lambda t: XGBTuner(t, loss_type="mse"), "loss"),
        (lambda t: XGBTuner(t, optimizer="adam"), "no such optimizer"),
        (lambda t: XGBTuner(t, num_threads=-1), "at least 1"),
        (lambda t: XGBTuner(t, log_interval=0), "at least 1"),
        (lambda t: autotvm.record.decode("", "pickle"), "a line of a log is JSON"),
        (lambda t: autotvm.record.split_workload("nothing.log"), "no such file"),
        (lambda t: autotvm.apply_history_best("/nowhere/log"), "no file"),
        (lambda t: autotvm.measure_option(builder="ndk"), "this machine"),
    ],
)
def test_wrong_options_are_refused(matmul: Any, call: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        call(autotvm.task.create("test/matmul", (8,)))


def conv(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.conv2d(x, w, 1, 1, layout="NHWC")


def depthwise(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.depthwise_conv2d(x, w, 1, 1, layout="NHWC")


@pytest.mark.parametrize(
    ("name", "shape", "network"),
    [
        ("sum_rows", (6, 100), lambda x: topi.mean(x, axis=1)),
        ("softmax", (6, 100), lambda x: topi.relu(topi.softmax(x))),
        ("depthwise_nhwc", (1, 9, 8, 24, 3, 1, 1), lambda x, w: topi.relu(depthwise(x, w))),
        ("conv2d_nhwc", (1, 9, 8, 24, 16, 3, 1, 1), lambda x, w: topi.relu(conv(x, w))),
    ],
)
def test_a_tuned_operator_is_used_inside_a_network(
    name: str, shape: Any, network: Any, pretended: Any, tmp_path: Path
) -> None:
    task, path = autotvm.task_for(name, shape), tmp_path / "log"
    log = [autotvm.callback.log_to_file(path)]
    measurer = pretended(task, lambda cfg: 1e-3 + 1e-6 * cfg.index)
    RandomTuner(task, rng=np.random.default_rng(6)).tune(12, callbacks=log, measurer=measurer)
    inputs = [a for a in task.args if isinstance(a.op, te.PlaceholderOp)]
    out = network(*inputs)
    with autotvm.apply_history_best(path):
        s = topi.schedule(out)
    assert s.steps != topi.schedule(out).steps
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal(a.shape).astype("float32") for a in inputs]  # type: ignore[arg-type]
    wanted, found = (np.empty(out.shape, "float32") for _ in range(2))  # type: ignore[arg-type]
    driver.build(topi.schedule(out), [*inputs, out])(*arrays, wanted)
    driver.build(s, [*inputs, out])(*arrays, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    measurer.reference_cost = 1e-4  # the default wins the final measurement
    path.unlink()
    RandomTuner(task, rng=np.random.default_rng(6)).tune(12, callbacks=log, measurer=measurer)
    with autotvm.apply_history_best(path):
        kept = topi.schedule(out)
    assert kept.steps == topi.schedule(out).steps


@pytest.mark.parametrize(
    "network",
    [
        lambda x, w: topi.sum(x, axis=0),
        lambda x, w: topi.sum(topi.relu(x), axis=1),
        lambda x, w: topi.max(x, axis=1),
        lambda x, w: topi.softmax(x, axis=0),
        lambda x, w: topi.softmax(topi.relu(x)),
        lambda x, w: topi.log_softmax(x),
        lambda x, w: topi.layer_norm(x),
        lambda x, w: topi.softmax(topi.transpose(x)),
        lambda x, w: conv(topi.reshape(x, (1, 4, 4, 8)), w),
        lambda x, w: topi.nn.max_pool2d(topi.reshape(x, (1, 4, 4, 8)), 2, 2, layout="NHWC"),
        lambda x, w: depthwise(topi.reshape(x, (1, 4, 4, 8)), w),
    ],
)
def test_other_formulas_are_not_taken_for_an_operator(network: Any) -> None:
    x = te.placeholder((8, 16), name="x")
    w = te.placeholder((3, 3, 8, 1), name="w", constant=True)
    assert recognised([network(x, w)]) is None


def test_other_types_are_not_taken_for_float32() -> None:
    x = te.placeholder((8, 16), "float64", name="x")
    image = te.placeholder((1, 8, 8, 16), "float64", name="image")
    w = te.placeholder((3, 3, 16, 8), "float64", name="w", constant=True)
    for out in (topi.sum(x, axis=1), topi.softmax(x), conv(image, w)):
        assert recognised([out]) is None


def test_lines_that_cannot_be_used_are_counted(matmul: Any, pretended: Any, tmp_path: Path) -> None:
    task, path = autotvm.task.create("test/matmul", (16,)), tmp_path / "log"
    log = [autotvm.callback.log_to_file(path)]
    RandomTuner(task).tune(9, callbacks=log, measurer=pretended(task, seconds))
    lines = path.read_text().splitlines()
    good = [json.loads(line) for line in lines]
    strange = [
        good[0] | {"version": 0},
        good[0] | {"sketch": "test/matmul@00000000.0"},
        good[0] | {"values": good[0]["values"] | {"unroll": 5}},
    ]
    text = "\n".join([*lines, *map(json.dumps, strange), lines[0][:50]])
    path.write_text(text)
    with pytest.warns(UserWarning, match="skipped in log") as told:
        records = list(autotvm.record.load_from_file(path))
    assert len(records) == len(lines)
    (message,) = (str(w.message) for w in told if "skipped in log" in str(w.message))
    for reason in ("of another version", "version of a template", "another space", "broken lines"):
        assert reason in message
    other = XGBTuner(autotvm.task_for("matmul", (32, 32, 32)))
    with pytest.warns(UserWarning, match="only 0 records of matmul") as told:
        other.load_history(records)
    assert "records of other templates are ignored: ['test/matmul']" in str(told[0].message)


def test_a_fallback_takes_the_options_of_a_similar_workload(
    matmul: Any, pretended: Any, tmp_path: Path
) -> None:
    task, path = autotvm.task.create("test/matmul", (48,)), tmp_path / "log"
    log = [autotvm.callback.log_to_file(path)]
    RandomTuner(task, np.random.default_rng(3)).tune(
        40, callbacks=log, measurer=pretended(task, seconds)
    )
    records = list(autotvm.record.load_from_file(path))
    cfg = autotvm.FallbackConfigEntity()
    autotvm.find_template("test/matmul").instantiate(cfg, (32,))
    cfg.fallback_with_reference_log(records)
    knobs = autotvm.task.create("test/matmul", (32,)).config_space.space_map
    fits = [sum(i.config[n] in k.entities for n, k in knobs.items()) for i, _ in records]
    best = min((-fits[n], r.costs[0], n) for n, (_, r) in enumerate(records))[2]
    given = records[best][0].config
    assert cfg["vector"] == given["vector"]
    assert cfg["unroll"] == given["unroll"]
    for name in ("tile_y", "tile_x"):
        assert 32 % cfg[name].size[-1] == 0
        assert cfg[name].size[-1] <= given[name].size[-1]
    with pytest.raises(ArgumentError, match="no measurement in it"):
        cfg.fallback_with_reference_log([])


def test_the_help_of_a_knob_lists_its_policies() -> None:
    for define, words in (
        (
            autotvm.ConfigSpace.define_split,
            ("factors", "power2", "verbose", "candidate", "no_tail"),
        ),
        (autotvm.ConfigSpace.define_reorder, ("identity", "all", "interval_all", "interleave")),
        (autotvm.ConfigSpace.define_annotate, ("try_unroll_vec", "locate_cache", "num_anchor")),
    ):
        assert all(word in (define.__doc__ or "") for word in (*words, "cfg."))
