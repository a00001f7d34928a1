"""Recurrences over the first dimension: what they become, compute and refuse."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ArgumentError, ExprError, ScheduleError
from minitvm.tensor import Tensor, evaluate

TARGETS = ("interpreter", "python", "llvm")


def says(act: Callable[[], Any], kind: type[Exception] = ExprError) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def running_sum(rows: Any = 6) -> tuple[Tensor, Tensor]:
    """S[t] = S[t - 1] + X[t], from S[0] = 1"""
    X = te.placeholder((rows, 3), name="X")
    state = te.scan_state((rows, 3), name="state")
    first = te.compute((1, 3), lambda t, i: te.const(1.0), name="first")
    update = te.compute((rows, 3), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, te.scan(first, update, state, inputs=[X], name="S")


def network() -> tuple[list[Tensor], Tensor]:
    """h[t] = tanh(h[t - 1] @ W + X[t]), from h[0] = X[0]; H = 2h"""
    X, W = te.placeholder((5, 4), name="X"), te.placeholder((4, 4), name="W")
    h, k = te.scan_state((5, 4), name="h"), te.reduce_axis((0, 4), name="k")
    first = te.compute((1, 4), lambda t, i: X[0, i], name="first")
    hw = te.compute((5, 4), lambda t, i: te.sum(h[t - 1, k] * W[k, i], axis=k), name="hw")
    update = te.compute((5, 4), lambda t, i: te.tanh(hw[t, i] + X[t, i]), name="update")
    S = te.scan(first, update, h, name="S")
    return [X, W], te.compute((5, 4), lambda t, i: S[t, i] * 2.0, name="H")


def run(target: str, args: list[Tensor], *arrays: Any) -> None:
    s = te.create_schedule(args[-1].op)
    if target == "interpreter":
        tir.interpret(tvm.lower(s, args, until="nest"), *arrays)
        tir.interpret(tvm.lower(s, args), *arrays, flat=True)
    else:
        tvm.build(s, args, target)(*arrays)


def test_formulas_that_depend_on_the_state_run_inside_the_loop_over_time(
    golden: Callable[[str], None],
) -> None:
    inputs, H = network()
    golden(str(tvm.lower(te.create_schedule(H.op), [*inputs, H], until="nest")))


@pytest.mark.parametrize("target", TARGETS)
def test_a_recurrent_network_is_that_of_numpy(target: str) -> None:
    inputs, H = network()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 4), "float32"), rng.standard_normal((4, 4), "float32")
    h = np.zeros_like(x)
    h[0] = x[0]
    for t in range(1, 5):
        h[t] = np.tanh(h[t - 1] @ w + x[t])
    got = np.zeros_like(x)
    run(target, [*inputs, H], x, w, got)
    np.testing.assert_allclose(got, h * 2, rtol=1e-5)
    np.testing.assert_allclose(
        evaluate([H], dict(zip(inputs, (x, w), strict=True)))[0], h * 2, 1e-5
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [0, 1, 2, 6])
def test_the_number_of_rows_may_be_symbolic(target: str, rows: int) -> None:
    X, S = running_sum(te.size_var("T"))
    x = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
    got = np.zeros_like(x)
    run(target, [X, S], x, got)
    x[:1] = 1
    np.testing.assert_array_equal(got, np.cumsum(x, 0))


@pytest.mark.parametrize("target", TARGETS)
def test_several_states_advance_together(target: str) -> None:
    a, b = te.scan_state((7,), "int32", "a"), te.scan_state((7,), "int32", "b")
    one = te.compute((1,), lambda t: te.const(1), name="one")
    nil = te.compute((1,), lambda t: te.const(0), name="nil")
    up_a = te.compute((7,), lambda t: a[t - 1] + b[t - 1], name="up_a")
    up_b = te.compute((7,), lambda t: a[t - 1] + 0, name="up_b")
    A, B = te.scan([one, nil], [up_a, up_b], [a, b], name="fibonacci")
    got = [np.zeros(7, "int32"), np.zeros(7, "int32")]
    run(target, [B, A], got[1], got[0])
    assert (got[0].tolist(), got[1].tolist()) == ([1, 1, 2, 3, 5, 8, 13], [0, 1, 1, 2, 3, 5, 8])


@pytest.mark.parametrize("target", TARGETS)
def test_more_rows_of_the_past_may_be_read(target: str) -> None:
    s = te.scan_state((8,), "int32", "s")
    init = te.compute((2,), lambda t: te.const(1), name="init")
    update = te.compute((8,), lambda t: s[t - 1] + s[t - 2], name="update")
    F = te.scan(init, update, s, name="F")
    got = np.zeros(8, "int32")
    run(target, [F], got)
    assert got.tolist() == [1, 1, 2, 3, 5, 8, 13, 21]


# --- refusals ------------------------------------------------------------------------------------

STATE = te.scan_state((6, 3), name="state")
FIRST = te.compute((1, 3), lambda t, i: te.const(0.0), name="first")


def scan_of(f: Callable[..., Any], first: Tensor = FIRST, shape: Any = (6, 3)) -> Callable[[], Any]:
    return lambda: te.scan(first, te.compute(shape, f, name="update"), STATE, name="S")


BESIDE = te.compute(
    (7, 3), lambda t, i: te.if_then_else(t > 0, STATE[t - 1, i], 0.0), name="beside"
)


def two_lengths() -> None:
    a, b = te.scan_state((6,), name="a"), te.scan_state((6,), name="b")
    inits = [te.compute((n,), lambda t: te.const(0.0), name="init") for n in (1, 2)]
    updates = [te.compute((6,), lambda t: a[t - 1]), te.compute((6,), lambda t: b[t - 1])]
    te.scan(inits, updates, [a, b], name="S")


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "now": (
        scan_of(lambda t, i: STATE[t, i]),
        "scan S: update: it reads state[t, i], which for t >= 1 is not a row before t\n"
        "  try: init with more rows, or state[t - 1, ...]",
    ),
    "too early": (
        scan_of(lambda t, i: STATE[t - 2, i]),
        "scan S: update: it reads state[t - 2, i], which for t >= 1 is not a row before t\n"
        "  try: init with more rows, or state[t - 1, ...]",
    ),
    "no state": (
        lambda: te.scan(FIRST, FIRST, FIRST, name="S"),
        "scan S: the state first is computed\n  try: te.placeholder(shape, dtype, name)",
    ),
    "no time": (
        lambda: te.scan(FIRST, FIRST, te.placeholder((), name="p"), name="S"),
        "scan S: the state p has no time dimension\n  try: shape (T, ...)",
    ),
    "two lengths": (
        two_lengths,
        "scan S: the inits have 1, 2 rows\n  try: as many rows in each",
    ),
    "twice": (
        lambda: te.scan([FIRST] * 2, [FIRST] * 2, [te.scan_state((1, 3))] * 2, name="S"),
        "scan S: an update or state is given twice\n  try: one for each output",
    ),
    "shapes": (
        scan_of(lambda t, i: STATE[t - 1, i], shape=(5, 3)),
        "scan S: the shapes of first, update and state differ\n"
        "  try: (t0, n, ...), (T, n, ...) and (T, n, ...)",
    ),
    "types": (
        scan_of(lambda t, i: STATE[t - 1, i].astype("int32")),
        "scan S: update is int32, and the state is float32",
    ),
    "counts": (
        lambda: te.scan([FIRST], [], [STATE], name="S"),
        "scan S: the numbers of inits, updates and states are 1, 0, 1\n  try: equally many of each",
    ),
    "update": (
        lambda: te.scan(FIRST, te.placeholder((6, 3), name="u"), STATE, name="S"),
        "scan S: the update u is not a formula\n  try: te.compute",
    ),
    "time": (
        scan_of(lambda t, i: te.if_then_else(t > 0, BESIDE[t, i], 0.0)),
        "scan S: beside: its first axis is not time\n  try: lambda t, ...: ...",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_mistakes_are_refused_with_a_reason(case: str) -> None:
    act, message = REFUSALS[case]
    assert says(act) == message


def test_formulas_inside_are_read_at_their_own_time() -> None:
    inner = te.compute((6, 3), lambda t, i: STATE[t - 1, i] + 1.0, name="inner")
    update = scan_of(lambda t, i: te.if_then_else(t > 0, inner[t - 1, i], 0.0))
    assert says(update) == (
        "scan S: update: it reads inner[t - 1, i]: inner depends on the state, and only its row t "
        "exists\n  try: inner[t, ...]"
    )


def test_the_state_exists_only_inside() -> None:
    first = te.compute((1, 3), lambda t, i: STATE[0, i], name="first")
    assert says(scan_of(lambda t, i: STATE[t - 1, i], first)) == (
        "scan S: state is read outside of the scan: a state exists only while its scan runs\n"
        "  try: read the result of the scan"
    )


def test_a_placeholder_of_which_earlier_rows_are_read_is_the_state_of_a_scan_or_refused() -> None:
    A = te.placeholder((6,), name="A")
    C = te.compute((6,), lambda i: A[i - 1], name="C")
    assert says(lambda: te.create_schedule(C.op)) == (
        "compute C: A[i - 1] may leave A: its first index i - 1 can be negative, and A is not the "
        "state of a te.scan\n"
        "  try: te.if_then_else(i - 1 >= 0, A[i - 1], 0); or te.scan(init, C, A)"
    )


def test_parts_of_a_scan_are_not_read_or_kept_outside_of_it() -> None:
    _, H = network()
    (S,) = H.op.input_tensors
    update = S.op.updates[0]
    more = te.compute((5, 4), lambda t, i: update[t, i] + S[t, i], name="more")
    assert says(lambda: te.create_schedule(more.op), ScheduleError) == (
        "more reads update: that is a part of scan S, which keeps only its own result\n"
        "  try: read S instead"
    )
    assert says(lambda: te.create_schedule([S.op, update.op]), ScheduleError) == (
        "a schedule of update: it is a part of scan S, which keeps only its own result\n"
        "  try: pass S.op alone"
    )
    assert says(lambda: te.create_schedule(update.op)) == (
        "h is read outside of a scan: it stands for the rows that a scan has computed so far\n"
        "  try: schedule the result of te.scan"
    )


def test_a_state_is_no_argument() -> None:
    inputs, H = network()
    s = te.create_schedule(H.op)
    h = H.op.input_tensors[0].op.states[0]
    assert says(lambda: tvm.lower(s, [*inputs, h, H]), ArgumentError) == (
        "argument h: it is the state of a scan, which is stored in the result of that scan\n"
        "  try: args = [X, W, H]"
    )
