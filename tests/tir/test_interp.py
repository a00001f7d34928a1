"""The interpreter gives the loop IR its meaning: it is compared with numpy and Python only."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.base import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    ArgumentError,
    DType,
    VerifyError,
)
from minitvm.tir import (
    INTRINSICS,
    Allocate,
    Buffer,
    Call,
    Evaluate,
    Expr,
    For,
    If,
    Index,
    LoopKind,
    Pragma,
    PrimFunc,
    Stmt,
    Store,
    Var,
    all_of,
    any_of,
    binary,
    cast_to,
    compare,
    const,
    floordiv,
    floormod,
    if_then_else,
    interpret,
    intrinsic,
    lane,
    load,
    maximum,
    minimum,
    negate,
    select,
    seq,
    substitute,
)

Array = np.ndarray[Any, np.dtype[Any]]
KINDS: tuple[LoopKind, ...] = ("serial", "parallel", "vectorize", "unroll", "bind")


def buffer(name: str, *shape: Index, type_: DType = FLOAT32, **more: Any) -> Buffer:
    return Buffer(name, shape, type_, **more)


def loop(n: Index, body: Callable[[Any], Stmt], kind: LoopKind = "serial", name: str = "i") -> For:
    last = n - 1
    v = Var(name, 0, last) if isinstance(last, int) else Var(name, 0, math.inf, last)
    return For(v, n, body(v), kind)


def compute(e: Callable[..., Any], *inputs: Array, vector: bool = False) -> Array:
    """e(one element of each input) over all elements, as a loop or as one vector statement."""
    size = len(inputs[0])
    params = [buffer(f"x{k}", size, type_=DTYPES[a.dtype.name]) for k, a in enumerate(inputs)]

    def element(at: Index) -> Expr:
        return e(*[load(b, at) for b in params])

    type_ = element(0).dtype
    out = buffer("out", size, type_=type_)
    everywhere = loop(size, lambda i: Store(out, (i,), element(i)))
    body = Store(out, (lane(size),), element(lane(size))) if vector else everywhere
    result = np.zeros(size, type_.numpy)
    interpret(PrimFunc("f", (*params, out), body, (out,)), *inputs, result)
    return result


# --- values: the meaning of every operator, as a loop and as a vector ----------------------------

INTEGERS = {
    t: np.array([t.low, t.low + 1, max(t.low, -8), max(t.low, -3), 0, 1, 2, 7, t.high], t.numpy)
    for t in (INT8, UINT8, INT32, INT64)
}
BOTH = pytest.mark.parametrize("vector", [False, True], ids=["loop", "vector"])


def pairs(values: Array) -> tuple[Array, Array]:
    """Every pair of the values."""
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


@BOTH
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("op", "meaning"),
    [
        ("add", lambda a, b: a + b),
        ("sub", lambda a, b: a - b),
        ("mul", lambda a, b: a * b),
        ("floordiv", lambda a, b: a // b if b else 0),
        ("floormod", lambda a, b: a % b if b else 0),
        ("truncdiv", lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0),
        ("truncmod", lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0),
        ("min", min),
        ("max", max),
        ("bitand", lambda a, b: a & b),
        ("bitor", lambda a, b: a | b),
        ("bitxor", lambda a, b: a ^ b),
    ],
)
def test_integers_compute_as_python_does_and_wrap(
    op: Any, meaning: Callable[[int, int], int], type_: DType, vector: bool
) -> None:
    a, b = pairs(INTEGERS[type_])
    span = 1 << type_.bits
    exact = [meaning(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    wrapped = [(n - int(type_.low)) % span + int(type_.low) for n in exact]
    result = compute(lambda x, y: binary(op, x, y), a, b, vector=vector)
    assert result.tolist() == wrapped
    assert result.dtype == type_.numpy


@BOTH
@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_shifts_by_the_width_or_more_leave_nothing_but_the_sign(type_: DType, vector: bool) -> None:
    amounts = np.array([0, 1, 3, type_.bits - 1, type_.bits, type_.bits + 5, 100], type_.numpy)
    a, n = (g.ravel() for g in np.meshgrid(INTEGERS[type_], amounts))
    left = compute(lambda x, y: x << y, a, n, vector=vector)
    right = compute(lambda x, y: x >> y, a, n, vector=vector)
    span = 1 << type_.bits
    shifted = [int(x) << int(y) for x, y in zip(a, n, strict=True)]
    assert left.tolist() == [(s - int(type_.low)) % span + int(type_.low) for s in shifted]
    assert right.tolist() == [int(x) >> int(y) for x, y in zip(a, n, strict=True)]


FLOATS = np.array([-math.inf, -1e30, -2.5, -1.0, -0.0, 0.0, 0.1, 1.0, 7.5, 3e38, math.inf])


@BOTH
@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize(
    ("op", "meaning"),
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("div", np.divide),
        ("min", np.minimum),
        ("max", np.maximum),
        ("pow", np.power),
    ],
)
def test_floats_compute_in_their_own_precision(
    op: Any, meaning: Any, type_: DType, vector: bool
) -> None:
    a, b = pairs(FLOATS.astype(type_.numpy))
    result = compute(lambda x, y: binary(op, x, y), a, b, vector=vector)
    with np.errstate(all="ignore"):
        np.testing.assert_array_max_ulp(result, meaning(a, b), 2)
    assert result.dtype == type_.numpy


@BOTH
@pytest.mark.parametrize("values", [*INTEGERS.values(), FLOATS, FLOATS.astype("f4")], ids=lambda v: v.dtype.name)  # fmt: skip  # noqa: E501
@pytest.mark.parametrize(
    ("op", "meaning"),
    [("<", np.less), ("<=", np.less_equal), (">", np.greater), (">=", np.greater_equal),
     ("==", np.equal), ("!=", np.not_equal)],
)  # fmt: skip
def test_comparisons_give_bool(op: Any, meaning: Any, values: Array, vector: bool) -> None:
    a, b = pairs(values)
    result = compute(lambda x, y: compare(op, x, y), a, b, vector=vector)
    np.testing.assert_array_equal(result, meaning(a, b))


@BOTH
def test_conditions_combine(vector: bool) -> None:
    a, b = pairs(np.array([False, True]))
    assert compute(all_of, a, b, vector=vector).tolist() == (a & b).tolist()
    assert compute(any_of, a, b, vector=vector).tolist() == (a | b).tolist()
    assert compute(negate, a, vector=vector).tolist() == (~a).tolist()
    assert compute(lambda x, y: compare("==", x, y), a, b, vector=vector).tolist() == [
        True, False, False, True,
    ]  # fmt: skip


@BOTH
@pytest.mark.parametrize("to", [*INTEGERS, FLOAT32, FLOAT64, BOOL], ids=str)
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_integers_convert_as_numpy_does(of: DType, to: DType, vector: bool) -> None:
    a = INTEGERS[of]
    result = compute(lambda x: cast_to(x, to), a, vector=vector)
    np.testing.assert_array_equal(result, a.astype(to.numpy))


@BOTH
@pytest.mark.parametrize("of", ["float32", "float64"])
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_floats_truncate_and_saturate(to: DType, of: str, vector: bool) -> None:
    a = np.array([*FLOATS, math.nan, -0.9, 0.9, 126.9, 2.0**31, -(2.0**31), 2.0**63], of)
    wanted = [
        0 if math.isnan(x) else max(to.low, min(to.high, x if math.isinf(x) else math.trunc(x)))
        for x in a.tolist()
    ]
    assert compute(lambda x: cast_to(x, to), a, vector=vector).tolist() == wanted


def test_a_float_is_false_only_if_it_is_zero() -> None:
    a = np.array([0.0, -0.0, 0.5, math.nan], "f4")
    assert compute(lambda x: cast_to(x, "bool"), a).tolist() == [False, False, True, True]


REFERENCE: dict[str, Callable[..., float]] = {
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "exp2": lambda x: 2**x,
    "round": round,
    "abs": abs,
}


@BOTH
@pytest.mark.parametrize("type_", ["float32", "float64"])
@pytest.mark.parametrize("name", INTRINSICS)
def test_intrinsics_compute_what_their_name_says(name: str, type_: str, vector: bool) -> None:
    a = np.array([0.1, 0.5, 1.0, 1.5, 2.5, 3.75], type_)
    args = [a, a[::-1].copy()][: INTRINSICS[name].args]
    reference = REFERENCE.get(name) or getattr(math, name)
    wanted = [reference(*map(float, xs)) for xs in zip(*args, strict=True)]
    result = compute(lambda *xs: intrinsic(name, *xs), *args, vector=vector)
    np.testing.assert_allclose(result, wanted, rtol=1e-6 if type_ == "float32" else 1e-14)
    assert result.dtype == ("bool" if INTRINSICS[name].test else type_)


def test_nothing_warns() -> None:
    big = np.array([3e38, 0.0], "f4")
    with np.errstate(all="raise"):
        compute(lambda x: x * x / 0, big)
        compute(lambda x: x // 0, np.array([-128], "i1"))


# --- indices -------------------------------------------------------------------------------------


@given(st.integers(-40, 40), st.integers(1, 9))
def test_indices_compute_as_python_integers(x: int, d: int) -> None:
    X, D = Var("x"), Var("d", 1)
    out = buffer("out", 8, type_=INT64)
    formulas = [X * D - 3, X // 3, X % 3, floordiv(X, D), floormod(X, D), X * X, minimum(X, D), maximum(X, D)]  # fmt: skip  # noqa: E501
    body = seq(*[Store(out, (k,), cast_to(e, "int64")) for k, e in enumerate(formulas)])
    result = np.zeros(8, "i8")
    interpret(PrimFunc("f", (X, D, out), body, (out,)), x, d, result)
    assert result.tolist() == [x * d - 3, x // 3, x % 3, x // d, x % d, x * x, min(x, d), max(x, d)]


def test_data_may_be_an_index() -> None:
    where = np.array([3, 0, 2], "i4")
    A, K, out = buffer("A", 4), buffer("K", 3, type_=INT32), buffer("out", 3)
    gather = loop(3, lambda i: Store(out, (i,), load(A, load(K, i))))
    vector = Store(out, (lane(3),), load(A, load(K, lane(3))))
    for body in (gather, vector):
        result = np.zeros(3, "f4")
        interpret(PrimFunc("f", (A, K, out), body, (out,)), np.arange(4, dtype="f4"), where, result)
        assert result.tolist() == [3, 0, 2]


def test_an_index_divided_by_a_size_that_is_zero_is_an_error() -> None:
    n, out = Var("n"), buffer("out", 1)
    f = PrimFunc("f", (n, out), Store(out, (floordiv(5, n) * 0 + 3 // n,), const(1.0)), (out,))
    with pytest.raises(VerifyError, match="f: 3 // n: the divisor is 0, not > 0"):
        interpret(f, 0, np.zeros(1, "f4"))


# --- statements ----------------------------------------------------------------------------------


def matmul(n: int, m: int, k: int) -> PrimFunc:
    A, B, C = buffer("A", n, k), buffer("B", k, m), buffer("C", n, m)
    multiply = lambda i, j, r: Store(C, (i, j), load(C, i, j) + load(A, i, r) * load(B, r, j))  # noqa: E731
    body = loop(n, lambda i: loop(m, lambda j: seq(
        Store(C, (i, j), const(0.0)),
        loop(k, lambda r: multiply(i, j, r), name="r"),
    ), name="j"))  # fmt: skip
    return PrimFunc("matmul", (A, B, C), body, (C,))


def test_a_matmul_multiplies_matrices() -> None:
    a, b = np.arange(12.0, dtype="f4").reshape(3, 4), np.ones((4, 5), "f4")
    c = np.empty((3, 5), "f4")
    interpret(matmul(3, 5, 4), a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("kind", KINDS)
def test_loops_of_every_kind_run_all_their_iterations(kind: LoopKind) -> None:
    out = buffer("out", 5, type_=INT32)
    f = PrimFunc(
        "f", (out,), loop(5, lambda i: Store(out, (i,), cast_to(i, "int32")), kind), (out,)
    )
    result = np.zeros(5, "i4")
    interpret(f, result, rng=np.random.default_rng(0))
    assert result.tolist() == [0, 1, 2, 3, 4]


def running_sum(kind: LoopKind) -> PrimFunc:
    """Iteration i reads what iteration i - 1 wrote: a race if the loop is parallel."""
    out = buffer("out", 9)
    body = loop(8, lambda i: Store(out, (i + 1,), load(out, i) + 1), kind)
    return PrimFunc("f", (out,), body, (out,))


def test_a_race_shows_when_parallel_loops_are_shuffled() -> None:
    in_order, shuffled = np.zeros(9, "f4"), np.zeros(9, "f4")
    interpret(running_sum("parallel"), in_order)
    interpret(running_sum("parallel"), shuffled, rng=np.random.default_rng(0))
    assert in_order.tolist() == list(range(9))
    assert shuffled.tolist() != in_order.tolist()


def test_only_parallel_loops_are_shuffled() -> None:
    result = np.zeros(9, "f4")
    interpret(running_sum("serial"), result, rng=np.random.default_rng(0))
    assert result.tolist() == list(range(9))


def test_branches_pragmas_and_effects() -> None:
    out = buffer("out", 4)
    odd = lambda i: compare("==", i % 2, 1)  # noqa: E731
    body = loop(4, lambda i: Pragma("note", 1, seq(
        If(odd(i), Store(out, (i,), const(1.0)), Store(out, (i,), const(-1.0))),
        If(odd(i), Evaluate(load(out, i))),
    )))  # fmt: skip
    result = np.zeros(4, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [-1, 1, -1, 1]


def test_an_effect_without_a_meaning_here_is_refused() -> None:
    f = PrimFunc("f", (), Evaluate(Call("dma_copy", (), INT32)))
    with pytest.raises(VerifyError, match=r"dma_copy\(\.\.\.\): the interpreter does not know"):
        interpret(f)


# --- vectors and masks ---------------------------------------------------------------------------


def tail(n: int) -> PrimFunc:
    """out[i] = A[i] + 1 in blocks of 8 lanes, of which the last may be partly outside."""
    A, out = buffer("A", n), buffer("out", n)
    inside = lambda o: compare("<", o * 8 + lane(8), n)  # noqa: E731
    move = lambda o: Store(out, (o * 8 + lane(8),), load(A, o * 8 + lane(8)) + 1)  # noqa: E731
    body = loop((n + 7) // 8, lambda o: If(inside(o), move(o)), name="o")
    return PrimFunc("f", (A, out), body, (out,))


@pytest.mark.parametrize("n", [1, 7, 8, 13, 16])
def test_masked_lanes_touch_nothing(n: int) -> None:
    space = np.full(n + 16, -1, "f4")
    interpret(tail(n), np.arange(n, dtype="f4"), space[8 : 8 + n])
    assert space[8 : 8 + n].tolist() == list(range(1, n + 1))
    assert (space[:8] == -1).all()
    assert (space[8 + n :] == -1).all()


def test_an_else_branch_runs_on_the_other_lanes() -> None:
    out = buffer("out", 8)
    at = (lane(8),)
    body = If(compare("<", lane(8), 3), Store(out, at, const(1.0)), Store(out, at, const(2.0)))
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [1, 1, 1, 2, 2, 2, 2, 2]


def test_masks_nest() -> None:
    out = buffer("out", 8)
    inner = If(compare(">", lane(8), 3), Store(out, (lane(8),), const(1.0)))
    body = seq(If(compare("<", lane(8), 6), inner), Store(out, (lane(8),), load(out, lane(8)) + 1))
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [1, 1, 1, 1, 2, 2, 1, 1]


@pytest.mark.parametrize("least", [0, 8])
def test_a_scalar_load_under_a_mask_happens_only_if_a_lane_is_active(least: int) -> None:
    A, out = buffer("A", 0), buffer("out", 8)
    n = Var("n")
    masked = If(compare("<", lane(8), n), Store(out, (lane(8),), load(A, n)))
    f = PrimFunc("f", (n, A, out), masked, (out,))
    if least == 0:
        interpret(f, 0, np.zeros(0, "f4"), np.zeros(8, "f4"))
    else:
        with pytest.raises(VerifyError, match="not in 0"):
            interpret(f, least, np.zeros(0, "f4"), np.zeros(8, "f4"))


@BOTH
def test_if_then_else_guards_a_load(vector: bool) -> None:
    A, out = buffer("A", 6), buffer("out", 8)
    padded = lambda i: if_then_else(  # noqa: E731
        all_of(compare(">=", i, 1), compare("<", i, 7)), load(A, i - 1), -1.0
    )
    everywhere = loop(8, lambda i: Store(out, (i,), padded(i)))
    body = Store(out, (lane(8),), padded(lane(8))) if vector else everywhere
    result = np.zeros(8, "f4")
    interpret(PrimFunc("f", (A, out), body, (out,)), np.arange(6, dtype="f4"), result)
    assert result.tolist() == [-1, 0, 1, 2, 3, 4, 5, -1]


def test_an_arm_of_no_lane_is_not_computed() -> None:
    A, out, n = buffer("A", 0), buffer("out", 4), Var("n")
    e = if_then_else(compare("<", lane(4), n), load(A, n), 5.0)
    result = np.zeros(4, "f4")
    interpret(
        PrimFunc("f", (n, A, out), Store(out, (lane(4),), e), (out,)), 0, np.zeros(0, "f4"), result
    )
    assert result.tolist() == [5, 5, 5, 5]


def test_a_scalar_condition_may_choose_between_a_vector_and_a_scalar() -> None:
    A, out, n = buffer("A", 4), buffer("out", 4), Var("n")
    e = if_then_else(compare("<", n, 3), load(A, lane(4)), 7.0)
    f = PrimFunc("f", (n, A, out), Store(out, (lane(4),), e), (out,))
    for number, wanted in ((0, [0, 1, 2, 3]), (5, [7, 7, 7, 7])):
        result = np.zeros(4, "f4")
        interpret(f, number, np.arange(4, dtype="f4"), result)
        assert result.tolist() == wanted


def test_select_computes_both_arms() -> None:
    A, out = buffer("A", 4), buffer("out", 4)
    body = loop(4, lambda i: Store(out, (i,), select(load(A, i) > 1, load(A, i + 1), 0.0)))
    with pytest.raises(VerifyError, match="index 0 is 4"):
        interpret(PrimFunc("f", (A, out), body, (out,)), np.zeros(4, "f4"), np.zeros(4, "f4"))


@BOTH
def test_select_chooses_by_element(vector: bool) -> None:
    a = np.array([-1.0, 2.0, -3.0], "f4")
    result = compute(lambda x: select(x > 0, x, x * 0), a, vector=vector)
    np.testing.assert_array_equal(result, np.where(a > 0, a, a * 0))


def test_substituting_a_lane_vectorizes_a_loop() -> None:
    A, out = buffer("A", 4, 8), buffer("out", 8, 4)
    row, i = Var("row", 0, 3), Var("i", 0, 7)
    body = Store(out, (i, row), load(A, row, i) * cast_to(i, "float32"))
    serial = PrimFunc("f", (A, out), For(row, 4, For(i, 8, body)), (out,))
    vector = PrimFunc("f", (A, out), For(row, 4, substitute(body, {i: lane(8)})), (out,))
    a = np.random.default_rng(0).random((4, 8)).astype("f4")
    results = [np.zeros((8, 4), "f4") for _ in range(2)]
    for f, result in zip((serial, vector), results, strict=True):
        interpret(f, a, result)
    np.testing.assert_array_equal(results[0], (a * np.arange(8, dtype="f4")).T)
    np.testing.assert_array_equal(results[1], results[0])


# --- memory --------------------------------------------------------------------------------------


def test_one_index_is_an_offset_in_elements() -> None:
    A, out = buffer("A", 3, 4), buffer("out", 3, 4)
    copy = loop(12, lambda i: Store(out, (i,), load(A, i)))
    a, result = np.arange(12, dtype="f4").reshape(3, 4), np.zeros((3, 4), "f4")
    interpret(PrimFunc("f", (A, out), copy, (out,)), a, result, flat=True)
    np.testing.assert_array_equal(result, a)


@pytest.mark.parametrize("at", [(), (0,)])
def test_a_scalar_buffer_has_no_index_or_offset_zero(at: tuple[Index, ...]) -> None:
    out = buffer("out")
    result = np.zeros((), "f4")
    interpret(PrimFunc("f", (out,), Store(out, at, const(3.0)), (out,)), result)
    assert result == 3


@pytest.mark.parametrize("flat", [False, True])
def test_rows_may_be_padded(flat: bool) -> None:
    A, out = buffer("A", 3, 4, strides=(6, 1)), buffer("out", 3, 4)
    memory = np.arange(18, dtype="f4").reshape(3, 6)
    copy = lambda i, j: (  # noqa: E731
        Store(out, (i * 4 + j,), load(A, i * 6 + j)) if flat else Store(out, (i, j), load(A, i, j))
    )
    body = loop(3, lambda i: loop(4, lambda j: copy(i, j), name="j"))
    result = np.zeros((3, 4), "f4")
    interpret(PrimFunc("f", (A, out), body, (out,)), memory[:, :4], result)
    np.testing.assert_array_equal(result, memory[:, :4])


def test_a_padded_buffer_may_have_one_row_or_none() -> None:
    n = Var("n", 0)
    A = buffer("A", n, 4, strides=(6, 1))
    f = PrimFunc("f", (A,), loop(n, lambda i: Store(A, (i, 3), const(1.0))), (A,), (n,))
    memory = np.zeros((2, 7), "f4")
    interpret(f, memory[:0, :4])
    interpret(f, memory[:1, :4])
    assert memory.tolist() == [[0, 0, 0, 1, 0, 0, 0], [0] * 7]


@pytest.mark.parametrize("flat", [False, True])
def test_flat_says_what_one_index_of_a_strided_vector_means(flat: bool) -> None:
    A, out = buffer("A", 3, strides=(2,)), buffer("out", 3)
    body = loop(3, lambda i: Store(out, (i,), load(A, i * 2 if flat else i)))
    result = np.zeros(3, "f4")
    interpret(
        PrimFunc("f", (A, out), body, (out,)), np.arange(6, dtype="f4")[::2], result, flat=flat
    )
    assert result.tolist() == [0, 2, 4]


def test_an_allocation_lives_while_its_body_runs() -> None:
    T, out = buffer("T", 2, 2, scope="local", strides=(3, 1)), buffer("out", 4)
    body = loop(4, lambda i: Allocate(T, seq(
        Store(T, (i // 2, i % 2), cast_to(i, "float32")),
        Store(out, (i,), load(T, i // 2, i % 2)),
    )))  # fmt: skip
    result = np.zeros(4, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [0, 1, 2, 3]


def test_an_allocation_starts_without_values_each_time() -> None:
    T, out = buffer("T", 1), buffer("out", 2)
    body = loop(2, lambda i: Allocate(T, seq(
        If(compare("==", i, 0), Store(T, (0,), const(1.0))),
        Store(out, (i,), load(T, 0)),
    )))  # fmt: skip
    with pytest.raises(VerifyError, match=r"f: T\[0\]: read before it is written .*, at i = 1"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(2, "f4"))


def test_one_unwritten_lane_is_enough() -> None:
    T, out = buffer("T", 8), buffer("out", 8)
    write = If(compare("<", lane(8), 7), Store(T, (lane(8),), const(1.0)))
    body = Allocate(T, seq(write, Store(out, (lane(8),), load(T, lane(8)))))
    with pytest.raises(VerifyError, match=r"T\[0 : 8\]: read before it is written"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(8, "f4"))


def test_allocations_of_symbolic_size() -> None:
    n = Var("n", 1)
    A, out, T = buffer("A", n), buffer("out", n), buffer("T", n * 2)
    body = Allocate(T, seq(
        loop(n, lambda i: Store(T, (i * 2,), load(A, i)), name="w"),
        loop(n, lambda i: Store(out, (i,), load(T, i * 2))),
    ))  # fmt: skip
    a, result = np.arange(5, dtype="f4"), np.zeros(5, "f4")
    interpret(PrimFunc("f", (A, out), body, (out,), (n,)), a, result)
    np.testing.assert_array_equal(result, a)


def test_an_access_outside_names_buffer_index_loops_and_shape() -> None:
    n = Var("n", 1)
    A, out = buffer("A", n, 4), buffer("out", n)
    body = loop(n, lambda i: loop(5, lambda j: Store(out, (i,), load(A, i, j)), name="j"))
    f = PrimFunc("f", (A, out), body, (out,), (n,))
    with pytest.raises(VerifyError) as refused:
        interpret(f, np.zeros((2, 4), "f4"), np.zeros(2, "f4"))
    assert str(refused.value) == (
        "f: A[i, j]: index 1 is 4, not in 0 .. 3 (A is float32[2, 4]), at i = 0, j = 4"
    )


def test_a_negative_offset_is_outside() -> None:
    A, out = buffer("A", 2, 2), buffer("out", 4)
    body = loop(4, lambda i: Store(out, (i,), load(A, i - 1)))
    with pytest.raises(VerifyError, match=r"A\[i - 1\]: element -1 is not in 0 .. 3 .*, at i = 0"):
        interpret(PrimFunc("f", (A, out), body, (out,)), np.zeros((2, 2), "f4"), np.zeros(4, "f4"))


def test_a_store_outside_is_an_error_too() -> None:
    out = buffer("out", 4)
    body = loop(2, lambda i: Store(out, (i * 4 + lane(4),), const(0.0)))
    with pytest.raises(VerifyError, match=r"index 0 is 4, not in 0 \.\. 3"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(4, "f4"))


def test_a_program_that_breaks_a_law_does_not_run() -> None:
    out, result = buffer("out", 4), np.zeros(4, "f4")
    body = seq(Store(out, (0,), const(1.0)), Store(out, (1,), const(1)))
    with pytest.raises(VerifyError, match="a int32 is stored in 'out', which holds float32"):
        interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result[0] == 0


# --- arguments -----------------------------------------------------------------------------------


def scale() -> PrimFunc:
    """out[i, j] = A[i, j] * k for i < n, j < 2*n."""
    n, k = Var("n", 1, 100), Var("k")
    A, out = buffer("A", n, n * 2), buffer("out", n, n * 2)
    body = loop(n, lambda i: loop(n * 2, lambda j: Store(out, (i, j), load(A, i, j) * k), name="j"))
    return PrimFunc("scale", (A, k, out), body, (out,), (n,))


def test_sizes_are_taken_from_the_shapes() -> None:
    a, result = np.ones((3, 6), "f4"), np.zeros((3, 6), "f4")
    interpret(scale(), a, 4, result)
    assert (result == 4).all()


def zeros(*shape: int, type_: str = "f4") -> Array:
    return np.zeros(shape, type_)


def read_only() -> Array:
    a = zeros(3, 6)
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((zeros(3, 6), 1), r"scale\(A, k, out\): takes 3, 2 given"),
        ((zeros(3, 6), 1, 5), "scale: out: is int, not a numpy array"),
        ((zeros(3, 6), 1.5, zeros(3, 6)), "scale: k: is float, not an int"),
        ((zeros(3, 6, type_="f8"), 1, zeros(3, 6)), "scale: A: holds float64, not float32"),
        ((zeros(3), 1, zeros(3, 6)), "scale: A: has 1 dimensions, not 2"),
        ((zeros(3, 7), 1, zeros(3, 6)), r"scale: A.shape\[1\]: is 7, not 6"),
        ((zeros(3, 6), 1, zeros(4, 6)), r"scale: out.shape\[0\]: is 4, not 3"),
        ((zeros(6, 3).T, 1, zeros(3, 6)), r"scale: A.strides\[0\] in elements: is 1, not 6"),
        ((zeros(200, 400), 1, zeros(200, 400)), r"scale: n = 200: is not in 1 \.\. 100"),
        ((zeros(3, 6), 1, read_only()), "scale: out: is an output, and the array is read-only"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        interpret(scale(), *args)


def test_a_size_that_no_shape_tells_is_refused() -> None:
    n = Var("n")
    out = buffer("out", n * 2)
    f = PrimFunc("f", (out,), Store(out, (0,), const(0.0)), (out,), (n,))
    with pytest.raises(ArgumentError, match=r"f: out.shape\[0\]: is 4, not n\*2"):
        interpret(f, zeros(4))
