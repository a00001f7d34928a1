"""Verbs over any IR: what is unchanged stays the same object, what changes is folded again."""

import pytest

from minitvm.base import FLOAT32, INT32
from minitvm.tir import (
    NOTHING,
    TRUE,
    Allocate,
    AsIndex,
    Binary,
    Buffer,
    Const,
    Evaluate,
    Expr,
    For,
    If,
    IfThenElse,
    Index,
    Load,
    Pragma,
    Seq,
    Stmt,
    Store,
    Var,
    all_of,
    as_index,
    cast_to,
    children,
    const,
    free_of,
    if_then_else,
    index,
    intrinsic,
    lane,
    lanes,
    load,
    maximum,
    minimum,
    negate,
    rebuffer,
    rewrite,
    rewrite_expr,
    select,
    seq,
    substitute,
    text,
    variables,
    walk,
)

A, B = Buffer("A", (8, 8), FLOAT32), Buffer("B", (64,), FLOAT32)
K = Buffer("K", (8,), INT32)
i, j, n = Var("i", 0, 7), Var("j", 0, 7), Var("n", 1)
x, y = Var("x"), Var("y")
a = load(A, i, j)

EXPRESSIONS: list[Expr] = [
    x * y + (x + 1) // 4 - y % 3,
    minimum(x, y) + maximum(x, n),
    index(load(K, i)) + 1,
    a + 1,
    select(a > 0, a, 0),
    if_then_else(all_of(i < 4, negate(a < 1)), load(B, i * 8 + j), a),
    intrinsic("exp", cast_to(i, "float32")),
]
NEST = For(
    i,
    8,
    seq(
        For(j, n, If(j < n - i, Store(B, (i * 8 + j,), a * 2), Store(B, (0,), const(0.0)))),
        Allocate(Buffer("T", (4,), FLOAT32), Pragma("unroll", 4, Evaluate(a))),
    ),
)


@pytest.mark.parametrize("e", EXPRESSIONS, ids=text)
def test_an_expression_that_no_rule_changes_is_the_same_object(e: Expr) -> None:
    assert rewrite_expr(e, lambda part: part) is e
    assert substitute(e, {Var("other"): 1}) is e


def test_a_statement_that_no_rule_changes_is_the_same_object() -> None:
    assert rewrite(NEST, lambda s: s, lambda e: e) is NEST
    assert substitute(NEST, {Var("other"): 1}) is NEST
    assert rebuffer(NEST, {}) is NEST


def test_only_the_changed_part_is_rebuilt() -> None:
    kept, changed = Store(B, (i,), a), Store(B, (0,), const(0.0))
    new = substitute(seq(kept, For(x, 4, changed), Store(B, (x,), a)), {x: 3})
    assert isinstance(new, Seq)
    assert new.body[0] is kept
    assert text(new.body[2]) == "B[3] = A[i, j]"


@pytest.mark.parametrize(
    ("e", "to", "folded"),
    [
        (x * 4 + y, {x: 2}, "y + 8"),
        (x * y, {x: 3}, "y*3"),
        ((x + 1) // 4, {x: i * 4 + 3}, "i + 1"),
        (x % 4, {x: i * 4 + 1}, "1"),
        (minimum(x, y), {x: 3, y: 5}, "3"),
        (x + y, {x: y, y: x}, "y + x"),
        (load(B, x * 8 + y), {x: i, y: 1}, "B[i*8 + 1]"),
        (load(A, x, y), {x: lane(4), y: 0}, "A[0 : 4, 0]"),
        (cast_to(x, "int32") + load(K, i), {x: 3}, "3 + K[i]"),
        (if_then_else(x < 8, load(B, x), 0), {x: i}, "B[i]"),
        (if_then_else(all_of(x < 8, a > 0), a, 0), {x: i}, "(A[i, j] if A[i, j] > 0.0 else 0.0)"),
        (select(x < 0, a, 0.0), {x: i}, "0.0"),
        (negate(x < 0), {x: i}, "True"),
        (load(A, load(K, x), 0), {x: 1}, "A[K[1], 0]"),
    ],
)
def test_substitute_folds_what_it_puts_in(e: Expr, to: dict[Var, Index], folded: str) -> None:
    assert text(substitute(e, to)) == folded


def test_substitute_in_a_constant_is_the_constant() -> None:
    assert substitute(5, {x: 1}) == 5


def test_a_branch_that_is_decided_vanishes() -> None:
    then, other = Store(B, (0,), const(1.0)), Store(B, (0,), const(2.0))
    branch = If(x < 8, then, other)
    assert substitute(branch, {x: 3}) is then
    assert substitute(branch, {x: 9}) is other
    assert substitute(If(x < 8, then), {x: 9}) is NOTHING


def test_a_guarded_access_is_not_rebuilt_where_it_cannot_happen() -> None:
    guarded = if_then_else(x > 0, load(A, 8 // x, 0), 0.0)
    assert text(substitute(guarded, {x: 0})) == "0.0"


def test_bounds_of_data_used_as_an_index_survive_a_rewrite() -> None:
    new = substitute(as_index(load(K, x), 0, 3), {x: i})
    assert isinstance(new, AsIndex)
    assert (new.low, new.high) == (0, 3)


def test_rewrite_works_from_the_inside_out() -> None:
    seen: list[str] = []

    def note(s: Stmt) -> Stmt:
        seen.append(type(s).__name__)
        return s

    rewrite(NEST, note)
    assert seen == ["Store", "Store", "If", "For", "Evaluate", "Pragma", "Allocate", "Seq", "For"]


def test_rewrite_replaces_expressions_everywhere() -> None:
    def halve(e: Expr) -> Expr:
        return const(0.5) if isinstance(e, Const) and e is not TRUE else e

    assert text(rewrite(If(a > 1, Store(B, (0,), a + 1)), expr=halve)) == (
        "if A[i, j] > 0.5:\n  B[0] = A[i, j] + 0.5"
    )


def test_a_shared_part_is_rewritten_once() -> None:
    calls: list[Expr] = []

    def count(e: Expr) -> Expr:
        calls.append(e)
        return e

    rewrite_expr(a * a, count)
    assert len([e for e in calls if isinstance(e, Load)]) == 1


def test_rebuffer_replaces_loads_stores_and_allocations() -> None:
    D = Buffer("D", (64,), FLOAT32)
    s = Allocate(B, seq(Store(B, (0,), load(B, 1)), Store(A, (0, 0), a)))
    assert text(rebuffer(s, {B: D})) == (
        'D = allocate((64,), "float32", "global")\nD[0] = D[1]\nA[0, 0] = A[i, j]'
    )


def test_walk_visits_parents_before_children_in_order() -> None:
    e = if_then_else(i < 4, a, 0)
    assert [type(m).__name__ for m in walk(e)] == [
        "IfThenElse", "Compare", "Var", "Load", "Var", "Var", "Const",
    ]  # fmt: skip


def test_walk_of_an_integer_visits_nothing() -> None:
    assert list(walk(3)) == []


def test_children_are_the_nodes_directly_inside() -> None:
    assert [id(c) for c in children(Store(A, (i, 3), a))] == [id(i), id(a)]
    assert children(i) == []


def test_free_of_says_whether_a_variable_is_mentioned() -> None:
    assert not free_of(NEST, [n])
    assert free_of(NEST, [x, y])
    assert free_of(3, [x])


def test_variables_are_listed_once_in_order() -> None:
    assert [v.name for v in variables(x * y + load(B, y).indices[0] + i)] == ["x", "y", "i"]
    assert variables(4) == []


def test_lanes_is_the_width_of_a_vector_and_one_for_a_scalar() -> None:
    assert lanes(load(B, i + lane(4)) * 2) == 4
    assert lanes(a) == 1
    assert lanes(3) == 1


def test_seq_is_flat_and_drops_what_is_missing() -> None:
    one, two = Store(B, (0,), const(1.0)), Store(B, (1,), const(2.0))
    flat = seq(seq(one, two), None, NOTHING)
    assert isinstance(flat, Seq)
    assert [id(s) for s in flat.body] == [id(one), id(two)]
    assert seq(one) is one


def test_types_are_kept_through_a_rewrite() -> None:
    new = substitute(if_then_else(x < 4, a + cast_to(x, "float32"), a), {x: y})
    assert isinstance(new, IfThenElse)
    assert isinstance(new.a, Binary)
    assert new.dtype is new.a.dtype is FLOAT32
