"""Sketches: which rules derive them, and that whatever fills their holes computes the formula."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from minitvm import auto_scheduler, driver, te, tune
from minitvm.auto_scheduler import State
from minitvm.base import Target
from minitvm.tune.oracle import oracle
from tests.auto_scheduler.programs import PROGRAMS, args_of, arrays, matmul

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
    """Those of partial sums, too, whose number is a gene."""
    rng = np.random.default_rng(0)
    for sketch in made(name, ONE)[:12]:
        rows = sketch.space.sample(rng, 3)
        theirs = [list(oracle(sketch, row).values()) for row in rows.tolist()]
        np.testing.assert_allclose(tune.features(sketch, rows), theirs, rtol=1e-4, atol=1e-4)


def rules(out: te.Tensor, target: Target = ONE) -> list[str]:
    states = auto_scheduler.derived(te.create_schedule(out.op).state, target)
    return [" > ".join((*s.rules, *s.choices)) for s in states]


def test_a_product_is_tiled_in_two_ways_without_and_with_a_local_sum() -> None:
    assert rules(matmul()) == [
        "cache write > tile and fuse > pack > level 1 > pack",
        "cache write > tile and fuse > level 1",
        "cache write > tile and fuse > pack > level 2 > pack",
        "cache write > tile and fuse > level 2",
        "multi-level tiling > pack > pack",
        "multi-level tiling",
    ]


def test_a_consumer_takes_the_place_of_the_copy() -> None:
    assert rules(matmul(relu=True)) == [
        "tile and fuse > pack > level 1 > pack",
        "tile and fuse > level 1",
        "tile and fuse > pack > level 2 > pack",
        "tile and fuse > level 2",
        "multi-level tiling > pack > pack",
        "multi-level tiling",
    ]


def test_the_number_of_sketches_of_each_computation() -> None:
    counts = {name: len(made(name, ONE)) for name in PROGRAMS}
    assert counts == {
        "matmul": 12,
        "matmul + relu": 12,
        "conv2d NHWC + relu": 22,
        "conv2d NCHW": 22,
        "depthwise": 6,
        "norm": 12,
        "outer product": 3,
        "row sum": 5,
        "column sum": 5,
        "softmax": 27,
    }


def test_names_of_sketches_differ() -> None:
    for name in PROGRAMS:
        names = Counter(s.name for s in made(name, TWO))
        assert names.most_common(1)[0][1] == 1


def test_partial_results_are_not_split_again() -> None:
    a, b = te.placeholder((1, 128), name="A"), te.placeholder((10, 128), name="B")
    k = te.reduce_axis((0, 128), "k")
    c = te.compute((1, 10), lambda i, j: te.sum(a[i, k] * b[j, k], k), name="C")
    rules = {rule.name: rule for rule in auto_scheduler.RULES}
    state = State(te.create_schedule(c.op).state)
    for name in ("rfactor", "cache write"):
        stage = next(s for s in reversed(state.stages) if rules[name].meets(state, s, ONE))
        state, _ = next(iter(rules[name].apply(state, stage, ONE)))
    assert "C.rf.local" in state.stages
    assert not rules["rfactor"].meets(state, "C.rf.local", ONE)


@pytest.mark.parametrize(("length", "count"), [(64, 1), (32, 2)])
def test_sums_of_equal_length_are_split_by_one_gene(length: int, count: int) -> None:
    x, y = te.placeholder((64,), name="x"), te.placeholder((length,), name="y")
    r, q = te.reduce_axis((0, 64), "r"), te.reduce_axis((0, length), "q")
    total = te.compute((1,), lambda i: te.sum(x[r], r), name="total")
    other = te.compute((1,), lambda i: te.sum(y[q] + total[i], q), name="other")
    found = auto_scheduler.sketches([auto_scheduler.ComputeDAG([x, y, other])], ONE)
    genes = [{g.name for g in s.space.genes if g.name.endswith("_sum")} for s in found]
    assert max(map(len, genes)) == count


def test_an_input_that_is_read_twice_is_packed_once() -> None:
    """A product of complex matrices: both parts of B are panels of one copy."""
    a, b = (te.placeholder((2, 32, 32), name=name) for name in "AB")
    k = te.reduce_axis((0, 32), "k")

    def term(i, j):
        return a[0, i, k] * b[0, k, j] - a[1, i, k] * b[1, k, j]

    real = te.compute((32, 32), lambda i, j: te.sum(term(i, j), k), name="C")
    assert auto_scheduler.analysis.packable(real.op) == [(b, 2)]
    found = auto_scheduler.sketches([auto_scheduler.ComputeDAG([a, b, real])], ONE)
    assert any("pack" in sketch.name for sketch in found)
