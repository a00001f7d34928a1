"""Ready-made parts: a right answer passes, and each kind of wrong one gets its own message."""

import itertools

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.cachesim import Cache
from minitvm.edu import (
    Fact,
    at_most,
    equal,
    facts,
    formula,
    misses,
    problem,
    same_text,
    schedule_correct,
    speed,
    visit_order,
    visits,
)
from minitvm.edu.bench import MAX_ROUNDS, Ratio, time_ratio
from minitvm.edu.checkers import differs, wrong_element
from minitvm.edu.item import AnswerError, Outcome, Part
from minitvm.edu.live import call_in_process
from minitvm.edu.schedules import timed_outcome, wrong_results


def product(n, m, k):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    return A, B, te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def small(rng):
    return (problem(product, *(int(x) for x in rng.integers(3, 12, 3))),)


def square(rng):
    return (problem(product, 32, 32, 32),)


def outcome(part: Part, answer) -> Outcome:
    return part.check(lambda *args: call_in_process(answer, args), np.random.default_rng(0))


def naive(A, B, C):
    return te.create_schedule(C.op)


def row_wise(A, B, C):
    s = te.create_schedule(C.op)
    (i, j), (r,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(i, r, j)
    return s


def column_order(A, B, C):
    s = te.create_schedule(C.op)
    s[C].reorder(*reversed(s[C].op.axis))
    return s


def column_by_column(A, B, C):
    rows, columns = C.shape
    return [(i, j) for j in range(columns) for i in range(rows)]


# --- functions and formulas ----------------------------------------------------------------------


def numbers(rng):
    return (int(rng.integers(100)), [1, 2])


def test_an_equal_function_passes_and_another_is_shown_with_its_arguments() -> None:
    part = equal(lambda n, rest: [n, *rest], numbers)
    assert outcome(part, lambda n, rest: (n, *rest)).status == "passed"
    bad = outcome(part, lambda n, rest: [n, 1, 3])
    assert (bad.message, bad.expected, bad.got) == ("wrong-value", "[85, 1, 2]", "[85, 1, 3]")
    assert "arguments (85, [1, 2]): [2]: got 3, want 2" in bad.where


@pytest.mark.parametrize(
    ("got", "want", "found"),
    [
        ([1, 2], (1, 2), ""),
        (1.0, 1, ""),
        ([1], [1, 2], "1 elements, not 2"),
        ("a", 1, "str instead of a number"),
        (True, 1, ""),
        (1, True, "another value"),
        ({"a": 1}, {"b": 1}, "the keys are 'a', not 'b'"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "['a']: [1]: "),
        (None, {"b": 1}, "NoneType instead of a dict"),
        (None, [1, 2], "NoneType instead of a list"),
        (np.array([1, 2]), [1, 2], ""),
        (np.array([1, 3]), [1, 2], "[1]: got 3, want 2"),
        (float("nan"), 1.0, "got nan, want 1.0"),
        (np.zeros(2), np.zeros(3), "shape (2,), not (3,)"),
        ("x", "x", ""),
        ("x", "y", "another value"),
    ],
    ids=str,
)
def test_the_first_difference_of_plain_values_is_named(got, want, found: str) -> None:
    assert differs(got, want).startswith(found)
    assert bool(differs(got, want)) == bool(found)


def factors(n, k, m):
    return te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")


def two(rng):
    return (problem(factors, *(int(x) for x in rng.integers(3, 12, 3))),)


def times(A, B):
    k = te.reduce_axis((0, A.shape[1]), name="k")
    shape = (A.shape[0], B.shape[1])
    return te.compute(shape, lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (times, ""),
        (lambda A, B: 3, "wrong-type"),
        (lambda A, B: te.compute((10**6, 10**6), lambda i, j: A[0, 0]), "too-large"),
        (lambda A, B: te.compute((2, 2), lambda i, j: A[0, 0]), "wrong-shape"),
        (lambda A, B: te.compute((A.shape[0], B.shape[1]), lambda i, j: A[0, 0]), "wrong-value"),
    ],
)
def test_a_formula_is_evaluated_by_the_grader(answer, message: str) -> None:
    assert outcome(formula(np.matmul, two), answer).message == message


def test_the_first_wrong_element_is_shown() -> None:
    found = wrong_element(np.array([[0.0, 2.0]]), np.ones((1, 2)), 0, 0, "case 1", "")
    assert (found.expected, found.got) == ("1.0", "0.0")
    assert found.where == "element [0, 0]; case 1; 2 of 2 elements differ"
    assert wrong_element(np.ones(2), np.ones(2), 0, 0, "case 1", "") is None


def test_arrays_that_cannot_be_compared_differ() -> None:
    found = wrong_element(np.ones(2), np.ones(3), 0, 0, "case 1", "")
    assert (found.message, found.got) == ("wrong-value", "shape (2,), not (3,)")


# --- schedules -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "interpreter"])
def test_a_schedule_that_computes_the_formula_is_correct(target: str) -> None:
    assert outcome(schedule_correct(small, target=target), row_wise).status == "passed"


def test_what_is_no_schedule_is_a_wrong_type() -> None:
    assert outcome(schedule_correct(small), lambda A, B, C: C).message == "wrong-type"
    with pytest.raises(AnswerError, match="not a schedule"):
        outcome(facts(small, ()), lambda A, B, C: C)


def chain(n):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return A, B, te.compute((n,), lambda i: B[i] * 2.0, name="C")


def test_a_tensor_on_the_way_need_not_be_stored() -> None:
    def fused(A, B, C):
        s = te.create_schedule(C.op)
        s[B].compute_inline()
        return s

    part = schedule_correct(lambda rng: (problem(chain, 9),))
    assert outcome(part, fused).status == "passed"


def test_a_loop_program_is_interpreted() -> None:
    def lowered(A, B, C):
        return tvm.lower(row_wise(A, B, C), [A, B, C], until="nest")

    assert outcome(schedule_correct(small), lowered).status == "passed"


def test_a_loop_program_with_other_values_is_wrong() -> None:
    def zeros(A, B, C):
        Z = te.compute(C.shape, lambda i, j: A[0, 0] + B[0, 0], name="C")
        return tvm.lower(te.create_schedule(Z.op), [A, B, Z], until="nest")

    assert outcome(schedule_correct(small), zeros).message == "wrong-value"


@pytest.mark.parametrize(("dtype", "right"), [("float32", True), ("int8", False)])
def test_a_tolerance_is_for_floats_and_not_for_integers(dtype: str, right: bool) -> None:
    A = te.placeholder((2,), dtype, name="A")
    B = te.compute((2,), lambda i: A[i], name="B")
    inputs = {A: np.array([126, 127], dtype)}
    near = np.array([126, 126], dtype)
    assert (wrong_results([near], [A, B], inputs, 0.01, 0.0, "", "") is None) == right


def test_facts_give_the_share_that_holds_and_name_the_first_that_does_not() -> None:
    parts = facts(
        small,
        (
            Fact("three", "three loops", lambda s: len(s["C"].leaf_iter_vars) == 3),
            Fact("steps", "a reorder", lambda s: len(s.steps) == 1),
        ),
    )
    assert outcome(parts, row_wise).status == "passed"
    bad = outcome(parts, naive)
    assert (bad.message, bad.score, bad.expected) == ("fact:steps", 0.5, "a reorder")


def test_other_loops_are_shown_by_their_first_line() -> None:
    part = same_text(row_wise, small)
    assert outcome(part, row_wise).status == "passed"
    bad = outcome(part, naive)
    assert bad.message == "other-loops"
    assert bad.where.startswith("line ")


def test_a_statement_is_compared_as_it_prints() -> None:
    def body(A, B, C):
        return tvm.lower(naive(A, B, C), [A, B, C], until="nest").body

    assert outcome(same_text(body, small), body).status == "passed"
    assert outcome(same_text(body, small), lambda A, B, C: body(A, B, C).body).where == "line 1"


def test_visits_are_the_elements_of_the_result_in_order() -> None:
    A, B, C = product(2, 2, 3)
    assert visits(naive(A, B, C), [A, B, C]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert visits(column_order(A, B, C), [A, B, C]) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_another_order_is_shown_by_its_first_visit() -> None:
    part = visit_order(column_by_column, small)
    assert outcome(part, column_order).status == "passed"
    bad = outcome(part, naive)
    assert (bad.message, bad.expected, bad.got) == ("wrong-order", "(1, 0)", "(0, 1)")


def test_misses_above_the_bound_cost_points_in_proportion() -> None:
    cost = misses(Cache(1024, 64, 4))
    assert outcome(at_most(cost, row_wise, square), row_wise).status == "passed"
    bad = outcome(at_most(cost, row_wise, square), naive)
    assert bad.message == "too-many-misses"
    A, B, C = product(32, 32, 32)
    best, theirs = (cost(f(A, B, C), [A, B, C]) for f in (row_wise, naive))
    assert bad.score == pytest.approx(best / theirs if theirs < 4 * best else 0)


# --- time ----------------------------------------------------------------------------------------


def runs(*seconds: float):
    """A program whose rounds take these seconds in turn."""
    times = itertools.cycle(seconds)
    return lambda: next(times)


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    assert time_ratio(runs(1.0), runs(3.0)) == Ratio(3.0, False)
    disturbed = (3.0, 3.0, 9.0, 3.0, 3.0, 3.0, 3.0)
    assert time_ratio(runs(1.0), runs(*disturbed)) == Ratio(3.0, False)


def test_rounds_that_differ_give_no_verdict() -> None:
    assert time_ratio(runs(1.0), runs(*(1.0 + n / 10 for n in range(MAX_ROUNDS)))).busy


def test_rounds_that_differ_but_earn_the_same_give_a_verdict() -> None:
    slow = runs(*(1.0 + n / 10 for n in range(MAX_ROUNDS)))
    assert not time_ratio(runs(1.0), slow, lambda ratio: min(1.0, 9 / ratio)).busy


@pytest.mark.parametrize(
    ("ratio", "score", "message"),
    [(0.5, 1.0, ""), (1.2, 1.0, ""), (2.4, 0.4318, "too-slow"), (10.0, 0.0, "too-slow")],
)
def test_points_for_speed_fall_as_the_ratio_grows(ratio, score, message) -> None:
    found = timed_outcome(Ratio(ratio, False), 1.2, "")
    assert (found.score, found.message) == (pytest.approx(score, abs=1e-4), message)


def test_points_for_speed_may_end_before_ten_times_and_have_no_step() -> None:
    assert timed_outcome(Ratio(0.8, False), 0.5, "", worst=1.0).score == pytest.approx(0.25)
    assert timed_outcome(Ratio(1.0, False), 0.5, "", worst=1.0).score == 0


def test_a_busy_machine_is_inconclusive() -> None:
    assert timed_outcome(Ratio(5.0, True), 1.2, "").status == "inconclusive"


def test_speed_races_compiled_schedules() -> None:
    assert outcome(speed(row_wise, square, ratio=1000), naive).status in ("passed", "inconclusive")
