"""Features of rows: the same numbers as those read from the loops that lowering makes."""

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import Target
from minitvm.tune.packed import all_packed

from . import sketches
from .oracle import oracle

SKETCHES = {
    **{f"matmul, level {n}": sketches.matmul(48, 96, 64, n) for n in range(3)},
    "packed, level 0": sketches.matmul(48, 96, 64, 0, packed=True),
    "packed, level 1": sketches.matmul(48, 96, 64, 1, packed=True, unroll="tile"),
    "packed, level 2": sketches.matmul(48, 96, 64, 2, packed=True),
    "matmul and relu": sketches.matmul(48, 96, 64, 2, relu=True),
    "NCHW": sketches.conv(14, 8, 16, 3, 1, "NCHW", 2),
    "NCHW, halo": sketches.conv(14, 8, 16, 3, 2, "NCHW", 0, pad_at=2),
    "NHWC, halo": sketches.conv(14, 8, 16, 3, 1, "NHWC", 1, pad_at=1),
    "NHWC and relu": sketches.conv(15, 8, 16, 3, 2, "NHWC", 2, relu=True, pad_at=3),
    "NHWC, inlined": sketches.conv(14, 8, 16, 3, 1, "NHWC", 0, pad_at="inline"),
    "1x1": sketches.conv(14, 8, 16, 1, 2, "NHWC", 1),
    "elementwise": sketches.elementwise(24, 64),
    "scalar": sketches.scalar(48),
    "softmax": sketches.softmax(24, 64),
    "tails": sketches.stencil(24, 64, [(5, 8), (24, 64), (1, 7), (7, 48)], wrap=False),
    "diagonal": sketches.stencil(24, 96, [(5, 8), (24, 96), (1, 12), (4, 48)], wrap=True),
}


@pytest.mark.parametrize("name", SKETCHES)
def test_features_are_those_of_the_lowered_loops(name: str) -> None:
    sketch = SKETCHES[name]
    rows = sketch.space.sample(np.random.default_rng(5), 12)
    found = tune.features(sketch, rows)
    for row, mine in zip(rows.tolist(), found, strict=True):
        theirs = oracle(sketch, tuple(row))
        assert list(theirs) == list(tune.NAMES)
        wrong = {
            n: (round(float(x), 4), round(y, 4))
            for (n, y), x in zip(theirs.items(), mine, strict=True)
            if abs(x - y) > 1e-4 * (1 + abs(y))
        }
        assert not wrong, sketch.filled(row)


@pytest.mark.parametrize("name", SKETCHES)
def test_the_columns_of_a_candidate_do_not_depend_on_the_others(name: str) -> None:
    sketch, target = SKETCHES[name], Target("llvm -num-cores=1")
    rows = sketch.space.sample(np.random.default_rng(6), 12)
    first = np.zeros((1, rows.shape[1]), np.int32)  # loops that are not split: strides of 1
    rows = np.concatenate([first, rows])
    found, seconds = tune.features(sketch, rows), tune.analytic.seconds(sketch, rows, target)
    for n in range(len(rows)):
        alone = rows[n : n + 1]
        np.testing.assert_array_equal(tune.features(sketch, alone)[0], found[n])
        one = tune.analytic.seconds(sketch, alone, target)[0]
        assert one == pytest.approx(seconds[n], rel=1e-12)


@pytest.mark.parametrize("name", SKETCHES)
def test_the_columns_of_the_draft_are_what_it_explains(name: str) -> None:
    sketch, target = SKETCHES[name], Target("llvm -num-cores=1")
    rows = sketch.space.sample(np.random.default_rng(7), 12)
    batch = tune.statements(sketch).at(rows)
    found = tune.analytic.columns_of(batch, all_packed(batch), target)
    for row, values in zip(rows, found, strict=True):
        columns = dict(zip(tune.analytic.NAMES, values, strict=True))
        why = tune.analytic.explain(sketch, row, target)
        cycles = why.seconds * tune.analytic.CLOCK
        assert columns[tune.ANALYTIC] == pytest.approx(-np.log2(why.seconds))
        for part, each in why.parts.items():  # those of the heaviest statement
            assert columns[f"analytic.{part}"] * cycles >= each * (1 - 1e-9)
        share = columns["analytic.heaviest"]
        assert 0 < share <= 1
        tile = [round(2 ** columns[f"analytic.{name}"]) for name in ("rows", "columns", "strip")]
        needs = columns["analytic.registers"] * target.vector_registers
        text = str(why)
        assert f"tile {tile[0]}x{tile[1]} needs {needs:.0f} of" in text
        assert f"stored every {tile[2]} iterations" in text
        assert f"{columns['analytic.loads_each']:.2f} loads per instruction" in text
