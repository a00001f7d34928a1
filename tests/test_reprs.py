"""What a record shows as the last line of a cell: short, however much it holds."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import accesses, auto_scheduler, graph, te, tir, topi, tune
from minitvm.base import Target
from tests.tune.fakes import search, task

RNG = np.random.default_rng(0)
MOST = 2000  # characters, about a screen


def matmul(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    c = topi.matmul(a, b)
    return topi.schedule(c, "llvm -num-cores=1"), [a, b, c]


def evolution() -> list[Any]:
    """A search with 200 candidates in each generation, and all that happens in it."""
    found = task()
    seen = list[Any]()
    rows = found.sketches[0].space.sample(RNG, 200)
    keys = found.sketches[0].space.keys(rows)
    start = [tune.Population(rows, np.arange(len(rows), dtype=float), keys)]
    tune.evolve(
        [s.space for s in found.sketches],
        lambda sketch, rows: np.arange(len(rows), dtype=float),
        RNG,
        start,
        tune.Evolution(population=200, generations=2),
        seen.append,
    )
    return [seen, found, search(trials=20)]


def network() -> list[Any]:
    net = graph.networks.dqn()
    module = graph.compile(net, "python")
    return [
        net,
        module.plan,
        module.lib,
        graph.extract_tasks(net, "llvm"),
        module.profile(np.zeros((1, 4, 84, 84), "float32"), number=1),
    ]


def ansor() -> list[Any]:
    _, args = matmul(64)
    dag = auto_scheduler.ComputeDAG(args)
    sketches = auto_scheduler.sketches([dag], Target("llvm -num-cores=1"))
    return [dag, sketches, tune.features(sketches[0], sketches[0].space.sample(RNG, 9))]


def memory() -> list[Any]:
    s, args = matmul(16)
    trace = accesses.record(s, args)
    return [trace, tvm.lower(s, args), *accesses.footprints(trace), s.state, s.steps, s.explain()]


PLACES: dict[str, Callable[[], list[Any]]] = {
    f.__name__: f for f in (evolution, network, ansor, memory)
}


def parts(x: Any) -> Iterator[Any]:
    """The values in a container, or in the public fields of a record."""
    if isinstance(x, dict):
        yield from x.values()
    elif isinstance(x, list | tuple | set | frozenset):
        yield from x
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        yield from (getattr(x, f.name) for f in dataclasses.fields(x) if f.name[0] != "_")


def records(x: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """All records of ours that can be reached from `x`; a program shows its loops, all of them."""
    if id(x) in seen or isinstance(x, tir.PrimFunc):
        return
    seen[id(x)] = x
    if type(x).__module__.startswith("minitvm."):
        yield x
    for part in parts(x):
        yield from records(part, seen)


@pytest.mark.parametrize("place", PLACES)
def test_every_record_fits_on_a_screen(place: str) -> None:
    sizes = {type(r).__qualname__: len(repr(r)) for r in records(PLACES[place](), {})}
    assert sizes
    assert not {name: size for name, size in sizes.items() if size > MOST}


def test_arrays_and_long_fields_are_counted() -> None:
    rows = np.zeros((372, 4), "int32")
    population = tune.Population(rows, np.zeros(372), np.zeros(372, "uint64"))
    shown = "Population(rows=int32[372, 4], scores=float64[372], keys=uint64[372])"
    assert repr(population) == shown
    assert repr(tune.Generation(3, (), (population,) * 5)) == (
        "Generation(number=3, offspring=(), populations=5 of Population)"
    )
