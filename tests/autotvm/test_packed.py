"""The accelerator's convolutions: their template, its space, and searches in simulated cycles."""

from pathlib import Path

import numpy as np
import pytest

from minitvm import autotvm, tune, vta
from minitvm.autotvm import packed
from minitvm.base import ArgumentError
from tests.vta.layer_arrays import computed, expected, numbers

SMALL = vta.Convolution(size=(6, 6), channels=(32, 64))


def rows(task: autotvm.Task, count: int) -> list[tuple[int, ...]]:
    """Draw allowed rows of the space of a task."""
    space = task.config_space.space
    return [tuple(row) for row in space.sample(np.random.default_rng(0), count).tolist()]


def programs(task: autotvm.Task, count: int) -> list[tune.CandidateProgram]:
    """Draw programs of a task."""
    return [tune.CandidateProgram(task, task.derived.candidate(r)) for r in rows(task, count)]


def tilings(task: autotvm.Task) -> list[vta.Tiling]:
    """Return the tilings of all configurations of a task that may be measured."""
    space = task.config_space
    allowed = [n for n in range(space.range_length) if space.is_index_valid(n)]
    return [packed.tiling(space.get(n)) for n in allowed]


@pytest.mark.parametrize(
    "layer",
    [
        SMALL,
        vta.Convolution(size=(8, 8), channels=(16, 48), stride=2, bias=True),
        vta.Convolution(size=(5, 6), channels=(32, 32), kernel=1, pad=0, residual=True, shift=6),
    ],
)
def test_each_configuration_computes_the_convolution_of_numpy(layer: vta.Convolution) -> None:
    task, arrays = packed.task(layer), numbers(layer)
    for row in rows(task, 6):
        config = task.config_space.entity(row)
        s, args = task.instantiate(config)
        f, scheduled = vta.build(s, args), vta.build(*layer.scheduled(packed.tiling(config)))
        assert f.program == scheduled.program
        result = computed(layer, packed.tiling(config), arrays)
        np.testing.assert_array_equal(result, expected(layer, arrays))


def test_the_space_has_the_knobs_of_vta_and_no_tiling_that_overflows_a_memory() -> None:
    task = packed.task(vta.RESNET18["C12"])
    knobs = ["tile_h", "tile_w", "tile_ci", "tile_co", "oc_nthread", "h_nthread"]
    assert [*task.config_space.space_map] == knobs
    layer, several = vta.RESNET18["C12"], tilings(task)
    for threads in (1, 2):
        legal = set(vta.legal_tilings(layer, threads=threads))
        assert {at for at in several if at.threads == threads} <= legal
    assert {at.threads for at in several} == {1, 2}  # its 7 rows are odd


@pytest.mark.parametrize("name", ["C2", "C6", "C9"])
def test_a_tiling_that_is_left_out_for_its_small_tiles_is_slower_than_the_one_by_hand(
    name: str,
) -> None:
    """The closed forms prove it; the other layers of ResNet-18 have a larger margin."""
    layer = vta.RESNET18[name]
    by_hand = vta.build(*layer.scheduled(packed.by_hand(layer))).run().cycles
    allowed = set(tilings(packed.task(layer)))
    for threads in (1, 2):
        left_out = set(vta.legal_tilings(layer, threads=threads)) - allowed
        assert left_out
        assert min(vta.cost(layer, at).bound for at in left_out) > by_hand


@pytest.mark.parametrize("name", vta.RESNET18)
def test_the_tiling_of_the_tutorial_is_in_the_space(name: str) -> None:
    layer = vta.RESNET18[name]
    assert packed.by_hand(layer) in tilings(packed.task(layer))


def test_the_reference_is_the_tutorials_tiling_with_the_cycles_of_its_program() -> None:
    layer = vta.RESNET18["C9"]
    assert packed.by_hand(layer) == vta.Tiling(h=7, w=14, oc=8, ic=1, oc_threads=2)
    task = packed.task(layer)
    measurer = tune.measurer(task.default(), task.target)
    assert (
        measurer.reference_cost == vta.build(*layer.scheduled(packed.by_hand(layer))).run().cycles
    )


def test_by_hand_takes_smaller_tiles_where_those_of_the_tutorial_do_not_fit() -> None:
    with vta.Environment(vta.vdla_osdi18):
        at = packed.by_hand(vta.RESNET18["C9"])
        assert at in vta.legal_tilings(vta.RESNET18["C9"], vta.vdla_osdi18, 2)
    assert at == vta.Tiling(h=7, w=14, oc=4, ic=1, oc_threads=2)


def test_a_search_ends_at_least_as_fast_as_the_tiling_by_hand(tmp_path: Path) -> None:
    layer, log = vta.RESNET18["C11"], tmp_path / "c11.log"
    task = packed.task(layer)
    tuner = autotvm.tuner.XGBTuner(task, plan_size=16, rng=np.random.default_rng(0))
    options = tune.MeasureOptions(check=False)
    callbacks = [autotvm.callback.log_to_file(log)]
    outcome = tuner.tune(n_trial=48, measure_option=options, callbacks=callbacks)
    assert outcome.default is not None
    assert outcome.best.cost <= outcome.default.best
    assert "FLOP/cycle" in str(outcome)
    with autotvm.apply_history_best(log), task.target:
        s, args = task.template(*task.arguments)
    assert vta.build(s, args).run().cycles == min(outcome.best.cost, outcome.default.best)


@pytest.mark.parametrize("name", ["RandomTuner", "GridSearchTuner", "GATuner", "GuidedTuner"])
def test_every_tuner_searches_the_space(name: str) -> None:
    tuner = getattr(autotvm.tuner, name)(packed.task(SMALL), rng=np.random.default_rng(0))
    outcome = tuner.tune(n_trial=12)
    assert len(outcome.trials) == 12
    assert {t.result.unit for t in outcome.trials} == {"cycles"}


def test_measurements_repeat_exactly() -> None:
    task = packed.task(SMALL)
    first, second = (
        [r.cycles for r in tune.SimulatedVta(task.default(), rng=rng).measure(programs(task, 6))]
        for rng in map(np.random.default_rng, (0, 1))
    )
    assert first == second
    timed = tune.SimulatedVta(task.default(), check=False).measure(programs(task, 6))
    assert [r.cycles for r in timed] == first


def test_tiles_that_overflow_a_memory_are_a_failure_that_says_which() -> None:
    task, layer = packed.task(SMALL), vta.Convolution(size=(56, 56), channels=(64, 256))
    s, args = layer.scheduled(vta.Tiling(h=56, w=56, oc=2))
    (result,) = tune.SimulatedVta(task.default()).measure([lambda: vta.lower(s, args)])
    assert result.error == "lower"
    assert "ACC" in result.detail


def test_a_program_with_another_result_is_a_wrong_answer() -> None:
    other = vta.Convolution(size=(6, 6), channels=(32, 64), shift=9)
    reference = packed.task(SMALL).default()
    wrong = vta.lower(*other.scheduled(packed.by_hand(other)))
    (result,) = tune.SimulatedVta(reference).measure([lambda: wrong])
    assert result.error == "wrong answer"
    assert "instead of" in result.detail


def test_the_log_of_one_accelerator_says_nothing_about_another(tmp_path: Path) -> None:
    log = tmp_path / "small.log"
    task = packed.task(SMALL)
    tuner = autotvm.tuner.RandomTuner(task, np.random.default_rng(0))
    tuner.tune(n_trial=2, callbacks=[autotvm.callback.log_to_file(log)])
    assert len(tune.Log(log).read(task).trials) == 2
    with vta.Environment(vta.vdla_osdi18):
        assert not tune.Log(log).read(packed.task(SMALL)).trials


def test_only_convolutions_for_the_accelerator_have_this_template() -> None:
    with pytest.raises(ArgumentError, match="for the accelerator"):
        packed.task(SMALL, "llvm")
    with pytest.raises(ArgumentError, match="lowered for another target"):
        tune.SimulatedVta(autotvm.task_for("sum_rows", (4, 4)).default())
