"""The sketch rule for Winograd's convolutions: topi's schedule with open sizes."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, tensor, topi, tune
from minitvm.base import Target

ONE = Target("llvm -num-cores=1")
TWO = Target("llvm -num-cores=2")


def layer(tile: int = 2, *, batch: int = 1, bias: bool = True) -> list[te.Tensor]:
    """A convolution of [batch, 10, 10, 8] with 24 constant kernels, and its epilogue."""
    data = te.placeholder((batch, 10, 10, 8), name="data")
    weight = te.placeholder((3, 3, 8, 24), name="weight", constant=True)
    offset = te.placeholder((24,), name="offset", constant=True)
    out = topi.conv2d_winograd(data, weight, 1, tile, layout="NHWC")
    if not bias:
        return [data, weight, out]
    return [data, weight, offset, topi.relu(topi.add(out, offset))]


def task(args: list[te.Tensor], target: Target = ONE) -> auto_scheduler.SearchTask:
    dag = auto_scheduler.ComputeDAG(args)
    return auto_scheduler.SearchTask(compute_dag=dag, target=target)


def test_one_sketch_has_the_steps_of_topi_with_an_open_block_and_register_tile() -> None:
    made = task(layer())
    (sketch,), (state,) = made.sketches, made.states
    assert state.rules == ("winograd",)
    assert [knob.name for knob in sketch.space.knobs] == ["block", "tile"]
    default = [step for step in topi.schedule(made.outputs, ONE).steps if step.stage]
    rows = sketch.space.sample(np.random.default_rng(0), 1000).tolist()
    assert any(sketch.filled(row) == tuple(default[-len(sketch.steps) :]) for row in rows)
    text = str(state)
    assert "range(BLOCK)" in text
    assert "unroll p.c.1 in range(TILE0)" in text


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize(("batch", "target"), [(1, ONE), (2, TWO)])
def test_candidates_compute_the_convolution(tile: int, batch: int, target: Target) -> None:
    made = task(layer(tile, batch=batch), target)
    rng = np.random.default_rng(tile)
    inputs = [rng.standard_normal([*map(int, t.shape)], "float32") for t in made.args[:-1]]  # pyright: ignore[reportArgumentType]
    plain = topi.conv2d(made.args[0], made.args[1], 1, 1, layout="NHWC")
    wanted = topi.relu(topi.add(plain, made.args[2]))
    (expected,) = tensor.evaluate([wanted], dict(zip(made.args[:-1], inputs, strict=True)))
    for row in made.sketches[0].space.sample(rng, 4).tolist():
        candidate = tune.Candidate(0, tuple(row))
        result = np.zeros(expected.shape, "float32")
        driver.build(made.lowered(candidate), target=target)(*inputs, result)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("cpu", ["", " -mcpu=haswell", " -mcpu=nehalem"])
@pytest.mark.parametrize("shape", [(1, 2, 2, 1, 1), (1, 5, 9, 3, 5), (2, 14, 14, 32, 130)])
def test_every_layer_that_topi_can_schedule_has_a_sketch(
    shape: tuple[int, ...], cpu: str, layout: str
) -> None:
    n, h, w, c, o = shape
    nhwc = layout == "NHWC"
    data = te.placeholder((n, h, w, c) if nhwc else (n, c, h, w), name="data")
    weight = te.placeholder((3, 3, c, o) if nhwc else (o, c, 3, 3), name="weight")
    out = topi.conv2d_winograd(data, weight, 1, layout=layout)
    made = task([data, weight, out], Target(f"llvm -num-cores=1{cpu}"))
    (sketch,) = made.sketches
    for row in sketch.space.sample(np.random.default_rng(0), 3).tolist():
        made.lowered(tune.Candidate(0, tuple(row)))


def test_candidates_have_loop_features_and_an_estimate() -> None:
    columns = tune.columns_of(task(layer(4)))
    assert columns.analytic is not None


def test_the_rule_needs_a_single_output() -> None:
    data, weight, out = layer(bias=False)
    two = task([data, weight, out, topi.relu(out)])
    assert not any("winograd" in state.rules for state in two.states)
    assert task([data, weight, out]).states[0].rules == ("winograd",)
