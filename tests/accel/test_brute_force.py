"""The verdict on tiny programs against all the ways in which they can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from minitvm.accel import Program, Verdict, execute, in_order, measure, parse, verify, witness

from .tiny import (
    HEAD,
    NEIGHBOURS,
    START,
    TINY,
    UNITS,
    Line,
    Lines,
    State,
    Ways,
    after,
    all_ways,
    conflict,
    orders,
    program,
    random_lines,
    tokens_left,
)

# --- what is compared ----------------------------------------------------------------------------

FIRST = 1  # the load of micro-operations stands before the lines: instruction n + 1 is line n


def races(lines: Lines, ways: Ways) -> set[tuple[int, int]]:
    """The pairs of lines that touch the same, one of them writing, and run in either order."""
    pairs = ((a, b) for b in range(len(lines)) for a in range(b))
    return {
        (a, b) for a, b in pairs if conflict(lines[a], lines[b]) and {(a, b), (b, a)} <= ways.before
    }


def reported(verdict: Verdict) -> set[tuple[int, int]]:
    pairs = ((race.first - FIRST, race.second - FIRST) for race in verdict.races)
    return {(min(pair), max(pair)) for pair in pairs}


def kind(lines: Lines, ways: Ways, verdict: Verdict) -> str:
    """deadlock, race or ok, after comparing the verdict with all ways to run."""
    assert len(ways.stuck) == 1, "whether units stop depends on the order"
    (stuck,) = ways.stuck
    left = tokens_left(lines, set(range(len(lines))))
    names = {("ld", "ex"): "l2g", ("ex", "ld"): "g2l", ("ex", "st"): "g2s", ("st", "ex"): "s2g"}
    leaks = {names[pair]: n for pair, n in left.items() if n > 0}
    assert {queue.value: n for queue, n in verdict.leaks} == leaks
    assert bool(verdict.deadlock) == bool(stuck)
    if stuck:
        heads = {min(n for n in stuck if lines[n].unit == lines[m].unit) for m in stuck}
        assert {blocked.index - FIRST for blocked in verdict.deadlock} == heads
        assert not verdict.races
        return "deadlock"
    racing = races(lines, ways)
    assert reported(verdict) <= racing
    assert bool(reported(verdict)) == bool(racing)
    assert (len(ways.ends) > 1) == bool(racing)
    return "race" if racing else "ok"


def examples(count: int, seed: int) -> Iterator[tuple[Lines, Ways, Program, Verdict]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        lines = random_lines(rng)
        made = program(lines)
        yield lines, all_ways(lines), made, verify(made, TINY)


def numbers(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Numbers of which none is 0 and few are equal."""

    def some(count: int, width: str) -> np.ndarray:
        limit = np.iinfo(width).max
        return rng.integers(1, limit, (count, 1, 1)).astype(width)

    return {
        "C": some(16, "int8"),
        "A": some(12, "int8"),
        "W": some(8, "int8"),
        "B": some(8, "int32"),
    }


def check(count: int, seed: int) -> dict[str, int]:
    """How many verdicts of each kind there were, all of them right."""
    kinds = dict.fromkeys(("deadlock", "race", "ok"), 0)
    for lines, ways, _, verdict in examples(count, seed):
        kinds[kind(lines, ways, verdict)] += 1
    return kinds


def test_the_verdict_is_what_all_orders_show() -> None:
    kinds = check(1500, seed=0)
    assert min(kinds.values()) >= 200, kinds


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 9))
def test_the_verdict_is_what_all_orders_show_of_many_programs(seed: int) -> None:
    assert sum(check(4000, seed).values()) == 4000


def test_numbers_of_a_good_program_are_the_same_in_all_orders() -> None:
    rng = np.random.default_rng(0)
    differing = 0
    for lines, _, made, verdict in examples(300, seed=10):
        if verdict.deadlock:
            continue
        inputs = numbers(rng)
        results = {
            execute(made, TINY, inputs, [0, *(n + FIRST for n in order)])["C"].tobytes()
            for order in orders(lines, most=12)
        }
        assert len(results) == 1 or verdict.races
        differing += len(results) > 1
    assert differing > 20


def test_the_witness_of_a_race_is_a_way_to_run_in_which_something_else_is_read() -> None:
    shown = 0
    for lines, _, made, verdict in examples(300, seed=20):
        usual = seen_in(lines, in_order(made))
        for race in verdict.races:
            order = witness(made, race)
            assert order.index(race.second) < order.index(race.first)
            assert sorted(order) == list(range(len(made.instructions)))
            assert seen_in(lines, order) != usual
            shown += 1
    assert shown > 60


def seen_in(lines: Lines, order: tuple[int, ...]) -> State:
    """What lines read in an order of instructions."""
    state = START
    for n in order:
        if n >= FIRST:
            state = after(state, n - FIRST, lines[n - FIRST])
    return state


# --- queues that are finite ----------------------------------------------------------------------


class Place(NamedTuple):
    """Where a machine with short queues is.

    fetched   lines that are with their unit, or have been
    done      for each unit, the lines that it has run and got rid of the tokens of
    holds     for each unit, the tokens of a line that has run, not pushed yet; None if none has
    """

    fetched: int
    done: tuple[int, ...]
    holds: tuple[frozenset[str] | None, ...]
    tokens: tuple[int, ...]


def steps(lines: Lines, at: Place, commands: int, depth: int) -> Iterator[Place]:
    """What may happen next: a line is fetched, a unit runs one, or gets rid of a token."""
    streams = [[n for n in range(at.fetched) if lines[n].unit == u] for u in UNITS]
    if at.fetched < len(lines):
        unit = UNITS.index(lines[at.fetched].unit)
        if len(streams[unit]) - at.done[unit] < commands + 1:
            yield at._replace(fetched=at.fetched + 1)
    for unit, name in enumerate(UNITS):
        held = at.holds[unit]
        if held is None:
            if at.done[unit] < len(streams[unit]):
                line = lines[streams[unit][at.done[unit]]]
                taken = [at.tokens[q] - (b == name and a in line.pops) for q, (a, b) in every()]
                if min(taken) >= 0:
                    yield settled(at._replace(tokens=tuple(taken)), unit, frozenset(line.pushes))
        else:
            for q, (a, b) in every():
                if a == name and b in held and at.tokens[q] < depth:
                    full = tuple(n + (q == p) for p, n in enumerate(at.tokens))
                    yield settled(at._replace(tokens=full), unit, held - {b})


def every() -> Iterator[tuple[int, tuple[str, str]]]:
    return iter(enumerate(NEIGHBOURS))


def settled(at: Place, unit: int, held: frozenset[str]) -> Place:
    """The place when a unit still holds these tokens: it is done with its line if none is left."""
    holds = tuple((held or None) if u == unit else h for u, h in enumerate(at.holds))
    done = tuple(n + (u == unit and not held) for u, n in enumerate(at.done))
    return at._replace(holds=holds, done=done)


def always_ends(lines: Lines, commands: int, depth: int) -> set[bool]:
    """For each way to run on short queues, whether all lines get done."""
    found, known = set[bool](), set[Place]()
    waiting = [Place(0, (0, 0, 0), (None, None, None), (0, 0, 0, 0))]
    while waiting:
        at = waiting.pop()
        if at not in known:
            known.add(at)
            following = list(steps(lines, at, commands, depth))
            waiting += following
            if not following:
                found.add(sum(at.done) == len(lines))
    return found


def test_short_queues_block_exactly_the_programs_that_cannot_go_on() -> None:
    rng = np.random.default_rng(30)
    outcomes: list[tuple[bool, bool]] = []
    for _ in range(400):
        lines = random_lines(rng, most=12)
        commands, depth = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        whole = [Line("ex", "nop"), *lines]  # the load of micro-operations waits in a queue, too
        (ends,) = always_ends(whole, commands, depth)
        made = program(lines)
        short = replace(TINY, command_queue=commands, token_queue=depth)
        assert bool(verify(made, short).deadlock) == (not ends)
        outcomes.append((not ends, bool(verify(made, TINY).deadlock)))
    assert outcomes.count((True, False)) >= 5  # only the short queues block these


def test_times_keep_the_order_that_tokens_ask_for() -> None:
    for lines, _, made, _ in examples(150, seed=40):
        trace = {event.index - FIRST: event for event in measure(made, TINY).trace}
        for queue in NEIGHBOURS:
            pushes = [
                n
                for n, line in enumerate(lines)
                if line.unit == queue[0] and queue[1] in line.pushes
            ]
            pops = [
                n for n, line in enumerate(lines) if line.unit == queue[1] and queue[0] in line.pops
            ]
            for push, pop in zip(pushes, pops, strict=False):
                if pop in trace:
                    assert trace[pop].start >= trace[push].end + TINY.token_latency


def test_a_token_that_comes_sooner_can_cost_time() -> None:
    """Who comes first takes the channel: here the load unit, from the unit that has more to do."""
    made = parse(
        f"""{HEAD}
        ex  nop                     push ld
        ld  inp[0] = A[0] x=8       pop ex
        ex  acc[0] = B[0] x=1
        ex  add u[0:1] imm=1 outer=99
        ex  finish""",
        TINY,
    )
    late, soon = (measure(made, replace(TINY, token_latency=latency)).cycles for latency in (1, 0))
    assert late < soon
