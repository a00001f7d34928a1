"""Sketches: one list of steps, filled in different ways, gives the same loops with other sizes."""

import numpy as np

from minitvm import driver, schedule, te, topi, tune
from minitvm.base import Target


def matmul(n: int = 64):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    return a, b, topi.matmul(a, b)


def sketch() -> tune.Sketch:
    """Tile i and j, unroll as a knob says, pack b in panels as wide as the inner tile."""
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    packed = s.cache_read(b, "global", [c])
    s.apply(schedule.TransformLayout(s[packed].name, ("k", "j"), ("j // 8", "k", "j % 8")))
    i, j = s[c].op.axis
    s[c].split(i, factor=4)
    _, ji = s[c].split(j, factor=8)
    s[c].vectorize(ji)
    s[c].pragma(s[c].leaf_iter_vars[0], "auto_unroll_max_step", 16)
    steps = list(s.steps)
    steps[1] = schedule.TransformLayout(s[packed].name, ("k", "j"), ("j // {}", "k", "j % {}"))
    knobs = (
        tune.split_knob("i", 64, 2),
        tune.split_knob("j", 64, 2),
        tune.number_knob("unroll", [0, 16, 64]),
    )
    parameters = (
        tune.Parameter(1, "layout", ((1, 1),)),
        tune.Parameter(2, "factor", ((0, 1),)),
        tune.Parameter(3, "factor", ((1, 1),)),
        tune.Parameter(5, "value", ((2, 0),)),
    )
    initial = te.create_schedule(c.op).state
    return tune.Sketch("tiles", (a, b, c), initial, tuple(steps), parameters, tune.Space(knobs))


def test_a_row_fills_all_holes():
    k = sketch()
    row = (2, 3, 1)  # i in parts of 4, j in parts of 8, 16
    filled = k.filled(row)
    assert filled[1].layout == ("j // 8", "k", "j % 8")
    assert filled[2].factor == 4
    assert filled[3].factor == 8
    assert filled[5].value == 16


def test_every_row_is_a_right_program():
    k = sketch()
    task = tune.Task("matmul", (64,), Target("llvm"), k.args, 2.0 * 64**3, (k,))
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((64, 64)).astype("float32") for _ in range(2))
    for row in k.space.sample(rng, 6).tolist():
        z = np.empty((64, 64), "float32")
        driver.build(task.lowered(tune.Candidate(0, tuple(row))))(x, y, z)
        np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)


def test_a_schedule_of_a_candidate_is_printed_as_code() -> None:
    """Also if the formula of the sketch came about by steps of its own."""
    found = sketch()
    start = te.Schedule(found.initial)
    start["T_matmul"].split(start["T_matmul"].op.axis[0], factor=2)
    a, b, c = found.args
    later = tune.Sketch(
        "later",
        (a, b, c),
        start.state,
        (schedule.Annotate("T_matmul", "j", "vectorize"),),
        (),
        tune.Space(()),
    )
    assert found.scheduled((1, 2, 1)).python().splitlines()[-1].startswith("s[T_matmul].pragma(")
    assert later.scheduled(()).python().splitlines()[-1] == "s[T_matmul].vectorize(j)"
    assert later.scheduled(()).initial.steps == start.steps
