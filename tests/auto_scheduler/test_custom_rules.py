"""Sketch rules of users, under TVM's names and as a Rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te
from minitvm.auto_scheduler import RULES, LoopState, PreloadCustomSketchRule, Rule, State
from minitvm.base import ArgumentError, Target
from tests.auto_scheduler.programs import args_of, arrays, matmul

TWO = Target("llvm -num-cores=2 -unroll=0")


def task(relu: bool = True, **options: Any) -> auto_scheduler.SearchTask:
    dag = auto_scheduler.ComputeDAG(args_of(matmul(relu)))
    return auto_scheduler.SearchTask(compute_dag=dag, target=TWO, **options)


def check(made: auto_scheduler.SearchTask, most: int = 6) -> None:
    """Random programs of all sketches compute the formula."""
    rng = np.random.default_rng(0)
    values = arrays(made.args, rng)
    expected = [*values[:-1], values[-1].copy()]
    driver.build(te.create_schedule(made.args[-1].op), made.args)(*expected)
    for sketch in made.sketches[:most]:
        (row,) = sketch.space.sample(rng, 1).tolist()
        values[-1][...] = np.nan
        driver.build(sketch.scheduled(row), made.args, target=Target("python"))(*values)
        np.testing.assert_allclose(values[-1], expected[-1], rtol=1e-4, atol=1e-4)


# --- in TVM's way ---------------------------------------------------------------------------------


def is_product(policy: Any, state: LoopState, stage_id: int) -> int:
    if state.stages[stage_id].name == "C":
        return PreloadCustomSketchRule.APPLY_AND_SKIP_REST
    return PreloadCustomSketchRule.PASS


def two_levels(policy: Any, state: LoopState, stage_id: int) -> list[list[Any]]:
    s0 = auto_scheduler.loop_state.State(state, policy.search_task.compute_dag)
    product, relu = s0.stage_ops[stage_id], s0.stage_ops[stage_id + 1]
    i, j, k = s0[product].iters
    m, n = s0[relu].iters
    i0, i1, i2 = s0.split(product, i, [None, None])
    m0, m1 = s0.follow_split(relu, m, len(s0.transform_steps) - 1, 1)
    j0, j1 = s0.split(product, j, [None])
    n0, n1 = s0.follow_split(relu, n, len(s0.transform_steps) - 1, 1)
    s0.reorder(product, [i0, j0, k, i1, i2, j1])
    s0.reorder(relu, [m0, n0, m1, n1])
    s0.compute_at(product, relu, n0)
    return [[s0.state_object, stage_id - 1]]


def policy(meets: Any, apply: Any) -> auto_scheduler.SketchPolicy:
    rule = PreloadCustomSketchRule(meets, apply, "two levels")
    return auto_scheduler.SketchPolicy(task(), seed=0, init_search_callbacks=[rule])


def test_a_rule_of_the_user_makes_sketches() -> None:
    made = policy(is_product, two_levels).search_task
    assert {s.rules for s in made.states} == {("two levels",)}
    assert [g.name for g in made.sketches[0].space.knobs[:2]] == ["split0_i", "split1_j"]
    assert str(made.states[0]).splitlines()[0] == "parallel i.0@j.0 in range(TILE_I0 * TILE_J0):"
    check(made)


def test_apply_leaves_the_other_rules_their_turn() -> None:
    def sometimes(policy: Any, state: LoopState, stage_id: int) -> int:
        return min(is_product(policy, state, stage_id), PreloadCustomSketchRule.APPLY)

    def wrapped(*given: Any) -> list[list[Any]]:
        return [[LoopState(state), after] for state, after in two_levels(*given)]

    names = {s.rules for s in policy(sometimes, wrapped).search_task.states}
    assert ("two levels",) in names
    assert {s.rules for s in task().states} <= names


def test_the_search_uses_the_sketches_of_the_rule(tmp_path: Path) -> None:
    log, chosen = tmp_path / "log", policy(is_product, two_levels)
    options = auto_scheduler.TuningOptions(
        2, verbose=0, measure_callbacks=[auto_scheduler.RecordToFile(log)]
    )
    outcome = task().tune(options, chosen)
    assert [t.result.error for t in outcome.trials] == ["", ""]
    best = auto_scheduler.load_best_record(log)
    assert best is not None
    assert "split0_i" in best.values
    task().apply_best(log)


def test_what_a_rule_returns_is_checked() -> None:
    for wrong in (
        None,
        [None],
        [[LoopState(State(task().compute_dag.initial))]],
        [["C", 1]],
        [[init(), 99]],
    ):
        with pytest.raises(ArgumentError, match="sketch rule 'two levels'"):
            policy(is_product, lambda policy, state, stage_id, wrong=wrong: wrong)


# --- as a Rule -----------------------------------------------------------------------------------


def reads_only(state: State, stage: str, target: Target) -> bool:
    return stage == "C"


def columns_first(state: State, stage: str, target: Target) -> Iterator[tuple[State, int]]:
    new = state.copy()
    i, j = new.s[stage].op.axis
    new.s[stage].reorder(j, i, *new.s[stage].op.reduce_axis)
    yield new, new.stages.index(stage) - 1


@pytest.mark.parametrize("what", ["state", "list of a state", "none", "no such stage"])
def test_what_the_effect_returns_is_checked(what: str) -> None:
    def effect(state: State, stage: str, target: Target) -> Any:
        results = {"state": state, "list of a state": [state], "no such stage": [(state, 99)]}
        return results.get(what)

    wrong = Rule("wrong", reads_only, effect)
    with pytest.raises(ArgumentError, match=r"(?s)sketch rule 'wrong'.*yield new, new.stages"):
        task(relu=False, rules=(wrong, *RULES)).sketches  # noqa: B018


def test_a_rule_is_a_condition_and_an_effect() -> None:
    own = Rule("columns first", reads_only, columns_first, exclusive=True)
    made = task(relu=False, rules=(own, *RULES))
    assert {s.rules for s in made.states} == {("columns first",)}
    check(made)


# --- states under TVM's names --------------------------------------------------------------------


def init() -> LoopState:
    return task().compute_dag.get_init_state()


def test_numbers_as_lengths_are_those_of_the_inner_loops() -> None:
    s0 = init()
    loops = s0.split("C", s0["C"].iters[0], [2, 3])
    s0.compute_root("C")
    assert str(s0).splitlines()[:3] == [
        "for i.0 in range(2):",
        "  for i.1.0 in range(2):",
        "    for i.1.1 in range(3):",
    ]
    assert len(loops) == 3


def test_a_state_has_the_steps_of_tvm() -> None:
    s0, dag = init(), task().compute_dag
    local = s0.cache_write("C", "local")
    copy = s0.cache_read("A", "global", [local])
    _, _, k = s0[local].iters
    k0, _ = s0.split(local, k, [4])
    partial = s0.rfactor(local, k0, 2)
    s0.compute_inline(copy)
    s0.vectorize("D", s0["D"].iters[1])
    s0.unroll("C", s0["C"].iters[1])
    s0.pragma("C", s0["C"].iters[0], "auto_unroll_max_step$16")
    s0.parallel("C", s0["C"].iters[0])
    assert s0[partial].name == "C.local.rf"
    assert len(s0.transform_steps) == 1
    text = str(s0)
    assert "C auto_unroll: 16" in text
    assert "vectorize j in range(48):" in text
    assert "parallel i in range(12):" in text
    assert len(auto_scheduler.ComputeDAG(task().args).ops) == len(dag.ops)


def test_a_state_is_a_copy() -> None:
    first = init()
    second = LoopState(first)
    second.fuse("D", second["D"].iters)
    assert len(first["D"].iters) == 2
    assert len(second["D"].iters) == 1
    assert str(second).splitlines()[-2] == "for i@j in range(576):"


def test_nonsense_is_refused() -> None:
    s0 = init()
    i = s0["C"].iters[0]
    with pytest.raises(ArgumentError, match="the state has no such stage"):
        s0["E"]
    for lengths in ([None, 2], [], 3):
        with pytest.raises(ArgumentError, match="split of C"):
            s0.split("C", i, lengths)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="step 3 is not a split"):
        s0.follow_split("D", s0["D"].iters[0], 3, 1)
    s0.split("C", i, [None])
    with pytest.raises(ArgumentError, match=r"split0_i are open\n.*program\(row\)"):
        task().compute_dag.apply_steps_from_state(s0)


def test_a_rule_that_repeats_itself_is_refused() -> None:
    def same(state: State, stage: str, target: Target) -> Iterator[tuple[State, int]]:
        yield state, state.stages.index(stage)

    again = Rule("again", lambda *_: True, same)
    with pytest.raises(ArgumentError, match=r"stage 'D': the derivation has not ended"):
        task(rules=(again, *RULES)).sketches  # noqa: B018
