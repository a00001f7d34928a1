"""The talk's example and a convolution without any one push or pop, run in many orders."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from minitvm.accel import Program, Queue, execute, in_order, verify, vta_pynq, witness

ORDERS = 12  # drawn at random, for each program

Case = tuple[Any, dict[str, np.ndarray], str]  # tokens of a program, its inputs, the output's name


@pytest.fixture(scope="module", params=["talk", "convolution"])
def case(request: pytest.FixtureRequest, talk: Callable[..., Program], conv, tokens) -> Case:
    rng = np.random.default_rng(0)
    if request.param == "convolution":
        layer = conv(4, 4, 32, 32, 3, 1, 1, 2, 2)
        return tokens(layer.program()), layer.inputs(rng), "O"
    shapes = {"A": (3, 2, 1, 16), "B": (1, 16, 16)}
    inputs = {name: rng.integers(-128, 128, shape, np.int8) for name, shape in shapes.items()}
    return tokens(talk(3, 2, store=True)), inputs, "C"


def orders(program: Program) -> Iterator[tuple[int, ...]]:
    yield in_order(program)
    for seed in range(ORDERS):
        yield in_order(program, np.random.default_rng(seed))


def test_without_any_push_units_stop_in_every_order(case: Case) -> None:
    given, _, _ = case
    for queue in Queue:
        for n in range(len(given.ends(queue)[0])):
            program = given.without(queue, push=n)
            found = verify(program)
            assert queue.value in [blocked.waits_for.value for blocked in found.deadlock]
            assert not found.leaks
            ran = {len(order) for order in orders(program)}
            assert max(ran) < len(program.instructions)
            assert len(ran) == 1


def test_without_any_pop_a_token_stays_and_races_are_what_orders_show(case: Case) -> None:
    given, inputs, name = case
    expected = execute(given.program, vta_pynq, inputs)[name]
    for queue in Queue:
        for n in range(len(given.ends(queue)[1])):
            program = given.without(queue, pop=n)
            found = verify(program)
            assert not found.deadlock
            assert found.leaks == ((queue, 1),)
            shown = [witness(program, race) for race in found.races]
            assert bool(found.races) == any(
                (execute(program, vta_pynq, inputs, order)[name] != expected).any()
                for order in (*shown, *orders(program))
            )
