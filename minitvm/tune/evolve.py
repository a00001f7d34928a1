"""Evolution: search the rows of all sketches of a task for those with the highest scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from minitvm.base import brief

from .knob import Ints, Knob
from .loss import Floats
from .space import Keys, Rows, Space, first_of_each
from .task import Candidate

# score(sketch number, rows) returns a score for each row, -infinity if it must not be measured
Score: TypeAlias = Callable[[int, Rows], Floats]

IGNORED = 0.3  # this share of a population, the worst, has practically no children
SMALLEST = 1e-6  # the smallest weight of a parent


@dataclass(frozen=True, slots=True)
class Evolution:
    """Settings of the evolution.

    population    the number of rows of all sketches together, in each generation
    generations   the number of generations after the initial rows
    crossover     the share of children with two parents
    mutation      the share of children with a changed knob
    moves         the share of children that get another shape, and become rows of a sibling: the
                  sketch itself, or a sketch with the same knobs but other steps
    fewest        a shape with fewer parents than this has no children in a generation
    """

    population: int = 2048
    generations: int = 4
    crossover: float = 0.25
    mutation: float = 0.85
    moves: float = 0.1
    fewest: int = 32


@dataclass(frozen=True, slots=True)
class Population:
    """Scored rows of one sketch, each row once."""

    rows: Rows
    scores: Floats
    keys: Keys

    __repr__ = brief


class Offspring(NamedTuple):
    """The children of one sketch's parents: children[k] is a child of parents[k].

    where   the sketch of each child, because a child may become a row of a sibling sketch
    With crossover a child has a second parent, drawn from the same population.
    """

    sketch: int
    parents: Rows
    children: Rows
    where: Ints

    __repr__ = brief


class Generation(NamedTuple):
    """One generation of an evolution: its offspring, and the rows of each sketch after it.

    number   counts generations from 1; 0 is the start, without offspring
    """

    number: int
    offspring: tuple[Offspring, ...]
    populations: tuple[Population, ...]

    __repr__ = brief


class Scored(NamedTuple):
    """A candidate and its score."""

    score: float
    candidate: Candidate


Watch: TypeAlias = Callable[[Generation], None]


def evolve(
    spaces: Sequence[Space],
    score: Score,
    rng: np.random.Generator,
    start: Sequence[Population],
    settings: Evolution,
    watch: Watch | None = None,
) -> list[Population]:
    """Return the rows of `start` and all rows that evolved from them, a population for each sketch.

    A shape that few parents are drawn from has no children in that generation.

    watch   is called with the start and with each generation
    """
    populations, siblings = list(start), siblings_of(spaces)
    if watch is not None:
        watch(Generation(0, (), tuple(populations)))
    for number in range(1, settings.generations + 1):
        offspring = list[Offspring]()
        chosen = parents(populations, rng, settings.population)
        born: list[list[Rows]] = [[] for _ in spaces]
        for n, space in enumerate(spaces):
            first = of_common_shapes(space, populations[n].rows, chosen[n], settings.fewest)
            if len(first):
                rows = children(populations[n], space, first, rng, settings)
                rows, where = moved(rows, n, space, siblings[n], rng, settings)
                offspring.append(Offspring(n, populations[n].rows[first], rows, where))
                for m in siblings[n]:
                    born[m].append(rows[where == m])
        for n, space in enumerate(spaces):
            if born[n]:
                rows = np.concatenate(born[n])
                populations[n] = grown(populations[n], space, rows, lambda r, n=n: score(n, r))
        if watch is not None:
            watch(Generation(number, tuple(offspring), tuple(populations)))
    return populations


def siblings_of(spaces: Sequence[Space]) -> list[list[int]]:
    """Return, for each space, the numbers of the spaces with the same knobs, itself included."""
    groups = dict[tuple[Knob, ...], list[int]]()
    for n, space in enumerate(spaces):
        groups.setdefault(space.knobs, []).append(n)
    return [groups[space.knobs] for space in spaces]


def empty_population(space: Space) -> Population:
    """Return a population without rows."""
    no_rows = np.zeros((0, len(space.knobs)), np.int32)
    return Population(no_rows, np.zeros(0, np.float32), np.zeros(0, np.uint64))


def grown(
    population: Population, space: Space, rows: Rows, score: Callable[[Rows], Floats]
) -> Population:
    """Score the rows that the population does not have yet, and return it with them added.

    Rows with a score of -infinity are left out.
    """
    keys = space.keys(rows)
    new = first_of_each(keys, population.keys)
    rows, keys = rows[new], keys[new]
    scores = score(rows) if len(rows) else np.zeros(0, np.float32)
    good = scores > -np.inf
    return Population(
        np.concatenate([population.rows, rows[good]]),
        np.concatenate([population.scores, scores[good]]),
        np.concatenate([population.keys, keys[good]]),
    )


def parents(populations: Sequence[Population], rng: np.random.Generator, count: int) -> list[Ints]:
    """Draw `count` parents from the best `count` rows of all; return positions in each population.

    The probability of a row is proportional to its score less the score at quantile IGNORED, so
    scores may be negative.
    """
    scores = np.concatenate([population.scores for population in populations]).astype(np.float64)
    start = np.cumsum([0, *(len(population.scores) for population in populations)])
    best = np.argsort(-scores, kind="stable")[:count]
    if not len(best):
        return [best] * len(populations)
    weights = np.maximum(scores[best] - np.quantile(scores[best], IGNORED), 0) + SMALLEST
    drawn = np.sort(rng.choice(best, count, p=weights / weights.sum()))
    ends = np.searchsorted(drawn, start)
    return [drawn[a:b] - s for a, b, s in zip(ends[:-1], ends[1:], start[:-1], strict=True)]


def of_common_shapes(space: Space, rows: Rows, chosen: Ints, fewest: int) -> Ints:
    """Return the positions in `chosen` of rows with a shape that `fewest` of these rows have."""
    shapes = space.shapes(rows[chosen])
    return chosen[np.bincount(shapes)[shapes] >= fewest]


def children(
    population: Population,
    space: Space,
    chosen: Ints,
    rng: np.random.Generator,
    settings: Evolution,
) -> Rows:
    """Return one child of each parent in `chosen`; crossover takes the second parent from there."""
    rows = population.rows[chosen]
    crossed_rows = space.cross(rng, rows, rng.permutation(rows))
    rows = np.where((rng.random(len(rows)) < settings.crossover)[:, None], crossed_rows, rows)
    mutated_rows = space.mutate(rng, rows)
    return np.where((rng.random(len(rows)) < settings.mutation)[:, None], mutated_rows, rows)


def moved(
    rows: Rows,
    n: int,
    space: Space,
    siblings: Sequence[int],
    rng: np.random.Generator,
    settings: Evolution,
) -> tuple[Rows, Ints]:
    """Return the rows of sketch n, some of them with another shape, and the sibling of each row.

    Rows move in groups of `fewest`, because the statements of each shape cost milliseconds.
    """
    new, where = rows.copy(), np.full(len(rows), n)
    groups = int(settings.moves * len(rows) / settings.fewest + rng.random())
    at = rng.permutation(len(rows))[: groups * settings.fewest]
    if len(at):
        new[at] = space.reshape(rng, rows[at], groups)
        where[at] = rng.choice(siblings, groups)[np.arange(len(at)) * groups // len(at)]
    return new, where


def ranked(populations: Sequence[Population]) -> Iterator[tuple[int, int]]:
    """Yield the sketch and the position in its population of each row, best score first."""
    scores = np.concatenate([population.scores for population in populations])
    start = np.cumsum([0, *(len(population.scores) for population in populations)])
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    for at in order:
        n = int(np.searchsorted(start, at, side="right")) - 1
        yield n, at - int(start[n])


def diverse(candidates: Sequence[Scored], count: int, weight: float) -> list[Scored]:
    """Choose `count` candidates with high scores and many different options (AutoTVM, equation 3).

    Greedily maximises the sum of the scores of the chosen candidates, plus `weight` for each
    distinct option of a knob that occurs among them.
    """
    left, chosen = list(candidates), list[Scored]()
    covered = set[tuple[int, int, int]]()

    def gain(scored: Scored) -> float:
        return scored.score + weight * len(_options(scored.candidate) - covered)

    while left and len(chosen) < count:
        best = max(left, key=gain)
        left.remove(best)
        chosen.append(best)
        covered |= _options(best.candidate)
    return chosen


def _options(candidate: Candidate) -> set[tuple[int, int, int]]:
    """Return the options of a candidate as (sketch, knob, option)."""
    return {(candidate.sketch, knob, option) for knob, option in enumerate(candidate.row)}
