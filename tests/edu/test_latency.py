"""Exercise 09: what an answer earns, and what is said about one that is not right."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from minitvm import vta
from minitvm.accel import listing, parse
from minitvm.edu.item import Outcome
from minitvm.edu.score import Mark, mark, random_for
from minitvm.edu.streams import numbered_listing, short_queue, stream_fault

from .course import module

ex09 = module("ex09")
TOKENS, TILES, REPAIR = ex09.EXERCISE.items
THREADED = (64, 16, 2, "rows")


def right(steps: int, threads: int) -> list[str]:
    return [*ex09.loop(steps, threads), *ex09.store(threads)]


def edited(old: str, new: str) -> Callable[[int, int], list[str]]:
    """The right lines, but for one text in them."""
    return lambda steps, threads: [x.replace(old, new) for x in right(steps, threads)]


def one_by_one(steps: int, threads: int) -> list[str]:
    """All tokens, one place at a time."""
    lines = ["ex  nop   push ld"]
    for k, t in product(range(steps), range(threads)):
        lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
        lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    return [*lines, "ld  nop   pop ex", *ex09.store(threads)]


def first_fault(m: Mark) -> Outcome:
    return next(p.outcome for p in m.parts if p.outcome.status == "failed")


# --- tokens by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "points"),
    [
        (right, 6.0),
        (one_by_one, 2.0),  # all but the hiding
        (edited("W[0] x=1   push ex", "W[0] x=1"), 0.0),  # no gemm knows of its load
        (edited("x=1   pop ex", "x=1   pop ex   push ex"), 0.0),  # a token for each load
        (lambda steps, threads: right(steps, threads)[:-1], 5.5),  # all but the end
        (ex09.loop, 5.5),  # no store
        (lambda steps, threads: ex09.loop(steps, threads)[:-1] + ex09.store(threads), 5.5),  # leak
        (lambda steps, threads: ex09.loop(steps, threads)[threads:] + ex09.store(threads), 0.0),
    ],
)  # fmt: skip
def test_the_loop_the_store_and_the_hiding_earn_points_of_their_own(
    answer: Callable[[int, int], list[str]], points: float
) -> None:
    assert mark(TOKENS, answer).points == points


def test_the_line_with_a_misspelt_token_is_quoted() -> None:
    outcome = first_fault(mark(TOKENS, edited("W[0] x=1   push ex", "W[0] x=1   psh ex")))
    assert outcome.message == "no-program"
    assert "'ld wgt[0] = W[0] x=1 psh ex'" in outcome.got


def test_a_token_for_a_queue_instead_of_a_unit_is_quoted() -> None:
    outcome = first_fault(mark(TOKENS, edited("pop ld", "pop l2g")))
    assert outcome.message == "no-program"
    assert "pop l2g: there is no queue between ex and l2g" in outcome.got


def test_a_small_case_that_fails_is_shown_with_the_numbers_of_its_instructions() -> None:
    case = first_fault(mark(TOKENS, edited("gemm u[1:2]   pop ld", "gemm u[1:2]"))).case
    assert case.startswith("lower(2, 2), with our store in place of yours:\nex  uop[0] = uops[0]")
    assert "ex  gemm u[1:2]   push ld                 #    9  l2g" in case


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ("ex  nop   push ld", "the first load into each place waits, too"),
        ("ex  nop   push st", "the store waits for the results"),
    ],
)
def test_the_reason_of_a_deadlock_is_that_of_the_queue_that_lacks_tokens(
    lost: str, why: str
) -> None:
    lines = [x for x in right(2, 2) if x != lost]
    found, _, said = stream_fault(ex09.assembled(lines, 2, 2), ex09.TEN)
    assert (found, why in said) == ("deadlock", True)


def test_a_circle_of_waiting_without_a_missing_token_says_so() -> None:
    program = parse("ex  nop   pop ld\nex  nop   push ld\nld  nop   pop ex   push ex\nex  finish")
    assert short_queue(program) == ""
    assert "some push comes only after the pop" in stream_fault(program, ex09.TEN)[2]


def test_a_long_program_is_counted_instead_of_shown() -> None:
    assert numbered_listing(ex09.assembled(right(6, 3), 6, 3)) == " (66 instructions)"


# --- tiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("small", "large", "points"),
    [
        ((2, 16, 1, "rows"), THREADED, 6.0),
        ((2, 8, 2, "columns"), THREADED, 5.0),
        ((2, 16, 1, "rows"), (128, 16, 1, "rows"), 1.0),
    ],
)
def test_points_begin_where_one_thread_ends(
    small: tuple[Any, ...], large: tuple[Any, ...], points: float
) -> None:
    assert mark(TILES, lambda rows, *_: small if rows == 2 else large).points == points


def test_half_of_the_way_is_about_half_of_the_points() -> None:
    _, part, _ = TILES.parts
    outcome = part.check(lambda *_: (128, 4, 4, "columns"), np.random.default_rng(0))
    assert (outcome.message, outcome.got) == ("too-little-use", "83.7%")
    assert outcome.score == pytest.approx((0.837 - 0.652) / (0.92 - 0.652), abs=0.01)


@pytest.mark.parametrize(
    ("tiling", "says"),
    [
        ((3, 8, 1, "rows"), "tile_rows = 3 does not divide 128 rows"),
        ((64, 5, 1, "rows"), "tile_columns = 5 does not divide 16 columns"),
        ((64, 16, 3, "rows"), "3 threads do not divide 2 tiles of rows"),
        ((64, 16, 2, "columns"), "2 threads do not divide 1 tiles of columns"),
        ((256, 16, 1, "rows"), "tile_rows = 256, and it is an int from 1 to 128"),
        ((64, 16, 2.0, "rows"), "threads = 2.0, and it is an int from 1 to 8"),
        ((64, 16, 2, "depth"), "'depth' is neither 'rows' nor 'columns'"),
        ((64, 16), "four values are asked for"),
        (THREADED, ""),
    ],
)
def test_a_tiling_that_does_not_divide_names_the_number(tiling: Any, says: str) -> None:
    assert ex09.no_tiling(tiling, 128, 16) == says


# --- lost pushes ----------------------------------------------------------------------------------


def test_a_listing_is_a_program_too() -> None:
    whole = iter(ex09.products(random_for(REPAIR.id, 0, None)))
    assert mark(REPAIR, lambda given: listing(next(whole))).points == 3


def test_what_is_handed_out_stands_still_and_lacks_tokens_of_two_queues() -> None:
    rng = np.random.default_rng(0)
    for made in ex09.products(rng):
        program = parse(ex09.with_lost_pushes(made, rng))
        last = listing(program).split("\n")[-1]
        assert vta.verify(program).deadlock
        assert last.count("-1") == 2


def test_one_push_is_not_enough_and_the_program_is_shown() -> None:
    outcome = first_fault(mark(REPAIR, lambda given: given))
    assert outcome.message == "deadlock"
    assert outcome.case.startswith("case 1, repaired:\nex  uop[0] = uops[0] x=1")


def test_a_verdict_on_the_repaired_program_shows_the_repaired_program() -> None:
    def half(given):
        """A push to compute at the first load that has none."""
        lines = given.split("\n")
        n = next(n for n, x in enumerate(lines) if x.startswith("ld") and "push" not in x)
        return "\n".join([*lines[:n], f"{lines[n]}   push ex", *lines[n + 1 :]])

    outcome = first_fault(mark(REPAIR, half))
    assert (outcome.message, "A[0] y=2 x=1 stride=2   pop ex   push ex" in outcome.case) == (
        "deadlock", True,
    )  # fmt: skip
