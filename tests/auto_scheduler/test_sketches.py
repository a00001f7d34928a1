"""Sketches: which rules derive them, and that all their candidates compute the formula."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, topi, tune
from minitvm.base import Target
from tests.auto_scheduler.programs import PROGRAMS, args_of, arrays, matmul
from tests.tune.oracle import oracle

ONE, TWO = Target("llvm -num-cores=1 -unroll=0"), Target("llvm -num-cores=2 -unroll=0")


def made(name: str, target: Target) -> tuple[tune.Sketch, ...]:
    return auto_scheduler.sketches([auto_scheduler.ComputeDAG(args_of(PROGRAMS[name]()))], target)


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_rows_of_every_sketch_compute_the_formula(name: str) -> None:
    rng = np.random.default_rng(0)
    for target in (ONE, TWO):
        sketches = made(name, target)
        args = sketches[0].args
        values = arrays(args, rng)
        expected = [*values[:-1], values[-1].copy()]
        driver.build(te.create_schedule(args[-1].op), args)(*expected)
        chosen = rng.permutation(len(sketches))[:6]
        for sketch in (sketches[n] for n in chosen.tolist()):
            (row,) = sketch.space.sample(rng, 1).tolist()
            values[-1][...] = np.nan
            driver.build(sketch.scheduled(row), args, target=target)(*values)
            np.testing.assert_allclose(values[-1], expected[-1], rtol=1e-4, atol=1e-4)


# Norm fuses 20 x 50 iterations and cuts them anywhere, where statements are approximations.
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "norm"])
def test_features_of_random_rows_are_those_of_the_lowered_loops(name: str) -> None:
    """Those of partial sums, too, whose number is a knob."""
    rng = np.random.default_rng(0)
    for sketch in made(name, ONE)[:12]:
        rows = sketch.space.sample(rng, 3)
        theirs = [list(oracle(sketch, row).values()) for row in rows.tolist()]
        np.testing.assert_allclose(tune.features(sketch, rows), theirs, rtol=1e-4, atol=1e-4)


def rules(*outs: te.Tensor, target: Target = ONE) -> list[str]:
    states = auto_scheduler.derived(te.create_schedule([t.op for t in outs]).state, target)
    return [" > ".join((*s.rules, *s.choices)) for s in states]


TILED = [
    "cache write > tile and fuse > level 1",
    "cache write > tile and fuse > level 2",
    "multi-level tiling",
]
FUSED = ["tile and fuse > level 1", "tile and fuse > level 2", "multi-level tiling"]
SPLIT = ["rfactor > outer parts", "rfactor > inner parts"]
FOUR = Target("llvm -num-cores=4")


def product(n: int, m: int, length: int) -> te.Tensor:
    a, b = te.placeholder((n, length), name="A"), te.placeholder((length, m), name="B")
    k = te.reduce_axis((0, length), "k")
    return te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="C")


def layer() -> te.Tensor:
    """TVM's conv2d_nchw_bn_relu, whose stages but one are inlined."""
    x, w = te.placeholder((1, 8, 9, 9), name="x"), te.placeholder((16, 8, 3, 3), name="w")
    parts = [te.placeholder((16,), name=name) for name in ("gamma", "beta", "mean", "variance")]
    return topi.relu(topi.batch_norm(topi.conv2d(x, w, 1, 1, method="direct"), *parts))


# The counts are those of TVM's test_auto_scheduler_sketch_generation.py.


def test_a_product_is_tiled_in_two_ways_with_a_local_sum_and_without_one() -> None:
    assert rules(product(512, 512, 512)) == TILED


def test_a_small_product_of_many_terms_is_also_split() -> None:
    """Neither the partial sums nor a local sum are split or tiled again."""
    assert rules(product(8, 8, 512), target=FOUR) == [*SPLIT, *TILED]


def test_a_consumer_takes_the_place_of_the_copy() -> None:
    assert rules(matmul(relu=True)) == FUSED


def test_normalization_is_inlined_between_a_convolution_and_relu() -> None:
    assert rules(layer()) == [f"always inline > {rule}" for rule in FUSED]


def test_each_sum_of_a_softmax_is_split_in_two_ways_or_not() -> None:
    x = te.placeholder((1, 1024), name="x")
    at = ("outer", "inner")
    two = [f"rfactor > rfactor > {a} parts > {b} parts" for a in at for b in at]
    assert sorted(rules(topi.softmax(x))) == sorted([*two, *SPLIT, *SPLIT, ""])


@pytest.mark.parametrize("shape", [(), (10,)])
def test_a_long_sum_is_split_in_two_ways_or_not(shape: tuple[int, ...]) -> None:
    a, k = te.placeholder((*shape, 1024), name="A"), te.reduce_axis((0, 1024), "k")
    assert rules(te.compute(shape, lambda *i: te.sum(a[(*i, k)], k), name="B")) == [*SPLIT, ""]


@pytest.mark.parametrize(("name", "cheap"), [("exp", False), ("tanh", False), ("sqrt", True)])
def test_only_cheap_functions_are_always_inlined(name: str, cheap: bool) -> None:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: getattr(te, name)(x[i]), name="y")
    z = te.compute((16,), lambda i: y[i] + 1.0, name="z")
    assert rules(z) == (["always inline"] if cheap else [""])


def decisions(name: str, target: Target) -> dict[str, tuple[str, ...]]:
    knobs = made(name, target)[1].space.knobs
    return {knob.name: knob.options for knob in knobs if knob.kind == "choice"}


def test_decisions_are_knobs() -> None:
    assert decisions("matmul", TWO) == {
        "pack_inputs": ("no", "yes"),
        "unroll_rows": ("no", "yes"),
        "parallel": ("fine", "coarse"),
    }
    assert decisions("conv2d NHWC + relu", ONE)["location"] == (
        "root",
        "T_pad inline",
        "T_pad in T_relu outer",
        "T_pad in T_relu tile",
    )
    assert decisions("softmax", ONE)["location"] == ("root", "outer", "inline")


def test_a_row_decides_which_steps_there_are() -> None:
    (sketch,) = (s for s in made("matmul + relu", TWO) if s.name == "sketch 1, level 2")
    row = [0] * len(sketch.space.knobs)
    names = [g.name for g in sketch.space.knobs]
    for pack, grain in ((0, 0), (1, 1)):
        row[names.index("pack_inputs")], row[names.index("parallel")] = pack, grain
        text = sketch.scheduled(row).python()
        assert ("s.cache_read(B" in text, "fuse(" in text) == (pack == 1, grain == 0)


def test_the_number_of_sketches_of_each_computation() -> None:
    """And the number of shapes: ways to decide their steps and the formulas of partial sums."""
    sketches = {name: made(name, ONE) for name in PROGRAMS}
    counts = {n: (len(m), sum(s.space.shape_count for s in m)) for n, m in sketches.items()}
    assert counts == {
        "matmul": (3, 12),
        "matmul + relu": (3, 12),
        "conv2d NHWC + relu": (3, 22),
        "conv2d NCHW": (3, 22),
        "depthwise": (3, 6),
        "norm": (3, 162),
        "outer product": (2, 3),
        "row sum": (3, 25),
        "column sum": (3, 25),
        "softmax": (9, 147),
    }


def test_names_of_sketches_differ() -> None:
    for name in PROGRAMS:
        names = Counter(s.name for s in made(name, TWO))
        assert names.most_common(1)[0][1] == 1


@pytest.mark.parametrize(("length", "count"), [(64, 1), (32, 2)])
def test_sums_of_equal_length_are_split_by_one_knob(length: int, count: int) -> None:
    x, y = te.placeholder((64,), name="x"), te.placeholder((length,), name="y")
    r, q = te.reduce_axis((0, 64), "r"), te.reduce_axis((0, length), "q")
    total = te.compute((1,), lambda i: te.sum(x[r], r), name="total")
    other = te.compute((1,), lambda i: te.sum(y[q] + total[i], q), name="other")
    found = auto_scheduler.sketches([auto_scheduler.ComputeDAG([x, y, other])], ONE)
    knobs = [{g.name for g in s.space.knobs if g.name.endswith("_sum")} for s in found]
    assert max(map(len, knobs)) == count


def test_an_input_that_is_read_twice_is_packed_once() -> None:
    """A product of complex matrices: both parts of B are panels of one copy."""
    a, b = (te.placeholder((2, 32, 32), name=name) for name in "AB")
    k = te.reduce_axis((0, 32), "k")

    def term(i, j):
        return a[0, i, k] * b[0, k, j] - a[1, i, k] * b[1, k, j]

    real = te.compute((32, 32), lambda i, j: te.sum(term(i, j), k), name="C")
    assert auto_scheduler.analysis.packable(real.op) == [(b, 2)]
    found = auto_scheduler.sketches([auto_scheduler.ComputeDAG([a, b, real])], ONE)
    assert all("pack_inputs" in [g.name for g in sketch.space.knobs] for sketch in found)
