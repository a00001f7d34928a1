"""Questions about caches: misses of a walk, and reuse distances."""

from __future__ import annotations

import numpy as np

from minitvm import cachesim

from ..item import Rng
from .question import Question, pick

LINE = 16  # bytes: four numbers


def misses(rng: Rng) -> Question:
    """Ask how often a walk over a matrix misses, before and after two loops are swapped."""
    while True:
        rows, columns = pick(rng, (4, 5, 6, 8, 10)), pick(rng, (8, 12, 16, 20))
        times = pick(rng, (2, 3))
        lines, ways = pick(rng, ((4, None), (8, None), (8, 1), (8, 2), (16, 1), (16, 2)))
        cache = cachesim.Cache(lines * LINE, LINE, ways)
        row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        address = (row * columns + column) * 4
        rows_first, columns_first = (
            cachesim.simulate(cache, np.tile(walk.ravel(), times)) for walk in (address, address.T)
        )
        if rows_first.misses != columns_first.misses:
            break
    where = "It is fully associative and evicts the least recently used line (LRU)."
    if ways:
        lines_of_set = f"{ways} line{'s' if ways > 1 else ''}"
        where = f"It has {cache.sets} sets of {lines_of_set}. Line number n goes to set n %"
        where += f" {cache.sets}, and a full set evicts its least recently used line (LRU)."
    code = f"""\
for t in range({times}):
    for i in range({rows}):
        for j in range({columns}):
            read(M[i, j])"""
    first, second = ((r.compulsory, r.capacity, r.conflict) for r in (rows_first, columns_first))
    return Question(
        "Misses",
        f"M is a matrix of {rows} x {columns} numbers of 4 bytes. It is stored row by row, from"
        f" address 0. A cache has {lines} lines of {LINE} bytes and is empty at first. {where}",
        code,
        ("How many misses does this program have?",
         "How many does it have after the loops over i and j are swapped?"),
        (str(rows_first.misses), str(columns_first.misses)),
        "Compulsory, capacity and conflict misses are {} + {} + {} before,".format(*first)
        + " {} + {} + {} after; a row is".format(*second) + f" {columns * 4 // LINE} lines.",
        "notebook 04, sections 1 to 3",
        5,
    )  # fmt: skip


def reuse(rng: Rng) -> Question:
    """Ask for the reuse distances of a short walk, and for the misses of a cache."""
    names = "ABCDE"[: pick(rng, (4, 5))]
    while True:
        walk = [pick(rng, names) for _ in range(12)]
        addresses = [64 * names.index(name) for name in walk]
        distances = cachesim.reuse_distances(addresses).tolist()
        if set(walk) == set(names) and len(set(distances)) > 3:
            break
    lines = pick(rng, (2, 3))
    outcome = cachesim.simulate(cachesim.Cache(64 * lines, 64, None), addresses)
    return Question(
        "Reuse distance",
        "A program uses these cache lines, one after the other. The caches in this question are"
        " fully associative, evict the least recently used line (LRU), and are empty at first.",
        " ".join(walk),
        ("Write down the reuse distance of each access, -1 for a first use.",
         f"How many misses does a cache of {lines} lines have?",
         "How many lines must a cache hold, so that only first uses miss?"),
        (" ".join(map(str, distances)), str(outcome.misses), str(max(distances) + 1)),
        f"An access hits if its distance is at least 0 and less than the number of lines:"
        f" {outcome.hits} of {len(walk)} hit; the largest distance is {max(distances)}.",
        "notebook 04, section 4",
        4,
    )  # fmt: skip
