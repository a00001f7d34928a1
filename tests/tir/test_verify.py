"""Each law of the loop IR: a program that breaks it, and the words that say so."""

import pickle
from typing import Any

import pytest

from minitvm.base import BOOL, FLOAT32, FLOAT64, INT32, DType, VerifyError, node
from minitvm.tir import (
    NOTHING,
    Allocate,
    AsIndex,
    Binary,
    Buffer,
    Call,
    Compare,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Index,
    Load,
    Not,
    Pointer,
    Pragma,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
    View,
    cast_to,
    compare,
    const,
    floordiv,
    if_then_else,
    lane,
    load,
    minimum,
    seq,
    value,
    verify,
)

A, C = Buffer("A", (8, 8), FLOAT32), Buffer("C", (8, 8), FLOAT32)
K, F = Buffer("K", (8,), INT32), Buffer("F", (8,), BOOL)
V = Buffer("V", (64,), FLOAT32)
n = Var("n", 1, 100)
i, j = Var("i", 0, 7), Var("j", 0, 7)
zero = const(0.0)


def function(body: Stmt) -> PrimFunc:
    """`body` as a function that may write C and V."""
    return PrimFunc("f", (A, K, F, C, V, n), body, (C, V), (n,))


def over(body: Stmt) -> For:
    return For(i, 8, For(j, 8, body))


def refusal(body: Stmt, level: Any = "nest") -> str:
    """Why `body` is refused, without the text of the statement."""
    with pytest.raises(VerifyError) as refused:
        verify(function(body), level)
    return refused.value.args[1]


def test_a_lawful_program_passes_at_its_level() -> None:
    T = Buffer("T", (8,), FLOAT32)
    nest = over(Allocate(T, seq(
        Store(T, (j,), load(A, i, j)),
        If(compare("<", i, n), Pragma("note", 1, Store(C, (i, j), load(T, j) + 1))),
        Evaluate(value(i)),
    )))  # fmt: skip
    verify(function(nest))
    flat = over(Store(C, (i * 8 + j,), load(A, i * 8 + j)))
    verify(function(flat), "flat")
    verify(function(For(i, 8, Store(C, (i * 8 + lane(8),), load(A, i * 8 + lane(8))))), "vector")
    verify(function(NOTHING), "vector")


def test_the_message_quotes_the_statement_as_the_function_prints_it() -> None:
    other = Var("i", 0, 7)
    body = For(i, 8, For(other, 8, Store(A, (i, other), zero)))
    with pytest.raises(VerifyError) as refused:
        verify(function(body))
    assert str(refused.value) == (
        "f: A[i, i_1] = 0.0: 'A' is an input: PrimFunc.outputs does not list it"
    )
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_the_message_quotes_only_the_head_of_a_nest() -> None:
    with pytest.raises(VerifyError, match=r"^f: for i in range\(9\): 'i' is declared as"):
        verify(function(For(i, 9, For(j, 8, Store(C, (i, j), zero)))))


# --- variables and buffers -----------------------------------------------------------------------


def test_a_variable_is_counted_by_a_loop_around_it() -> None:
    outside = seq(For(i, 8, NOTHING), Store(C, (i, 0), zero))
    assert (
        refusal(outside)
        == "'i' is neither the counter of an enclosing loop nor a parameter or size"
    )
    assert "'j' is neither the counter" in refusal(For(i, j + 1, NOTHING))
    assert "'j' is neither" in refusal(Allocate(Buffer("T", (j + 1,), FLOAT32), NOTHING))


def test_a_variable_has_one_value_at_a_time() -> None:
    once = For(i, 8, Store(C, (i, 0), zero))
    again = "is already the counter of an enclosing loop, a parameter or a size"
    assert refusal(For(i, 8, once)) == f"'i' {again}"
    assert refusal(For(n, 8, NOTHING)) == f"'n' {again}"
    verify(function(seq(once, once)))  # what writing out an unrolled loop leaves


def test_a_buffer_is_a_parameter_or_allocated_around_its_use() -> None:
    T = Buffer("T", (8,), FLOAT32)
    store = Store(T, (0,), zero)
    assert refusal(store) == "'T' is neither a parameter nor allocated by an enclosing statement"
    assert "'T'" in refusal(seq(Allocate(T, store), Store(C, (0, 0), load(T, 0))))


def test_only_outputs_and_allocations_are_written() -> None:
    assert refusal(Store(A, (0, 0), zero)).startswith("'A' is an input")


def test_an_output_is_a_parameter() -> None:
    with pytest.raises(VerifyError, match="f: output 'C': is not a parameter"):
        verify(PrimFunc("f", (A,), NOTHING, (C,)))


# --- subscripts ----------------------------------------------------------------------------------


def test_an_access_has_an_index_per_dimension_or_one_offset() -> None:
    verify(function(Store(C, (63,), zero)))
    cube = Buffer("T", (2, 2, 2), FLOAT32)
    assert refusal(Allocate(cube, Store(cube, (0, 0), zero))) == (
        "'T' has 3 dimensions, 2 indices given"
    )


@pytest.mark.parametrize("level", ["flat", "vector"])
def test_after_flatten_an_access_has_one_offset(level: str) -> None:
    assert refusal(Store(C, (0, 0), zero), level) == (
        "'C' has 2 indices; after flatten an access has one offset"
    )
    scalar = Buffer("s", (), FLOAT32)
    assert "0 indices" in refusal(Allocate(scalar, Store(scalar, (), zero)), level)


@pytest.mark.parametrize(
    ("buffer", "at"),
    [
        (C, (8, 0)),
        (C, (0, -1)),
        (C, (i - 9, 0)),
        (C, (64,)),
        (Buffer("T", (n, 4), FLOAT32), (n, 0)),
        (Buffer("T", (n, 4), FLOAT32), (n * 4 + i,)),
        (Buffer("T", (2, 4), FLOAT32, strides=(6, 1)), (10,)),
    ],
)
def test_an_access_that_can_only_miss_is_refused(buffer: Buffer, at: tuple[Index, ...]) -> None:
    store: Stmt = For(i, 8, Store(buffer, at, zero))
    body = store if buffer is C else Allocate(buffer, store)
    assert "is outside" in refusal(body)


def test_a_miss_says_what_the_bounds_are() -> None:
    assert refusal(Store(C, (0, 9), zero)) == "C[0, 9] is outside 'C': 9 is not in 0 .. 7"


def test_an_access_that_may_not_happen_may_miss() -> None:
    miss = Store(C, (i + 8, 0), zero)
    verify(function(For(i, 8, If(load(F, i), miss))))
    verify(function(For(i, 8, Store(C, (i, 0), if_then_else(load(F, i), load(A, i - 8, 0), 0.0)))))
    empty = Var("m", 0)
    f = PrimFunc("f", (C, empty), For(Var("k", 0), empty, Store(C, (9, 9), zero)), (C,))
    verify(f)


# --- types ---------------------------------------------------------------------------------------


@node
class Foreign(Expr):
    """A node of a higher package."""

    dtype: DType = FLOAT32


a, d = load(A, 0, 0), const(1.0, "float64")


@pytest.mark.parametrize(
    ("e", "why"),
    [
        (Binary("add", a, d, FLOAT32), "add of float32 and float64 cannot give float32"),
        (Binary("add", a, a, FLOAT64), "add of float32 and float32 cannot give float64"),
        (Binary("floordiv", a, a, FLOAT32), "floordiv is not defined on float32"),
        (Binary("pow", load(K, 0), load(K, 0), INT32), "pow is not defined on int32"),
        (Binary("and", a, a, FLOAT32), "and is not defined on float32"),
        (Binary("add", load(F, 0), load(F, 0), BOOL), "add is not defined on bool"),
        (Binary("add", a, n, FLOAT32), "n is not a typed value: tir.value converts it"),
        (Binary("add", a, 1.0, FLOAT32), "1.0 is not a typed value"),
        (Compare("<", a, d), "float32 is compared with float64"),
        (Compare("<", a, n), "an index is compared with a value"),
        (Not(a), "tir.Not is not defined on float32"),
        (Select(a, a, a, FLOAT32), "the condition is float32, not bool"),
        (Select(load(F, 0), a, d, FLOAT32), "arms of float32 and float64 cannot give float32"),
        (IfThenElse(load(F, 0), a, n, FLOAT32), "n is not a typed value"),
        (Call("exp", (a, a), FLOAT32), "exp takes 1 arguments, 2 given"),
        (Call("exp", (a,), FLOAT64), "exp of float32 cannot give float64"),
        (Call("isnan", (a,), FLOAT32), "isnan of float32 cannot give float32"),
        (Load(A, (AsIndex(a, 0, 7), 0), FLOAT32), "float32 is used as an index"),
        (Load(A, (0, 0), FLOAT64), "A[0, 0] has type float64, but 'A' is of float32"),
        (Load(A, (load(K, 0), 0), FLOAT32), "K[0] is a value, not an index"),
        (View(Load(A, (0, 0), FLOAT32), (a,), (1,)), "A[0, 0] is a value, not an index"),
        (Pointer(Load(A, (0, 0), FLOAT32), "r", a), "A[0, 0] is a value, not an index"),
        (Foreign(), "Foreign is not part of the loop IR"),
    ],
)
def test_operators_do_not_convert(e: Expr, why: str) -> None:
    assert why in refusal(Evaluate(e))


def test_a_store_does_not_convert() -> None:
    assert refusal(Store(C, (0, 0), d)) == "a float64 is stored in 'C', a buffer of float32"
    assert refusal(Store(C, (0, 0), n)) == "n is not a typed value: tir.value converts it"


def test_a_condition_is_bool() -> None:
    assert refusal(If(load(K, 0), NOTHING)) == "the condition is int32, not bool"


def test_an_extent_is_an_index() -> None:
    assert refusal(For(i, load(K, 0), NOTHING)).startswith("K[0] is a value, not an index")
    assert refusal(For(i, 1.5, NOTHING)).startswith("1.5 is a value")  # type: ignore[arg-type]


def test_intrinsics_of_a_target_may_have_any_arguments() -> None:
    verify(function(Evaluate(Call("barrier", (const(1), a), INT32))))


# --- vectors -------------------------------------------------------------------------------------


def test_a_statement_has_one_width() -> None:
    body = Store(C, (0, lane(8)), load(A, 0, lane(4)))
    assert refusal(body) == "the statement mixes vectors of 4 and 8 lanes"


def test_a_statement_has_the_width_of_the_condition_around_it() -> None:
    mask = compare("<", lane(8), n)
    verify(function(If(mask, For(i, 8, Store(C, (i, lane(8)), zero)))))
    store = Store(C, (0, lane(4)), zero)
    assert refusal(If(mask, store)) == "the statement mixes vectors of 4 and 8 lanes"
    assert "under a vector condition" in refusal(If(mask, Store(C, (0, 0), zero)))


def test_a_vector_is_not_stored_in_one_element() -> None:
    assert refusal(Store(C, (0, 0), load(A, 0, lane(8)))) == "8 lanes are stored in one element"


def test_an_extent_is_a_scalar() -> None:
    assert refusal(For(i, minimum(lane(8), 8), NOTHING)) == "an extent is a vector, not a scalar"


# --- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_at_level_vector_no_loop_is_left_to_unfold(kind: Any) -> None:
    body = For(i, 8, Store(C, (i,), zero), kind)
    verify(function(body), "flat")
    assert refusal(body, "vector").startswith("the loop remains after")


@pytest.mark.parametrize(
    ("v", "extent"),
    [
        (Var("v", 0, 7), 9),
        (Var("v", 1, 7), 8),
        (Var("v", 0, 7), n),
        (Var("v", 0, 99, n - 2), n),
    ],
)
def test_the_claimed_range_of_a_variable_covers_its_loop(v: Var, extent: Index) -> None:
    assert refusal(For(v, extent, NOTHING)).startswith("'v' is declared ")


@pytest.mark.parametrize(
    ("v", "extent"),
    [
        (Var("v"), 9),
        (Var("v", 0, 7), 8),
        (Var("v", 0, 7), 4),
        (Var("v", 0, 99, n - 1), n),
        (Var("v", 0, 7), minimum(8, n)),
        (Var("v", 0, 12), floordiv(n + 7, 8)),
    ],
)
def test_a_range_may_be_wider_than_the_loop(v: Var, extent: Index) -> None:
    verify(function(For(v, extent, NOTHING)))


def test_constants_of_every_kind_are_values() -> None:
    verify(function(seq(Evaluate(Const(1, INT32)), Evaluate(cast_to(n, "float64")))))
