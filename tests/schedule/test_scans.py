"""Schedules of recurrences: what runs inside the loop over time, and what does not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import LoweringError, ScheduleError, TVMError
from minitvm.tensor import evaluate
from minitvm.testing import random_schedule

TARGETS = ("interpreter", "python", "numba", "llvm")


@dataclass
class Cell:
    """u[t] = tanh(u[t - 1] @ W + X[t] @ U), from u[0] = X[0]; a and b are the two products."""

    T: Any = 6

    def __post_init__(self) -> None:
        n, T = 5, self.T
        self.X, self.h = te.placeholder((T, n), name="X"), te.placeholder((T, n), name="h")
        self.W, self.U = te.placeholder((n, n), name="W"), te.placeholder((n, n), name="U")
        X, W, U, h = self.X, self.W, self.U, self.h
        k, m = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="m")
        self.first = te.compute(
            (1, n), lambda t, i: te.if_then_else(t < T, X[t, i], 0.0), name="first"
        )
        self.a = te.compute((T, n), lambda t, i: te.sum(h[t - 1, k] * W[k, i], axis=k), name="a")
        self.b = te.compute((T, n), lambda t, i: te.sum(X[t, m] * U[m, i], axis=m), name="b")
        a, b = self.a, self.b
        self.u = te.compute((T, n), lambda t, i: te.tanh(a[t, i] + b[t, i]), name="u")
        self.S = te.scan(self.first, self.u, h, inputs=[X, W, U], name="S")
        self.s = te.create_schedule(self.S.op)
        self.time = self.s[self.S].op.scan_axis
        self.k = k

    @property
    def args(self) -> list[te.Tensor]:
        return [self.X, self.W, self.U, self.S]

    def loops(self) -> str:
        return str(tvm.lower(self.s, self.args, until="nest"))


def numbers(T: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs, and what comes out."""
    rng = np.random.default_rng(T)
    x, w, u = ((rng.standard_normal(n) / 2).astype("float32") for n in ((T, 5), (5, 5), (5, 5)))
    h = x.copy()
    for t in range(1, T):
        h[t] = np.tanh(h[t - 1] @ w + x[t] @ u)
    return [x, w, u], h


def check(cell: Cell, targets: tuple[str, ...] = TARGETS, T: int = 6) -> None:
    """The scheduled program gives on all targets what numpy does."""
    given, want = numbers(T)
    for target in targets:
        got = np.zeros_like(want)
        if target == "interpreter":
            tir.interpret(tvm.lower(cell.s, cell.args, until="nest"), *given, got)
        else:
            tvm.build(cell.s, cell.args, target)(*given, got)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def inside(cell: Cell) -> None:
    """Splits, vectors, and products computed where they are used."""
    s, u, a, b = cell.s, cell.u, cell.a, cell.b
    o, i = s[u].split(u.op.axis[1], factor=2)
    s[u].vectorize(i)
    s[a].compute_at(s[u], o)
    s[b].compute_at(s[cell.S], cell.time)
    ko, ki = s[a].split(cell.k, factor=2)
    s[a].reorder(ko, a.op.axis[1], ki)
    s[a].vectorize(a.op.axis[1])


def copies(cell: Cell) -> None:
    """Copies of the state and of the result, and a product in two steps."""
    s = cell.s
    own = s.cache_write(cell.u, "local")
    o, _ = s[cell.u].split(s[cell.u].op.axis[1], factor=3)
    s[own].compute_at(s[cell.u], o)
    s.cache_read(cell.h, "local", [cell.a])
    _, inner = s[cell.a].split(cell.k, factor=2)
    part = s.rfactor(cell.a, inner)
    s[part].parallel(s[part].op.axis[-1])


def steps_of_time(cell: Cell) -> None:
    """Two times in a block: inputs for both at once, the rest time after time."""
    s = cell.s
    o, i = s[cell.S].split(cell.time, factor=2)
    s[cell.S].unroll(i)
    s[cell.b].compute_at(s[cell.S], o)


def rows_of_one(cell: Cell) -> None:
    """The time axis of a formula has one value, whatever is made of it."""
    s, u, a = cell.s, cell.u, cell.a
    s[u].split(s[u].fuse(*u.op.axis), factor=4)
    s[a].split(s[a].fuse(*a.op.axis), nparts=3)
    o, _ = s[cell.b].split(cell.b.op.axis[0], factor=4)
    s[cell.b].parallel(o)


SCHEDULES = (inside, copies, steps_of_time, rows_of_one)


@pytest.mark.parametrize("how", SCHEDULES)
def test_a_scheduled_recurrent_network_is_that_of_numpy(how: Callable[[Cell], None]) -> None:
    cell = Cell()
    how(cell)
    check(cell)


def test_stages_of_a_scan_are_computed_where_the_schedule_says(
    golden: Callable[[str], None],
) -> None:
    cell = Cell()
    inside(cell)
    golden(cell.loops())


@pytest.mark.parametrize("how", SCHEDULES)
def test_its_steps_are_written_down_as_json(how: Callable[[Cell], None]) -> None:
    cell = Cell()
    how(cell)
    again = te.Schedule.from_json(cell.s.to_json(), cell.S.op)
    assert str(tvm.lower(again, cell.args)) == str(tvm.lower(cell.s, cell.args))


@pytest.mark.parametrize("how", SCHEDULES)
def test_the_number_of_rows_of_a_scheduled_scan_may_be_symbolic(
    how: Callable[[Cell], None],
) -> None:
    cell = Cell(te.size_var("T"))
    how(cell)
    for T in (1, 2, 5):
        check(cell, ("llvm",), T)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_whatever_the_steps_the_rows_stay_the_same(seed: int, T: int) -> None:
    cell = Cell(T)
    twice = te.compute((T, 5), lambda t, i: cell.S[t, i] * 2.0, name="twice")
    s = random_schedule(twice.op, np.random.default_rng(seed))
    args = [cell.X, cell.W, cell.U, twice]
    try:
        nest, flat = tvm.lower(s, args, until="nest"), tvm.lower(s, args)
    except LoweringError:  # some steps can only be judged once all are taken
        return
    given, want = numbers(T)
    (value,) = evaluate([twice], dict(zip(args[:3], given, strict=True)))
    np.testing.assert_allclose(value, want * 2, rtol=1e-5, atol=1e-6)
    for func, is_flat in ((nest, False), (flat, True)):
        got = np.zeros_like(want)
        tir.interpret(func, *given, got, flat=is_flat)
        np.testing.assert_allclose(got, want * 2, rtol=1e-5, atol=1e-6)


# --- the programs of TVM's tutorial on scans ------------------------------------------------------


def test_the_tutorial_s_cumulative_sum() -> None:
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: te.if_then_else(m > 0, X[0, i], 0.0))
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_init].split(s_init.op.axis[1], factor=256)
    s[s_init].vectorize(xi)
    s[s_init].parallel(xo)
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=256)
    s[s_update].vectorize(xi)
    s[s_update].parallel(xo)
    a = np.arange(10 * 300, dtype="float32").reshape(10, 300)
    b = np.zeros_like(a)
    tvm.build(s, [X, s_scan])(a, b)
    np.testing.assert_allclose(b, np.cumsum(a, axis=0))


def test_the_tutorial_s_scan_of_several_stages() -> None:
    X, s_state = te.placeholder((9, 70), name="X"), te.placeholder((9, 70))
    s_init = te.compute((1, 70), lambda _, i: X[0, i])
    s1 = te.compute((9, 70), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s2 = te.compute((9, 70), lambda t, i: s1[t, i] + X[t, i], name="s2")
    s_scan = te.scan(s_init, s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, _ = s[s2].split(s2.op.axis[1], factor=32)
    s[s1].compute_at(s[s2], xo)
    a = np.ones((9, 70), "float32")
    b = np.zeros_like(a)
    tvm.build(s, [X, s_scan])(a, b)
    np.testing.assert_array_equal(b[:, 5], 2.0 ** np.arange(1, 10) - 1)


def test_the_tutorial_s_scan_of_two_states() -> None:
    X = te.placeholder((5, 4), name="X")
    s_state1, s_state2 = te.placeholder((5, 4)), te.placeholder((5, 3))
    s_init1 = te.compute((1, 4), lambda _, i: X[0, i])
    s_init2 = te.compute((1, 3), lambda _, i: te.const(0.0))
    s_update1 = te.compute((5, 4), lambda t, i: s_state1[t - 1, i] + X[t, i])
    s_update2 = te.compute((5, 3), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
    one, two = te.scan([s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X])
    s = te.create_schedule(one.op)
    x = np.ones((5, 4), "float32")
    a, b = np.zeros((5, 4), "float32"), np.zeros((5, 3), "float32")
    tvm.build(s, [X, one, two])(x, a, b)
    assert a[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert b[:, 0].tolist() == [0, 1, 3, 6, 10]


# --- what is told ---------------------------------------------------------------------------------


def test_explain_tells_states_from_inputs() -> None:
    cell = Cell()
    told = str(cell.s.explain())
    assert "h\n  where    the rows that S has so far" in told
    assert "its first rows are copied, the others computed in its loop t" in told
    assert "work     recompute factor 1: 25 stores for 25 elements" in told


REFUSALS: dict[str, tuple[Callable[[Cell], Any], str]] = {
    "parallel": (
        lambda c: c.s[c.S].parallel(c.time),
        "parallel of 't' in S: it is the time of a scan: each of its iterations needs the one "
        "before\n  try: parallel a loop of the update",
    ),
    "bind": (
        lambda c: c.s[c.S].bind(c.time, te.thread_axis("threadIdx.x")),
        "bind of 't' in S: it is the time of a scan: each of its iterations needs "
        "the one before\n  try: bind a loop of the update",
    ),
    "reorder": (
        lambda c: c.s[c.S].reorder(*reversed(c.s[c.S].split(c.time, factor=2))),
        "reorder in S: a scan computes its time steps in order\n"
        "  try: reorder the loops of its update stage",
    ),
    "predicate": (
        lambda c: c.s[c.S].set_store_predicate(c.time < 3),
        "set_store_predicate of S: S is a scan: it has a loop over time, in which its updates are "
        "computed\n  try: set_store_predicate of u",
    ),
    "move the update": (
        lambda c: c.s[c.u].compute_at(c.s[c.S], c.time),
        "compute_at of u at S, loop 't': u is an update of S: its rows are computed in "
        "the loop over time, and stored in the result of S\n"
        "  try: cache_write(u, ...) makes a stage that can be moved",
    ),
    "inline the beginning": (
        lambda c: c.s[c.first].compute_inline(),
        "compute_inline of first: S is a scan, which reads it from memory\n  try: leave it at root",
    ),
    "cache the scan": (
        lambda c: c.s.cache_write(c.S, "local"),
        "cache_write of S: it is a scan, which reads the rows that it has written\n"
        "  try: cache_write of u, or cache_read of S",
    ),
    "too far out": (
        lambda c: c.s[c.a].compute_at(c.s[c.S], c.s[c.S].split(c.time, factor=2)[0]),
        "compute_at of a at S, loop 't.outer': it depends on the previous row, so it must be "
        "computed in each step of S\n  try: one of u.t, u.i, S.t.inner",
    ),
    "ahead of time": (
        lambda c: c.s[c.a].double_buffer(),
        "double_buffer of a: it would be computed one step of S ahead, but it depends on the "
        "previous row\n  try: double_buffer a stage that does not depend on the scan's state, "
        "such as a cache_read of an input",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_steps_that_break_time_are_refused_with_a_reason(case: str) -> None:
    act, message = REFUSALS[case]
    with pytest.raises(ScheduleError) as caught:
        act(Cell())
    assert str(caught.value) == message


def test_what_is_computed_before_the_loop_stays_there() -> None:
    cell = Cell()
    with pytest.raises(TVMError, match="S reads first outside that loop"):
        cell.s[cell.first].compute_at(cell.s[cell.S], cell.time)


@pytest.mark.parametrize("where", ["first", "u", "D"])
def test_a_scan_that_no_loop_computes_is_not_kept_in_one(where: str) -> None:
    cell = Cell()
    D = te.compute((6, 5), lambda t, i: cell.S[t, i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[cell.S].store_at(s[where], s[where].op.axis[0])
    with pytest.raises(LoweringError, match="store_at of S: it is not yet computed inside that"):
        tvm.lower(s, [cell.X, cell.W, cell.U, D])
