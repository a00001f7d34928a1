"""Index arithmetic folds while it builds; whatever it folds to must mean the same integer."""

import copy
import gc
import itertools
import math
import operator
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.base import INT32, ExprError
from minitvm.tir import (
    FALSE,
    INF,
    TRUE,
    Buffer,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Lane,
    Linear,
    Product,
    Var,
    add,
    ceildiv,
    compare,
    elements,
    floordiv,
    floormod,
    index,
    is_index,
    lane,
    linear,
    load,
    lower_bound,
    maximum,
    minimum,
    mul,
    nonneg,
    prove_equal,
    row_strides,
    split_terms,
    sub,
    substitute,
    text,
    upper_bound,
)

i, j = Var("i", 0, 7), Var("j", 0, 3)
x, y = Var("x"), Var("y")
n = Var("n", 1)
t = Var("t", 0, INF, n - 1)  # counts a loop over n
N, M = Var("N", 0), Var("M", 0)  # sizes, perhaps 0


# --- expressions and their values, side by side --------------------------------------------------


@dataclass
class Twin:
    """An index and the integer it must be."""

    index: Index
    number: int


@dataclass
class World:
    """Twins built so far, and the variables they are built from."""

    values: dict[Var, int]
    twins: list[Twin]


BUILD: dict[str, tuple[Callable[[Index, Index], Index], Callable[[int, int], int]]] = {
    "add": (add, operator.add),
    "sub": (sub, operator.sub),
    "mul": (mul, operator.mul),
    "floordiv": (floordiv, operator.floordiv),
    "floormod": (floormod, operator.mod),
    "min": (minimum, min),
    "max": (maximum, max),
}
CONSTANTS = (4, 8, 2, 1, 3, 16, -1, -4, 12, 5, -3, 0)  # factors that divide one another
COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A handful of variables with values, and up to a dozen expressions grown from them."""
    least = draw(st.integers(0, 3))
    size = Var("n", least)
    values = {size: draw(st.integers(least, least + 20)), Var("u"): draw(st.integers(-30, 30))}
    for k in range(3):
        lo = draw(st.integers(-9, 9))
        hi = lo + draw(st.integers(0, 12))
        values[Var(f"v{k}", lo, hi)] = draw(st.integers(lo, hi))
    if values[size] > 0:
        values[Var("t", 0, INF, size - 1)] = draw(st.integers(0, values[size] - 1))
    world = World(values, [Twin(v, number) for v, number in values.items()])
    for _ in range(draw(st.integers(1, 12))):
        a = draw(st.sampled_from(world.twins))
        constant = draw(st.sampled_from(CONSTANTS))
        b = draw(st.sampled_from([Twin(constant, constant), *world.twins]))
        op = draw(st.sampled_from(sorted(BUILD)))
        if op in ("floordiv", "floormod") and lower_bound(b.index) < 1:
            continue
        build, meaning = BUILD[op]
        world.twins.append(Twin(build(a.index, b.index), meaning(a.number, b.number)))
    return world


@given(worlds())
@settings(max_examples=300)
def test_an_index_is_the_integer_it_was_built_to_be(world: World) -> None:
    for e in world.twins:
        assert substitute(e.index, world.values) == e.number


@given(worlds())
def test_the_text_of_an_index_is_python_for_it(world: World) -> None:
    names = {v.name: number for v, number in world.values.items()}
    for e in world.twins:
        assert eval(text(e.index), names) == e.number


@given(worlds())
def test_bounds_contain_the_value(world: World) -> None:
    for e in world.twins:
        assert lower_bound(e.index) <= e.number <= upper_bound(e.index)


@given(worlds())
def test_proofs_never_lie(world: World) -> None:
    for e in world.twins:
        assert e.number >= 0 or not nonneg(e.index)
        for other in world.twins:
            assert e.number == other.number or not prove_equal(e.index, other.index)


@given(worlds(), st.sampled_from(sorted(COMPARE)))
def test_a_decided_comparison_is_decided_right(world: World, op: str) -> None:
    for a in world.twins[-3:]:
        for b in world.twins:
            found, truth = compare(op, a.index, b.index), COMPARE[op](a.number, b.number)
            assert found is not TRUE or truth
            assert found is not FALSE or not truth


@given(worlds(), st.integers(2, 5), st.data())
def test_a_product_is_one_object_however_it_is_multiplied(
    world: World, count: int, data: st.DataObject
) -> None:
    variables = st.sampled_from(list(world.values))
    factors = [data.draw(variables) for _ in range(count)]

    def product(left: list[Var]) -> Index:
        """The factors in any order, in any nesting."""
        if len(left) == 1:
            return left[0]
        cut = data.draw(st.integers(1, len(left) - 1))
        return mul(product(left[:cut]), product(left[cut:]))

    first = product(factors)
    assert product(data.draw(st.permutations(factors))) is first
    number = math.prod(world.values[v] for v in factors)
    assert substitute(first, world.values) == number
    assert lower_bound(first) <= number <= upper_bound(first)


@given(worlds())
def test_building_an_index_again_from_its_parts_gives_the_same(world: World) -> None:
    rebuild = {FloorDiv: floordiv, FloorMod: floormod, Product: mul}
    for e in (twin.index for twin in world.twins):
        if type(e) in rebuild:
            assert rebuild[type(e)](e.a, e.b) is e
        if isinstance(e, Linear):
            assert prove_equal(linear(e.terms, e.const), e)


# --- what folds into what ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "folded"),
    [
        (i + 0, "i"),
        (i + j - i, "j"),
        (i * 2 + i * 3, "i*5"),
        ((i + 1) * (j + 2), "i*2 + i*j + j + 2"),
        (i // 8, "0"),
        (i % 8, "i"),
        ((x * 8 + i) // 8, "x"),
        ((x * 8 + i) % 8, "i"),
        ((x * 8 + i) // 4, "x*2 + i // 4"),
        ((x * 8 + j) // 4, "x*2"),
        ((x * 4 + i) // 8, "(x*4 + i) // 8"),
        ((x * 4 + j) // 8, "x // 2"),
        ((x * 4 + i) % 8, "(x*4 + i) % 8"),
        ((x * 4 + j) % 8, "x % 2*4 + j"),
        ((x * 6 + 4) // 2, "x*3 + 2"),
        (x // 4 // 8, "x // 32"),
        (x % 32 % 8, "x % 8"),
        (x // 4 * 4 + x % 4, "x"),
        (x // 4 * 4 + y % 4, "x // 4*4 + y % 4"),
        ((x + 3) // 4 * 8 + (x + 3) % 4 * 2, "x*2 + 6"),
        (x // 6 * 6 + x // 3 % 2 * 3 + x % 3, "x"),
        (x // 24 * 24 + x // 6 % 4 * 6 + x // 3 % 2 * 3 + x % 3 + 1, "x + 1"),
        (x // 6 * 12 + x // 3 % 2 * 6, "x // 3*6"),
        (x // 6 * 6 + x // 3 % 2, "x // 6*6 + x // 3 % 2"),
        ((x - 9) % 4, "(x + 3) % 4"),
        ((t + x * n) // n, "x"),
        ((t + x * n) % n, "t"),
        ((x * n * y + t) // n, "x*y"),
        ((x * n) * y - y * (n * x), "0"),
        (-i + 7, "7 - i"),
        (-(x // 4), "-(x // 4)"),
    ],
)
def test_sums_quotients_and_remainders_fold(e: Index, folded: str) -> None:
    assert text(e) == folded


def test_equal_atoms_are_one_object() -> None:
    assert (x + y) // 3 is (y + x) // 3
    assert x * y is y * x
    assert (x + 5) % 7 is (x + 12) % 7
    assert minimum(x, y) is minimum(y, x)
    assert minimum(x, y) is not maximum(x, y)


def test_equal_sums_are_the_same_though_not_one_object() -> None:
    assert prove_equal(x + y + 1, y + 1 + x)
    assert not prove_equal(x + y, x - y)
    assert prove_equal(3, 3)
    assert not prove_equal(3, x)


def test_an_atom_that_nobody_holds_is_forgotten() -> None:
    atom = x // 1234567
    watched = weakref.ref(atom)
    del atom
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    ("e", "lo", "hi"),
    [
        (i, 0, 7),
        (i * -2 + 3, -11, 3),
        (i * j, 0, 21),
        (i - j, -3, 7),
        (x, -INF, INF),
        (x % 5, 0, 4),
        ((i + 1) // 4, 0, 2),
        (minimum(x, i), -INF, 7),
        (n * 2, 2, INF),
    ],
)
def test_bounds_are_tight(e: Index, lo: float, hi: float) -> None:
    assert (lower_bound(e), upper_bound(e)) == (lo, hi)


def test_symbolic_tops_prove_what_intervals_cannot() -> None:
    assert lower_bound(n - t - 1) == -INF
    assert nonneg(n - t - 1)
    assert not nonneg(n - t - 2)


def test_a_minimum_that_is_decided_is_no_minimum() -> None:
    assert minimum(t, n) is t
    assert maximum(i, 9) == 9
    assert isinstance(minimum(i, j), Extremum)


@pytest.mark.parametrize("divisor", [0, -2])
@pytest.mark.parametrize("divide", [floordiv, floormod])
def test_divisors_are_positive(divide: Callable[[Index, Index], Index], divisor: int) -> None:
    with pytest.raises(ExprError, match="the divisor must be positive"):
        divide(x, divisor)


def test_split_terms_takes_a_sum_apart() -> None:
    assert split_terms(x * 2 + 3) == (((x, 2),), 3)
    assert split_terms(x) == (((x, 1),), 0)
    assert split_terms(5) == ((), 5)


def test_what_is_an_index() -> None:
    data = load(Buffer("K", (8,), INT32), i)
    assert is_index(3)
    assert is_index(x // 2)
    assert is_index(index(data))
    assert not is_index(data)
    assert not is_index(True)
    assert not is_index(1.0)


def test_there_is_one_lane_per_width_and_none_of_width_one() -> None:
    assert lane(8) is lane(8)
    assert isinstance(lane(8), Lane)
    assert lane(1) == 0


def test_the_lanes_of_an_aligned_block_share_a_quotient() -> None:
    assert text((x * 8 + lane(8)) // 8) == "x"
    assert text((x * 8 + lane(8)) % 8) == "lane(8)"


def test_nodes_are_frozen() -> None:
    with pytest.raises(AttributeError):
        x.name = "z"


def test_nodes_equal_only_themselves() -> None:
    assert hash(x) == object.__hash__(x)
    assert {x: 1}[x] == 1
    assert copy.copy(x) is not x


# --- buffers -------------------------------------------------------------------------------------


def test_a_buffer_is_row_major_unless_its_strides_say_otherwise() -> None:
    assert row_strides(Buffer("A", (4, 8, 2), INT32)) == (16, 2, 1)
    assert row_strides(Buffer("A", (4, 8), INT32, strides=(10, 1))) == (10, 1)
    assert row_strides(Buffer("A", (), INT32)) == ()


def test_the_elements_of_a_buffer_span_its_gaps() -> None:
    assert elements(Buffer("A", (4, 8), INT32)) == 32
    assert elements(Buffer("A", (4, 8), INT32, strides=(10, 1))) == 38
    assert elements(Buffer("A", (), INT32)) == 1
    assert elements(Buffer("A", (0, 1, 1), INT32, strides=(11, 11, 1))) == 0
    assert text(elements(Buffer("A", (n, 4), INT32))) == "n*4"


def test_a_quotient_rounded_up_cancels_exactly() -> None:
    assert [ceildiv(10, 4), ceildiv(12, 4), ceildiv(0, 4)] == [3, 3, 0]
    assert [ceildiv(e, N) for e in (N, mul(N, 3), 0)] == [1, 3, 0]
    assert prove_equal(ceildiv(mul(N, M), M), N)
    assert ceildiv(add(N, 2), add(N, 2)) == 1
    assert ceildiv(floordiv(N, 4), floordiv(N, 4)) == 1


@pytest.mark.parametrize("a", [mul(N, 1), mul(N, M), add(mul(N, M), 1), sub(N, 3), 7, add(M, 1)])
@pytest.mark.parametrize("b", [M, add(M, 1), mul(M, 2), floordiv(M, 2)])
def test_a_quotient_rounded_up_is_right_and_in_its_bounds(a: Index, b: Index) -> None:
    e = ceildiv(a, b)
    for n, m in itertools.product(range(7), range(7)):
        values = {N: n, M: m}
        x, y, found = (substitute(i, values) for i in (a, b, e))
        if isinstance(x, int) and isinstance(y, int) and y >= 1:
            assert found == -(-x // y)
            assert lower_bound(e) <= found <= upper_bound(e)
