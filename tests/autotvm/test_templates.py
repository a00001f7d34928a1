"""Templates become sketches whose rows have the steps that the template takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import autotvm, driver, schedule, te, topi
from minitvm.base import ArgumentError, Target
from minitvm.tune import CalledSketch

OPERATORS = [
    ("matmul", (24, 40, 20)),
    ("dense", (24, 40, 20)),
    ("conv2d_nhwc", (1, 8, 9, 24, 40, 3, 1, 1)),
    ("conv2d_nchwc", (1, 8, 9, 32, 32, 3, 2, 1)),
    ("depthwise_nhwc", (1, 9, 8, 24, 3, 1, 1)),
    ("sum_rows", (6, 100)),
    ("softmax", (6, 100)),
]


def rows(task: autotvm.Task, count: int) -> list[tuple[int, ...]]:
    return [
        tuple(r) for r in task.config_space.space.sample(np.random.default_rng(1), count).tolist()
    ]


def test_a_row_has_the_steps_of_the_template(matmul: autotvm.Template) -> None:
    task = autotvm.task.create("test/matmul", (48,))
    assert all(s.traced for s in task.sketches)
    assert len(task.sketches) == 4  # two orders, with and without vectors
    for row in rows(task, 40):
        cfg = task.config_space.entity(row)
        candidate = task.candidate(cfg)
        assert task.config(candidate) == cfg
        assert (
            task.sketches[candidate.sketch].filled(candidate.row) == task.instantiate(cfg)[0].steps
        )


@pytest.mark.parametrize(("name", "shape"), OPERATORS)
def test_a_tuned_operator_computes_what_the_default_does(name: str, shape: Any) -> None:
    task = autotvm.task_for(name, shape, "llvm -num-cores=2")
    assert all(s.traced for s in task.sketches)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(a.shape).astype("float32") for a in task.args]  # type: ignore[arg-type]
    wanted = np.empty_like(arrays[-1])
    driver.build(task.default())(*arrays[:-1], wanted)
    for row in rows(task, 4):
        candidate = task.candidate(task.config_space.entity(row))
        steps = task.instantiate(task.config(candidate))[0].steps
        assert task.sketches[candidate.sketch].filled(candidate.row) == steps
        found = np.full_like(wanted, 7)
        driver.build(task.lowered(candidate))(*arrays[:-1], found)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_product_is_tuned_on_the_simulated_gpu(tmp_path: Path) -> None:
    """Its knobs are the tiles of topi's schedule, which is one of the configurations."""
    log, target = tmp_path / "matmul.log", Target("cuda -sim")
    task = autotvm.task_for("matmul", (40, 48, 20), target)
    assert [*task.config_space.space_map] == ["block", "each", "depth", "double"]
    default = topi.schedule(task.outputs, target).steps
    configs = [task.config_space.get(n) for n in range(len(task.config_space))]
    (same,) = [c for c in configs if task.instantiate(c)[0].steps == default]
    chosen = {name: e.json for name, e in same.chosen.items()}
    assert chosen == {"block": 32, "each": 4, "depth": 8, "double": False}
    callbacks = [autotvm.callback.log_to_file(log)]
    tuner = autotvm.tuner.RandomTuner(task, np.random.default_rng(0))
    outcome = tuner.tune(n_trial=8, callbacks=callbacks)
    assert {t.result.error for t in outcome.trials} <= {"", "lower"}
    assert outcome.best.cost == min(t.cost for t in outcome.trials if not t.result.error)
    with autotvm.apply_history_best(log):
        tuned = topi.schedule(task.outputs, target)
    if not outcome.compared or outcome.compared.is_faster:
        assert tuned.steps == task.instantiate(task.config(outcome.best.candidate))[0].steps


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2"])
@pytest.mark.parametrize(("name", "shape"), OPERATORS)
def test_the_default_schedule_is_a_configuration(name: str, shape: Any, target: str) -> None:
    task, seen = autotvm.task_for(name, shape, target), list[topi.Options]()

    def known(options: topi.Options) -> Any:
        seen.append(options)
        return options.known

    default = topi.schedule(task.outputs, Target(target), choose=known).steps
    ((options, fields),) = [(o, o.fields.items()) for o in seen]
    row = [values.index(getattr(options.known, field)) for field, values in fields]
    assert task.instantiate(task.config_space.entity(row))[0].steps == default


def test_an_operator_that_is_not_tuned_gets_the_default_schedule() -> None:
    task = autotvm.task_for("dense", (24, 40, 20))
    with pytest.warns(autotvm.FallbackWarning), task.target:
        s, _ = task.template(24, 40, 20)
    assert s.steps == topi.schedule(task.outputs, task.target).steps


def test_a_template_that_packs_in_its_formula_has_a_formula_for_each_width() -> None:
    @autotvm.template("test/packed")
    def packed(n: int) -> Any:
        cfg = autotvm.get_config()
        cfg.define_knob("bn", [4, 8, 16])
        cfg.define_split("rows", n)
        bn = cfg["bn"].val
        A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
        P = te.compute((n // bn, n, bn), lambda j, k, x: B[k, j * bn + x], name="P")
        k = te.reduce_axis((0, n), "k")
        C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * P[j // bn, k, j % bn], k), name="C")
        s = te.create_schedule(C.op)
        cfg["rows"].apply(s, C, C.op.axis[0])
        return s, [A, B, C]

    task = autotvm.task.create("test/packed", (32,))
    assert len(task.sketches) == 3
    a, b = np.random.default_rng(3).standard_normal((2, 32, 32)).astype("float32")
    for sketch in range(3):
        c = np.empty((32, 32), "float32")
        candidate = task.candidate(task.config_space.get(sketch))
        driver.build(task.lowered(candidate))(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_a_template_whose_numbers_are_no_products_is_called() -> None:
    @autotvm.template("test/called")
    def called(n: int) -> Any:
        A = te.placeholder((n,), name="A")
        C = te.compute((n,), lambda i: A[i] + 1, name="C")
        s, cfg = te.create_schedule(C.op), autotvm.get_config()
        cfg.define_knob("f", list(range(1, 12)))
        s[C].split(C.op.axis[0], factor=cfg["f"].val ** 2 + 1)
        if cfg["f"].val == 3:
            cfg.raise_error("three is not wanted")
        return s, [A, C]

    task = autotvm.task.create("test/called", (64,))
    assert all(isinstance(s, CalledSketch) for s in task.sketches)
    (step,) = task.instantiate(task.config_space.get(4))[0].steps
    assert isinstance(step, schedule.Split)
    assert step.factor == 26
    task.lowered(task.candidate(task.config_space.get(4)))
    with pytest.raises(autotvm.InstantiationError, match="three is not wanted"):
        task.lowered(task.candidate(task.config_space.get(2)))


def test_a_template_without_knobs_is_refused() -> None:
    @autotvm.template("test/none")
    def none(n: int) -> Any:
        A = te.placeholder((n,), name="A")
        C = te.compute((n,), lambda i: A[i] + 1, name="C")
        return te.create_schedule(C.op), [A, C]

    with pytest.raises(ArgumentError, match="no knob"):
        autotvm.task.create("test/none", (8,))


def test_a_filter_that_rejects_everything_is_refused() -> None:
    @autotvm.template("test/empty")
    def empty(n: int) -> Any:
        C = topi.relu(te.placeholder((n,), name="A"))
        cfg = autotvm.get_config()
        cfg.define_knob("k", [1, 2])
        cfg.multi_filter(lambda c: False)
        return te.create_schedule(C.op), [C]

    with pytest.raises(ArgumentError, match="rejects all"):
        autotvm.task.create("test/empty", (8,))


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: autotvm.task.create("test/unknown", ()), "no such template"),
        (lambda: autotvm.task_for("lstm", (8,)), "no template"),
        (lambda: autotvm.task_for("matmul", (8, 8)), "m, n, k"),
        (lambda: autotvm.task.create("test/matmul", (object(),)), "argument"),
    ],
)
def test_a_task_that_cannot_be_is_refused(matmul: Any, call: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        call()


def test_a_configuration_of_an_older_template_is_refused(matmul: autotvm.Template) -> None:
    task = autotvm.task.create("test/matmul", (16,))
    cfg = task.config_space.get(3)
    cfg.code_hash = "00000000"
    with pytest.raises(ArgumentError, match="another version"):
        task.instantiate(cfg)


def test_arguments_become_json_values() -> None:
    t = te.placeholder((4, 8), "int8", name="t")
    assert autotvm.args_to_workload([t, 3, (1, 2)]) == (("TENSOR", (4, 8), "int8"), 3, (1, 2))


def test_a_templates_target_is_the_current_one() -> None:
    seen = list[Target]()

    @autotvm.template("test/target")
    def made(n: int) -> Any:
        seen.append(Target.current())
        A = te.placeholder((n,), name="A")
        C = te.compute((n,), lambda i: A[i] + 1, name="C")
        s = te.create_schedule(C.op)
        autotvm.get_config().define_knob("k", [1, 2])
        return s, [A, C]

    autotvm.task.create("test/target", (8,), "llvm -num-cores=1")
    assert {str(t) for t in seen} == {"llvm -num-cores=1"}


# --- the source of a template --------------------------------------------------------------------


def without_source(code: str) -> autotvm.Template:
    """Return a template that is made from text, as at a prompt, so its source is not known."""
    names: dict[str, Any] = {}
    exec(code, names)
    return autotvm.template("test/typed")(names["f"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f = lambda i: i + 1", "f = lambda i: i + 2"),
        ("f = lambda A: A.min()", "f = lambda A: A.max()"),
        ("f = lambda i, n=1: i + n", "f = lambda i, n=2: i + n"),
        ("f = lambda i, *, n=1: i + n", "f = lambda i, *, n=2: i + n"),
        ("f = (lambda n: lambda i: i + n)(1)", "f = (lambda n: lambda i: i + n)(2)"),
        ("f = lambda i: (lambda: i + 1)", "f = lambda i: (lambda: i + 2)"),
        ("f = lambda i: i in {1, 2}", "f = lambda i: i in {1, 3}"),
    ],
)
def test_functions_without_source_differ_by_what_they_compute(one: str, other: str) -> None:
    assert without_source(one).code_hash != without_source(other).code_hash
    assert without_source(one).code_hash == without_source(one).code_hash


def test_functions_of_the_same_source_differ_by_the_values_around_them() -> None:
    def scaled(n: int) -> autotvm.Template:
        return autotvm.template("test/scaled")(lambda i: i + n)

    assert scaled(1).code_hash != scaled(2).code_hash
    assert scaled(1).code_hash == scaled(1).code_hash
