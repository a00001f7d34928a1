"""Questions about cost models: pairs in order, a split of a tree, a corrected history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from statistics import mean

import numpy as np

from minitvm import tune

from ..item import Rng
from .question import Question, pick, shuffled

LETTERS = "ABCDEF"
TILES, LANES = (4, 8, 16, 32), (4, 8, 16)
CLEAR = 1.1  # the best answer is this many times as good as the second one
Row = tuple[int, int]  # the options of a candidate


def pairs(rng: Rng) -> Question:
    """Ask how many pairs a model puts in order, and what a search gets from it."""
    while True:
        speeds = np.sort(rng.choice(np.arange(20, 100), len(LETTERS), replace=False)) / 100
        speeds = rng.permutation(np.append(speeds[1:], 1.0))
        scores = np.round(np.log2(speeds) + rng.normal(0, 0.8, len(speeds)), 1)
        measured = speeds[np.argsort(-scores)[:2]]
        if len({*scores.tolist()}) == len(scores) and measured.max() < 1:
            break
    count = len(LETTERS) * (len(LETTERS) - 1) // 2
    in_order = round((tune.pairwise_accuracy(scores, speeds) or 0.0) * count)
    wrong = [
        LETTERS[a] + LETTERS[b]
        for a, b in combinations(range(len(LETTERS)), 2)
        if (scores[a] - scores[b]) * (speeds[a] - speeds[b]) < 0
    ]
    rows = zip(LETTERS, scores, speeds, strict=True)
    return Question(
        "Pairs in order",
        "A model has scored candidates that it has not seen, the higher the better. Then they were"
        " measured. A speed is a share of that of the fastest candidate.",
        "\n".join(["candidate  score  speed", *(f"{n:9}  {s:5.1f}  {v:5.2f}" for n, s, v in rows)]),
        ("Which pairs does the model put in the wrong order?",
         "How many of all pairs are in order?",
         "A search measures the two candidates with the highest scores. What share of the best"
         " speed does it get?"),
        (", ".join(wrong) or "none", f"{in_order} of {count}", f"{measured.max():.2f}"),
        f"{count} - {len(wrong)} = {in_order} pairs are in order; the two highest scores have the"
        f" speeds {measured[0]:.2f} and {measured[1]:.2f}.",
        "notebook 12, sections 3 and 4",
        4,
    )  # fmt: skip


def splits(rng: Rng) -> Question:
    """Ask for the first split of a regression tree on the speeds of six candidates."""
    while True:
        rows = [(pick(rng, TILES), pick(rng, LANES)) for _ in range(6)]
        speeds = [int(n) / 10 for n in rng.integers(1, 11, 6)]
        errors = sorted((_error(rows, speeds, split), split) for split in _splits(rows))
        if len({*rows}) == len(rows) and len(errors) > 2 and errors[1][0] > CLEAR * errors[0][0]:
            break
    split = errors[0][1]
    below, others = _halves(rows, speeds, split)
    text = [f"{n:9}  {tile:4}  {lanes:5}  {v:5.1f}"
            for n, (tile, lanes), v in zip(LETTERS, rows, speeds, strict=True)]  # fmt: skip
    return Question(
        "The first split of a tree",
        "A regression tree of depth 1 learns the speeds of these candidates. It asks one question:"
        " is `tile`, or is `lanes`, below one of the sizes in its column? Then it predicts the"
        " mean speed of each group.",
        "\n".join(["candidate  tile  lanes  speed", *text]),
        ("Which question leaves the smallest sum of squared errors?",
         "Which speed does the tree predict if the answer is yes, and which if it is no?"),
        (_question(split), f"{mean(below):.2f}, {mean(others):.2f}"),
        f"The sum of squared errors is {errors[0][0]:.3f}; the second best question,"
        f" {_question(errors[1][1])}, leaves {errors[1][0]:.3f}.",
        "notebook 12, section 3",
        4,
    )  # fmt: skip


def _splits(rows: list[Row]) -> list[Row]:
    """Return all splits with two groups: the number of a column, and the least size above."""
    return [(n, size) for n in (0, 1) for size in sorted({row[n] for row in rows})[1:]]


def _halves(rows: list[Row], speeds: list[float], split: Row) -> tuple[list[float], list[float]]:
    column, size = split
    groups: tuple[list[float], list[float]] = [], []
    for row, speed in zip(rows, speeds, strict=True):
        groups[row[column] >= size].append(speed)
    return groups


def _error(rows: list[Row], speeds: list[float], split: Row) -> float:
    """Return the sum of the squared errors that a split leaves."""
    return sum((v - mean(half)) ** 2 for half in _halves(rows, speeds, split) for v in half)


def _question(split: Row) -> str:
    return f"{('tile', 'lanes')[split[0]]} < {split[1]}"


# --- equation 4 ----------------------------------------------------------------------------------


def corrections(rng: Rng) -> Question:
    """Ask for a local model of one knob, and for equation 4 of the AutoTVM paper."""
    while True:
        every = list(product(LANES[1:], (0, 1)))
        rows = shuffled(rng, every) + shuffled(rng, every)[:2]
        past = [-int(n) / 10 for n in rng.integers(2, 25, 6)]
        left = [int(n) / 10 for n in rng.integers(-8, 9, 6)]
        lanes, pack = (_means(rows, left, knob) for knob in (0, 1))
        errors = [sum((e - means[row[knob]]) ** 2 for row, e in zip(rows, left, strict=True))
                  for knob, means in ((0, lanes), (1, pack))]  # fmt: skip
        new = [(pick(rng, LANES[1:]), pick(rng, (0, 1)), -int(n) / 10)
               for n in rng.integers(2, 15, 3)]  # fmt: skip
        knob = errors.index(min(errors))
        means = (lanes, pack)[knob]
        scores = [past_score + means[(a, b)[knob]] for a, b, past_score in new]
        first, second = sorted(scores, reverse=True)[:2]
        is_telling = scores.index(first) != int(np.argmax([n[2] for n in new]))
        if max(errors) > CLEAR * min(errors) and first > second + 0.05 and is_telling:
            break
    head = "lanes  pack  f_global  measured"
    tried = [f"{a:5}  {b:4}  {f:8.1f}  {f + e:8.1f}"
             for (a, b), f, e in zip(rows, past, left, strict=True)]  # fmt: skip
    candidates = [f"{a:5}  {b:4}  {f:8.1f}  {name:>8}"
                  for name, (a, b, f) in zip("ABC", new, strict=True)]  # fmt: skip
    effects = ", ".join(f"{mean:+.2f} for {option}" for option, mean in sorted(means.items()))
    name = ("lanes", "pack")[knob]
    return Question(
        "A history and its correction",
        "A history estimates log2 of the speed: f_global. Six candidates of a new task have been"
        " measured. The local model knows one knob: for each of its options, it adds the mean"
        " error of the trials with this option. A, B and C are candidates that have no trial.",
        "\n".join([head, *tried, "", *candidates]),
        ("Which of the two knobs leaves the smaller sum of squared errors among the trials?",
         "What is f = f_global + f_local of A, B and C with this knob?",
         "Which of the three is measured next?"),
        (name, ", ".join(f"{n} {v:.2f}" for n, v in zip("ABC", scores, strict=True)),
         "ABC"[scores.index(first)]),
        f"The sums of squared errors are {errors[0]:.2f} with lanes and {errors[1]:.2f} with pack;"
        f" {name} adds {effects}.",
        "notebook 13, section 3",
        5,
    )  # fmt: skip


def _means(rows: Sequence[Row], left: list[float], knob: int) -> dict[int, float]:
    """Return the mean error of each option of a knob."""
    return {
        option: mean(e for row, e in zip(rows, left, strict=True) if row[knob] == option)
        for option in {row[knob] for row in rows}
    }
