"""Rows that must not be measured, and what the analytic model expects of the others."""

import numpy as np
import pytest

from minitvm import te, tune
from minitvm.base import ArgumentError, Target

from . import sketches

TARGET = Target("llvm -mcpu=skylake-avx512 -mattr=+avx512f -num-cores=1")  # 16 lanes, 32 registers


def row(sketch: tune.Sketch, *options: object) -> np.ndarray:
    """The row with these options of the knobs."""
    knobs = zip(sketch.space.knobs, options, strict=True)
    return np.array([[g.options.index(o) for g, o in knobs]], np.int32)


def is_legal(*options: object, unroll: str = "pragma") -> bool:
    sketch = sketches.matmul(512, 512, 512, 2, unroll=unroll)
    return bool(tune.legal_rows(sketch, row(sketch, *options), TARGET)[0])


def test_a_vector_fills_at_least_half_a_register():
    assert is_legal((16, 4, 2, 4), (4, 4, 1, 32), (8, 64), 16)
    assert is_legal((16, 4, 2, 4), (4, 4, 4, 8), (8, 64), 16)
    assert not is_legal((16, 4, 2, 4), (4, 4, 8, 4), (8, 64), 16)


def test_a_short_axis_may_be_one_short_vector():
    sketch = sketches.matmul(64, 4, 64, 0)
    assert tune.legal_rows(sketch, row(sketch, (4, 4, 4, 1), (1, 1, 1, 4), (8, 8), 0), TARGET)[0]
    assert not tune.legal_rows(sketch, row(sketch, (4, 4, 4, 1), (1, 1, 2, 2), (8, 8), 0), TARGET)[
        0
    ]


def test_an_unrolled_tile_fits_in_the_registers():
    assert is_legal((16, 2, 1, 16), (4, 4, 1, 32), (8, 64), 0, unroll="tile")
    assert not is_legal((8, 2, 1, 32), (4, 4, 1, 32), (8, 64), 0, unroll="tile")
    assert is_legal((8, 2, 1, 32), (4, 4, 1, 32), (8, 64), 0)  # it stays in memory


def test_unrolling_makes_few_stores():
    assert not is_legal((16, 4, 2, 4), (4, 4, 1, 32), (1, 512), 512)


def test_a_local_tile_fits_on_the_stack():
    assert not is_legal((1, 1, 128, 4), (1, 8, 2, 32), (8, 64), 0)


def test_a_restricted_sketch_draws_and_makes_legal_rows_only():
    sketch = tune.restricted(sketches.conv(28, 32, 64, 3, 1, "NHWC", 2), TARGET)
    rng = np.random.default_rng(0)
    rows = sketch.space.sample(rng, 200)
    made = sketch.space.mutate(rng, sketch.space.cross(rng, rows, rows[::-1]))
    assert len(rows) == 200
    assert tune.legal_rows(sketch, made, TARGET).all()


def test_a_symbolic_size_is_refused():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    y = te.compute((n,), lambda i: a[i] + 1.0, name="Y")
    initial = te.create_schedule(y.op).state
    space = tune.Space((tune.number_knob("unused", [0]),))
    sketch = tune.Sketch("symbolic", (a, y), initial, (), (), space)
    with pytest.raises(ArgumentError, match="Y has a symbolic size"):
        tune.features(sketch, np.zeros((1, 1), np.int32))


def test_the_draft_prefers_a_register_tile_to_single_vectors():
    sketch = sketches.matmul(512, 512, 512, 2, unroll="tile")
    tiled = row(sketch, (16, 2, 4, 4), (4, 2, 2, 32), (8, 64), 0)
    thin = row(sketch, (16, 2, 16, 1), (4, 2, 4, 16), (8, 64), 0)
    fast, slow = tune.analytic.seconds(sketch, np.concatenate([tiled, thin]), TARGET)
    assert 2 * fast < slow
    assert tune.analytic.explain(sketch, thin[0], TARGET).limit == "latency"
    why = tune.analytic.explain(sketch, tiled[0], TARGET)
    assert why.seconds == pytest.approx(fast)
    assert "tile 4x32 needs 11 of 32 registers" in str(why)


def test_the_draft_names_the_columns_of_a_tile_that_fills_half_a_register():
    sketch = sketches.matmul(512, 512, 512, 2, unroll="tile")
    half = row(sketch, (16, 2, 4, 4), (4, 4, 4, 8), (8, 64), 0)
    assert "tile 4x8 needs 6 of 32 registers" in str(tune.analytic.explain(sketch, half[0], TARGET))


def test_the_draft_charges_for_rows_that_share_the_sets_of_a_cache():
    tile = ((16, 2, 4, 4), (4, 2, 2, 32), (8, 64), 0)
    apart, packed = (
        sketches.matmul(512, 512, 512, 2, packed=p, unroll="tile") for p in (False, True)
    )
    parts = [
        tune.analytic.explain(k, row(k, *tile)[0], TARGET).parts["l1"] for k in (apart, packed)
    ]
    assert parts[0] > 1.5 * parts[1]


def test_the_draft_knows_whether_llvm_unrolls_small_tiles():
    """A tile that is not unrolled stays in memory, unless LLVM unrolls it by itself."""
    sketch = sketches.matmul(512, 512, 512, 2, packed=True)
    rows = np.concatenate(
        [row(sketch, (16, 4, 2, 4), (8, 1, 1, 64), (1, 512), unroll) for unroll in (0, 16)]
    )
    plain = Target(f"{TARGET} -unroll=0")
    never, always = (tune.analytic.seconds(sketch, rows, t) for t in (plain, TARGET))
    assert never[0] > 2 * never[1]
    assert always[0] == pytest.approx(always[1])
    assert tune.analytic.explain(sketch, rows[0], plain).limit == "spills"
    assert "stays in memory" in str(tune.analytic.explain(sketch, rows[0], plain))


def test_lines_from_the_next_cache_arrive_while_the_core_computes():
    """A long loop over k in a panel larger than the first-level cache beats short strips."""
    sketch = sketches.matmul(512, 512, 512, 2, packed=True, unroll="tile")
    short, long = (
        row(sketch, (8, 16 // b, b, 4), (8, 1, 1, 64), (512 // k, k), 0)[0]
        for k, b in ((16, 4), (512, 1))
    )
    seconds = tune.analytic.seconds(sketch, np.stack([short, long]), TARGET)
    assert seconds[1] < seconds[0]
    parts = tune.analytic.explain(sketch, long, TARGET).parts
    assert parts["l1"] > 0.3 * parts["arithmetic"]
