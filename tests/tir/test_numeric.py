"""What operators do to numbers, in loops and in vectors, compared with numpy and Python."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import (
    BOOL,
    DTYPES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
    DType,
)
from minitvm.tir import (
    INTRINSICS,
    Buffer,
    Expr,
    For,
    Index,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
    all_of,
    any_of,
    binary,
    cast_to,
    compare,
    interpret,
    intrinsic,
    lane,
    load,
    negate,
    select,
)

Array = np.ndarray[Any, np.dtype[Any]]
BOTH = pytest.mark.parametrize("vector", [False, True], ids=["loop", "vector"])


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
@pytest.mark.parametrize(
    "name", [n for n, k in INTRINSICS.items() if "float" in k.on and not k.takes]
)
def test_intrinsics_compute_what_their_name_says(name: str, type_: str, vector: bool) -> None:
    a = np.array([0.1, 0.5, 1.0, 1.5, 2.5, 3.75], type_)
    if name in ("asin", "acos"):
        a /= 4  # they are defined up to 1
    args = [a, a[::-1].copy()][: INTRINSICS[name].args]
    reference = REFERENCE.get(name) or getattr(math, name)
    wanted = [reference(*map(float, xs)) for xs in zip(*args, strict=True)]
    result = compute(lambda *xs: intrinsic(name, *xs), *args, vector=vector)
    np.testing.assert_allclose(result, wanted, rtol=1e-6 if type_ == "float32" else 1e-14)
    assert result.dtype == (INTRINSICS[name].gives or type_)


def test_nothing_warns() -> None:
    big = np.array([3e38, 0.0], "f4")
    with np.errstate(all="raise"):
        compute(lambda x: x * x / 0, big)
        compute(lambda x: x // 0, np.array([-128], "i1"))


@BOTH
def test_select_chooses_by_element(vector: bool) -> None:
    a = np.array([-1.0, 2.0, -3.0], "f4")
    result = compute(lambda x: select(x > 0, x, x * 0), a, vector=vector)
    np.testing.assert_array_equal(result, np.where(a > 0, a, a * 0))
