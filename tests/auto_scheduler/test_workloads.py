"""The twelve computations of Ansor's evaluation: their sketches, and that these compute them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, tune
from minitvm.auto_scheduler import SearchTask, workloads
from minitvm.base import Target

TWO = Target("llvm -num-cores=2 -unroll=0").on(vector_bytes=64)
FEW, MANY = 10, 1000  # random programs of each workload


@cache
def small(name: str) -> SearchTask:
    return SearchTask(name, workloads.SMALL[name], target=TWO)


def values(task: SearchTask) -> list[np.ndarray]:
    """Positive inputs, as a variance must be, and what the unscheduled program computes."""
    rng = np.random.default_rng(0)
    shapes = [tuple(map(int, a.shape)) for a in task.args]  # type: ignore[arg-type]
    found = [rng.uniform(0.1, 1, shape).astype("float32") for shape in shapes]
    driver.build(te.create_schedule(task.args[-1].op), task.args, target=TWO)(*found)
    return found


def check(task: SearchTask, rng: np.random.Generator, arrays: list[np.ndarray], on: Any) -> None:
    """Build a random program of a random sketch, and compare what it computes."""
    *inputs, expected = arrays
    sketch = task.sketches[int(rng.integers(len(task.sketches)))]
    (row,) = sketch.space.sample(rng, 1).tolist()
    out = np.full_like(expected, np.nan)
    driver.build(sketch.scheduled(row), task.args, target=on)(*inputs, out)
    about = f"{sketch.name}: {sketch.space.text(row)}"
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4, err_msg=about)


@pytest.mark.parametrize("name", workloads.SHAPES)
def test_random_programs_compute_the_formula(name: str) -> None:
    task, rng = small(name), np.random.default_rng(1)
    arrays = values(task)
    for _ in range(FEW):
        check(task, rng, arrays, Target("python"))
    check(task, rng, arrays, TWO)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", workloads.SHAPES)
def test_a_thousand_random_programs_compute_the_formula(name: str) -> None:
    task, rng = small(name), np.random.default_rng(2)
    arrays = values(task)
    for _ in range(MANY):
        check(task, rng, arrays, TWO)


def test_the_number_of_sketches_of_each_workload() -> None:
    """As TVM's rules derive them; and the number of shapes, as annotation and rfactor decide."""
    spaces = {name: [s.space for s in small(name).sketches] for name in workloads.SHAPES}
    counts = {name: (len(own), sum(s.shape_count for s in own)) for name, own in spaces.items()}
    assert counts == {
        "C1D": (3, 132),
        "C2D": (3, 88),
        "C3D": (3, 36),
        "GMM": (3, 24),
        "GRP": (3, 88),
        "DIL": (3, 88),
        "DEP": (3, 24),
        "T2D": (3, 36),
        "CAP": (3, 88),
        "NRM": (3, 324),
        "ConvLayer": (3, 88),
        "TBS": (27, 2376),
    }


def test_a_first_batch_derives_few_of_the_shapes() -> None:
    """Each costs some 20 ms: the start of a search has about one for each sketch of TBS."""
    task = SearchTask("TBS", workloads.SMALL["TBS"], target=TWO)
    assert len(tune.GuidedPolicy(task, np.random.default_rng(0)).propose(16)) == 16
    assert sum(len(tune.statements(sketch).shapes) for sketch in task.sketches) < 120


def test_a_norm_is_summed_in_parallel_and_in_vectors() -> None:
    task = SearchTask("NRM", (1, 512, 512), target=TWO)
    (state,) = [s for s in task.states if s.choices == ("inner parts",)]
    row = [g.options.index((512, 512)) if g.kind == "split" else 0 for g in state.knobs]
    assert str(state.program(row)).splitlines() == [
        "parallel x@i@j.1.0 in range(32):",
        "  for i@j.0 in range(512):",
        "    vectorize i@j.1.1 in range(16):",
        "      squares_rf[...] += A[...] * A[...]",
        "for i@j.1 in range(512):",
        "  squares[...] += squares_rf[...]",
        "norm[...] = sqrt(squares[...])",
    ]


def test_no_zeros_are_multiplied_in_a_transposed_convolution() -> None:
    """Each output reads the pixels that contribute to it, not an image with zeros put in."""
    task = SearchTask("T2D", (1, 16, 16, 8, 4, 4, 2, 1), target=TWO)
    (product,) = [op for op in task.compute_dag.ops if op.name == "T_rows_conv"]
    terms = math.prod(a.extent for a in (*product.axis, *product.reduce_axis))
    needed = 16 * 16 * 8 * 4 * 4 * 4  # with zeros, 4 times as many
    assert needed <= terms < 1.2 * needed  # some at the border are not used


@pytest.mark.parametrize("name", workloads.SHAPES)
def test_sketches_and_programs_print(name: str) -> None:
    task, rng = small(name), np.random.default_rng(3)
    for n in rng.choice(len(task.states), 3):
        state = task.states[int(n)]
        open_sizes = {g.name.upper() for g in state.knobs if g.name.startswith("tile_")}
        (row,) = task.sketches[int(n)].space.sample(rng, 1).tolist()
        text = str(state.decided(row))
        assert all(size in text for size in open_sizes), text
        assert "auto_unroll: AUTO_UNROLL" in text
        program = str(state.program(row))
        assert "TILE_" not in program
        assert program.count("[...] ") == text.count("[...] "), program


@pytest.mark.parametrize("name", workloads.SHAPES)
def test_each_shape_of_the_paper_is_a_computation(name: str) -> None:
    for shape in workloads.SHAPES[name]:
        dag = auto_scheduler.ComputeDAG(auto_scheduler.make_workload_key(name, shape))
        assert dag.flop_ct > 0


def test_the_operations_of_some_shapes() -> None:
    """Two for a multiply-add."""
    for name, number, flops in (
        ("GMM", 3, 2 * 1024**3),
        ("C2D", 2, 2 * 14 * 14 * 256 * 256 * 9),
        ("GRP", 3, 2 * 7 * 7 * 512 * 512 * 9 / 4),
        ("DEP", 0, 2 * 112 * 112 * 32 * 9),
    ):
        key = auto_scheduler.make_workload_key(name, workloads.SHAPES[name][number])
        assert auto_scheduler.ComputeDAG(key).flop_ct == pytest.approx(flops, rel=0.01)
