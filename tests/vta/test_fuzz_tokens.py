"""A product that went through the whole compiler, with each of its tokens taken away in turn.

What the verifier says is compared with runs: of a deadlock, that units stop in every order tried;
of a race, that some legal order makes other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.accel import (
    Program,
    Queue,
    Unit,
    execute,
    in_order,
    strip_tokens,
    unit_of,
    verify,
    witness,
)
from minitvm.runtime import AcceleratorFunction
from minitvm.vta import Tiling, top

ORDERS = 20  # drawn at random, for each program

FLAGS = {  # (who pushes, its flag), (who pops, its flag)
    Queue.L2G: ((Unit.LOAD, "push_next"), (Unit.COMPUTE, "pop_prev")),
    Queue.G2L: ((Unit.COMPUTE, "push_prev"), (Unit.LOAD, "pop_next")),
    Queue.G2S: ((Unit.COMPUTE, "push_next"), (Unit.STORE, "pop_prev")),
    Queue.S2G: ((Unit.STORE, "push_prev"), (Unit.COMPUTE, "pop_next")),
}


@cache
def product() -> AcceleratorFunction:
    """min(max((A @ B.T + bias) >> 8, -100), 100) in blocks, by two virtual threads."""
    data = te.placeholder((4, 2, 1, 16), name="data", dtype="int8")
    weight = te.placeholder((4, 2, 16, 16), name="weight", dtype="int8")
    bias = te.placeholder((4, 1, 16), name="bias", dtype="int32")
    result = top.requantize(top.dense(data, weight), bias, low=-100, high=100)
    s = top.schedule(result, Tiling(w=4, oc=1, ic=1, oc_threads=2))
    f = tvm.build(s, [data, weight, bias, result], target="vta")
    assert isinstance(f, AcceleratorFunction)
    return f


@cache
def inputs() -> dict[str, np.ndarray]:
    """Random numbers, none of them 0."""
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for area in product().program.areas[:3]:
        shape = area.shape + product().config.element_shape(area.memory)
        limit = 128 if area.name != "bias" else 1 << 14
        numbers = rng.integers(1, limit, shape) * rng.choice([-1, 1], shape)
        found[area.name] = numbers.astype(product().config.dtype(area.memory))
    return found


def expected() -> np.ndarray:
    """The result by numpy."""
    a, b, c = inputs().values()
    total = np.einsum("nibk,oick->nobc", a.astype("int32"), b.astype("int32")) + c
    return np.clip(total >> 8, -100, 100).astype("int8")


def result(program: Program, order: tuple[int, ...]) -> np.ndarray:
    outputs = execute(program, product().config, inputs(), order)
    return outputs[program.areas[-1].name]


@dataclass(frozen=True)
class Token:
    """One push or one pop: the number of the instruction, and its flag."""

    index: int
    flag: str


def tokens(program: Program, queue: Queue) -> list[tuple[Token, Token]]:
    """The pushes into a queue, each with its pop: the i-th takes what the i-th one gave."""
    ends = [
        [
            Token(n, flag)
            for n, instruction in enumerate(program.instructions)
            if unit_of(instruction) is unit and getattr(instruction.flags, flag)
        ]
        for unit, flag in FLAGS[queue]
    ]
    return list(zip(*ends, strict=True))


def without(program: Program, *gone: Token) -> Program:
    instructions = list(program.instructions)
    for token in gone:
        old = instructions[token.index]
        flags = replace(old.flags, **{token.flag: False})
        instructions[token.index] = replace(old, flags=flags)
    return Program(tuple(instructions), program.uops, program.areas)


def pairs() -> Iterator[tuple[Token, Token]]:
    """All tokens of the product."""
    for queue in Queue:
        yield from tokens(product().program, queue)


def orders(program: Program, seed: int) -> Iterator[tuple[int, ...]]:
    yield in_order(program)
    for n in range(ORDERS):
        yield in_order(program, np.random.default_rng([seed, n]))


def differs(program: Program, seed: int) -> bool:
    """Does some order make other numbers? Tried are witnesses of races, and orders at random."""
    shown = [witness(program, race) for race in verify(program, product().config).races]
    return any(
        (result(program, order) != expected()).any() for order in (*shown, *orders(program, seed))
    )


def test_the_product_is_that_of_numpy_in_many_orders() -> None:
    assert vta.verify(product()).ok
    assert not differs(product().program, 0)


def test_without_any_push_units_stop_in_every_order() -> None:
    for n, (push, _) in enumerate(pairs()):
        program = without(product().program, push)
        verdict = verify(program, product().config)
        assert verdict.deadlock
        assert not verdict.leaks
        count = len(program.instructions)
        assert all(len(order) < count for order in orders(program, n))


def test_without_any_pop_a_token_stays_and_races_are_what_orders_show() -> None:
    races = 0
    for queue in Queue:
        for n, (_, pop) in enumerate(tokens(product().program, queue)):
            program = without(product().program, pop)
            verdict = verify(program, product().config)
            assert not verdict.deadlock
            assert verdict.leaks == ((queue, 1),)
            assert bool(verdict.races) == differs(program, n)
            races += bool(verdict.races)
    assert races > 0


@pytest.mark.parametrize("queue", Queue)
def test_without_any_pair_races_are_what_orders_show(queue: Queue) -> None:
    races = 0
    for n, both in enumerate(tokens(product().program, queue)):
        program = without(product().program, *both)
        verdict = verify(program, product().config)
        assert not verdict.deadlock
        assert not verdict.leaks
        assert bool(verdict.races) == differs(program, n)
        races += bool(verdict.races)
    assert races > 0


def test_the_witness_of_each_race_makes_other_numbers() -> None:
    shown = 0
    for both in pairs():
        program = without(product().program, *both)
        for race in verify(program, product().config).races:
            assert (result(program, witness(program, race)) != expected()).any()
            shown += 1
    assert shown > 20


def test_without_all_tokens_some_orders_make_other_numbers() -> None:
    program = strip_tokens(product().program)
    verdict = verify(program, product().config)
    assert not verdict.deadlock
    assert verdict.races
    assert differs(program, 0)
