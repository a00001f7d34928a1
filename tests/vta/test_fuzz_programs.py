"""Random formulas and schedules for the accelerator compute what their formulas say, in any order.

What is built is compared with the evaluator that knows no schedules; and its program with the laws
that every program obeys.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TypeAlias

import numpy as np
import pytest

import minitvm as tvm
from minitvm import vta
from minitvm.accel import (
    Config,
    Program,
    Queue,
    Stall,
    Unit,
    counters,
    decode,
    durations,
    encode,
    execute,
    parse,
    serial,
    simulate,
    strip_tokens,
    text,
    verify,
    witness,
)
from minitvm.runtime import AcceleratorFunction
from minitvm.tensor import evaluate

from .random_products import free_product, packed_product, two_products
from .random_programs import MACHINES, Case, Rng, chain, linked, moved, pick

Draw: TypeAlias = Callable[[Rng], Case]
DRAWS: tuple[Draw, ...] = (chain, linked, moved, packed_product, free_product, two_products)


def built(draw: Draw, seed: int) -> tuple[Case, AcceleratorFunction] | None:
    """A random case for a random machine, and its function; None if the compiler refuses it."""
    rng = np.random.default_rng(seed)
    with vta.Environment(pick(rng, MACHINES)):
        try:
            case = draw(rng)
            return case, vta.build(case.s, case.args)
        except (tvm.LoweringError, tvm.BuildError) as error:
            if error.args[-1].startswith("inject_coproc_sync"):  # its own tokens are too few
                raise
            return None


# --- numbers -------------------------------------------------------------------------------------


def check_numbers(case: Case, f: AcceleratorFunction, seed: int) -> None:
    """The results by a call, and in an order that is drawn at random."""
    outs = case.args[len(case.arrays) :]
    wanted = evaluate(outs, dict(zip(case.args, case.arrays, strict=False)))
    made = [np.full(t.shape, 77, "int8") for t in outs]
    f(*case.arrays, *made)
    for n, want in enumerate(wanted):
        np.testing.assert_array_equal(made[n], want)
    inputs = areas(case, f)
    for program in (f.program, serial(f.program)):
        found = execute(program, f.config, inputs, np.random.default_rng(seed))
        for t, want in zip(outs, wanted, strict=True):
            np.testing.assert_array_equal(found[t.name].reshape(want.shape), want)


def areas(case: Case, f: AcceleratorFunction) -> dict[str, np.ndarray]:
    """The inputs as they lie in main memory."""
    return {
        area.name: array.reshape(area.shape + f.config.element_shape(area.memory))
        for area, array in zip(f.program.areas, case.arrays, strict=False)
    }


# --- laws ----------------------------------------------------------------------------------------


def check_laws(f: AcceleratorFunction) -> None:
    """What is true of all programs that are built."""
    program, config = f.program, f.config
    verdict = verify(program, config)
    assert (verdict.deadlock, verdict.leaks, verdict.races) == ((), (), ())
    assert parse(text(program, config), config) == program
    for instruction in program.instructions:
        assert decode(*encode(instruction)) == instruction
    check_times(program, config)
    check_no_tokens(program, config)


def check_times(program: Program, config: Config) -> None:
    """Makespans lie between their bounds, and what is moved does not depend on how fast."""
    quick = replace(config, token_latency=0)
    slow = replace(quick, dma_latency=90, port_bytes=4, alu_ii_imm=5, alu_ii_reg=7, issue=11)
    runs = [simulate(program, machine) for machine in (quick, slow)]
    for run, machine in zip(runs, (quick, slow), strict=True):
        busy = list(run.busy.values())
        assert sum(busy) == sum(durations(program, machine))
        assert max(busy) <= critical_path(program, machine) <= run.cycles <= sum(busy)
        assert sum(run.overlap.values()) == run.cycles
        assert len(run.trace) == len(program.instructions)
        assert simulate(serial(program), machine).cycles == sum(busy)
    assert runs[0].counters == runs[1].counters == counters(program, config)
    run = simulate(program, config)
    waits = any(Stall.CHANNEL in stalls for stalls in run.stalls.values())
    assert waits or run.cycles == critical_path(program, config)


def critical_path(program: Program, config: Config) -> int:
    """When the last unit would be done if each had a port to main memory of its own."""
    free, given = [0] * len(Unit), [list[int]() for _ in Queue]  # given: when tokens come
    taken = [0] * len(Queue)
    waiting = [list[int]() for _ in Unit]
    for n, wire in enumerate(program.wires):
        waiting[wire.unit].append(n)
    took = durations(program, config)
    while any(waiting):
        for unit, stream in enumerate(waiting):
            while stream and all(taken[q] < len(given[q]) for q in program.wires[stream[0]].pops):
                n = stream.pop(0)
                _, pops, pushes = program.wires[n]
                free[unit] = max([free[unit], *(given[q][taken[q]] for q in pops)]) + took[n]
                for q in pops:
                    taken[q] += 1
                for q in pushes:
                    given[q].append(free[unit] + config.token_latency)
    return max(free)


def check_no_tokens(program: Program, config: Config) -> None:
    """Without tokens what is stored races with what computes it, and with who reads it."""
    verdict = verify(strip_tokens(program), config)
    assert not verdict.deadlock
    found = {race.space for race in verdict.races}
    loads = any(program.wires[n].unit == list(Unit).index(Unit.LOAD) for n in moving(program))
    assert loads or not {"INP", "WGT"} & found
    if verdict.more:  # not all are listed
        assert found
    else:
        assert {"ACC", "DRAM"} <= found
        assert not loads or {"INP", "WGT"} & found


def moving(program: Program) -> list[int]:
    """The instructions that are more than carriers of tokens."""
    return [n for n, i in enumerate(program.instructions) if getattr(i, "x", 1)]


def check(draw: Draw, seeds: range) -> int:
    """How many of the cases were built; all of them are right."""
    count = 0
    for seed in seeds:
        found = built(draw, seed)
        if found is not None:
            case, f = found
            check_numbers(case, f, seed)
            check_laws(f)
            count += 1
    return count


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_random_programs_are_right(draw: Draw) -> None:
    assert check(draw, range(12)) >= 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(1000, 2000, 250))
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_many_random_programs_are_right(draw: Draw, start: int) -> None:
    assert check(draw, range(start, start + 250)) >= 90


# --- tokens taken away ---------------------------------------------------------------------------

FLAGS = (  # of the queues l2g, g2l, g2s, s2g: who pushes says next or prev, who pops the other
    ("push_next", "pop_prev"),
    ("push_prev", "pop_next"),
    ("push_next", "pop_prev"),
    ("push_prev", "pop_next"),
)


def test_programs_that_are_good_without_a_pair_of_tokens_are_right_in_every_order() -> None:
    differing = good = 0
    for draw, seed in product((linked, free_product, two_products), range(100, 107)):
        found = built(draw, seed)
        if found is None:
            continue
        case, f = found
        inputs, rng = areas(case, f), np.random.default_rng(seed)
        wanted = execute(f.program, f.config, inputs)
        for _ in range(4):
            program = without_pair(f.program, rng)
            races = verify(program, f.config).races
            shown = [witness(program, race) for race in races[:4]]
            results = [
                execute(program, f.config, inputs, order) for order in (*shown, rng, rng, rng)
            ]
            right = all((r[name] == wanted[name]).all() for r in results for name in wanted)
            assert right or races
            good += not races
            differing += not right
    assert good > 10
    assert differing > 10


def without_pair(program: Program, rng: Rng) -> Program:
    """The program without one push, and without the pop that takes its token."""
    q = int(rng.choice([q for wire in program.wires for q in wire.pushes]))
    pushes = [n for n, wire in enumerate(program.wires) if q in wire.pushes]
    pops = [n for n, wire in enumerate(program.wires) if q in wire.pops]
    at, instructions = int(rng.integers(len(pushes))), list(program.instructions)
    for n, flag in zip((pushes[at], pops[at]), FLAGS[q], strict=True):
        flags = replace(instructions[n].flags, **{flag: False})
        instructions[n] = replace(instructions[n], flags=flags)
    return Program(tuple(instructions), program.uops, program.areas)
