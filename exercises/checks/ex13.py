# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 13: which table is alike, a history that is dropped, and candidates to begin with."""

import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np

from minitvm import viz
from minitvm.edu import (
    PASSED,
    Challenge,
    Exercise,
    Item,
    Part,
    Puzzle,
    equal,
    failed,
    required,
    wrong_type,
)

# --- layers that are drawn -----------------------------------------------------------------------

KNOBS = (  # rows and columns of a tile, channels of a tile and of a step, lanes, packed or not
    (1, 2, 4, 7, 8, 14), (1, 2, 4, 7, 8, 14, 28), (8, 16, 32, 64, 128), (1, 2, 4, 8), (4, 8, 16),
    (0, 1),
)  # fmt: skip
DIVISORS = ((1, 2, 4, 8), (1, 2, 7, 14), (1, 2, 4, 7, 14), (1, 2, 4, 7, 8))  # of some images
ALIKE = 0.85  # the share of an effect that all layers have in common


def drawn_operator(rng):
    """Draw the effects of all options on the logarithm of the time, common to some layers."""
    return [rng.gamma(1.5, 0.3, len(options)) for options in KNOBS], rng.normal(0, 0.15, (5, 4))


def drawn_layer(rng, operator, alike=ALIKE):
    """Return {row: seconds} of a layer: its effects are partly those of the operator."""
    common, pairs = operator
    own, own_pairs = drawn_operator(rng)
    effects = [alike * a + (1 - alike) * b for a, b in zip(common, own, strict=True)]
    both = alike * pairs + (1 - alike) * own_pairs
    offered = [list(options) for options in KNOBS]
    for knob in range(2):
        sizes = DIVISORS[int(rng.integers(len(DIVISORS)))]
        offered[knob] = [o for o in KNOBS[knob] if o in sizes]
    scale, times = math.exp(rng.normal(-7, 1.5)), {}
    for place in np.ndindex(*map(len, offered)):
        row = tuple(options[n] for options, n in zip(offered, place, strict=True))
        at = [options.index(o) for options, o in zip(KNOBS, row, strict=True)]
        log = sum(float(e[n]) for e, n in zip(effects, at, strict=True)) + both[at[2], at[3]]
        times[row] = scale * math.exp(log + rng.normal(0, 0.03))
    return times


def recorded(rng, times, count):
    """Draw a table: [row, seconds] of some rows of a layer."""
    rows = list(times)
    chosen = rng.permutation(len(rows))[:count]
    return [[list(rows[n]), times[rows[n]]] for n in chosen]


def drawn_tables(rng, operator, count=4, rows=240):
    """Draw the tables of some layers, by name."""
    names = rng.permutation(range(1, 13))[:count]
    return {f"C{n}": recorded(rng, drawn_layer(rng, operator), rows) for n in names}


# --- tables that are alike -----------------------------------------------------------------------

FEWEST = 8  # the fewest shared rows


def mean_ranks(values):
    """Return the rank of each value; equal values have the mean of their ranks."""
    values = np.array(values)
    less = (values[:, None] > values[None, :]).sum(axis=1)
    return less + ((values[:, None] == values[None, :]).sum(axis=1) - 1) / 2


def alike(tried, seconds, tables):
    """Return the reference answer: the tables with enough shared rows, the most alike first."""
    found = []
    for name, table in tables.items():
        known = {tuple(row): t for row, t in table}
        pairs = zip(tried, seconds, strict=True)
        both = [(t, known[tuple(row)]) for row, t in pairs if tuple(row) in known]
        if len(both) >= FEWEST:
            mine, theirs = (mean_ranks(times) for times in zip(*both, strict=True))
            found.append([name, float(np.corrcoef(mine, theirs)[0, 1])])
    return sorted(found, key=lambda pair: -pair[1])


def drawn_trials(kind):
    """Return a function that draws trials and tables; kind is "all", "some" or "failures"."""

    def draw(rng):
        rows = [[int(rng.choice(options)) for options in KNOBS] for _ in range(60)]
        rows = [list(row) for row in dict.fromkeys(map(tuple, rows))][:24]
        logs = rng.normal(0, 1, len(rows))
        tables = {}
        for n, noise in enumerate(rng.permutation([0.3, 1.0, 3.0]).tolist()):
            times = np.exp(rng.normal(-6, 2) + logs + rng.normal(0, noise, len(rows))).tolist()
            if kind == "failures":
                lost = rng.permutation(len(rows))[: int(rng.integers(4, 9))].tolist()
                times = [math.inf if k in lost else t for k, t in enumerate(times)]
            pairs = [[row, t] for row, t in zip(rows, times, strict=True)]
            tables[f"C{n + 1}"] = [pairs[k] for k in rng.permutation(len(pairs))]
        seconds = np.exp(logs - 7).tolist()
        if kind == "some":
            for name, kept in zip(tables, rng.permutation([FEWEST - 1, FEWEST, 15]), strict=True):
                others = [[[*row[:-1], 2], t] for row, t in tables[name]]
                tables[name] = tables[name][: int(kept)] + others
            rows, seconds = [*rows, [3] * len(KNOBS)], [*seconds, 1e-3]
        return rows, seconds, tables

    return draw


def compares(kind, weight, title, why):
    """Make a part that compares the tables that are alike, for trials of one kind."""
    part = equal(alike, drawn_trials(kind), rtol=1e-6, weight=weight, title=title, why=why)
    return replace(part, kind="property")


# --- a history that misleads ---------------------------------------------------------------------

NOISE = {"good": 0.5, "weak": 2.5}  # of scores, in standard deviations of the logarithm of the time


def drawn_history(rng, kind, trials):
    """Draw (scores, seconds): the scores of a history, and the times of the trials."""
    count = int(rng.integers(*trials))
    logs = rng.normal(0, 1, count)
    scores = -logs + rng.normal(0, NOISE.get(kind, NOISE["good"]), count)
    if kind == "inverted":
        scores = -scores
    if kind == "unrelated":
        scores = rng.normal(0, 1, count)
    return scores.tolist(), np.exp(logs - 6).tolist()


def judges(kind, trials, cases, enough, weight, title, why):
    """Make a part: at least `enough` of the histories of one kind are kept, or dropped."""
    wanted = kind in NOISE

    def check(answer, rng):
        right, missed = 0, ""
        for _ in range(cases):
            scores, seconds = drawn_history(rng, kind, trials)
            got = answer(scores, seconds)
            if type(got) is not bool:
                return wrong_type("True or False", got)
            if got == wanted:
                right += 1
            else:
                share = pairs_in_order(scores, seconds)
                missed = missed or f"{len(scores)} trials, {share:.2f} of their pairs in order"
        if right >= enough:
            return PASSED
        verb = "kept" if wanted else "dropped"
        return failed(
            "wrong-decision",
            expected=f"at least {enough} of {cases} histories {verb}",
            got=f"{right}",
            case=f"{kind} histories; the first wrong decision: {missed}",
            why=why,
        )

    return Part("property", title, weight, check)


def pairs_in_order(scores, seconds):
    """Return the share of pairs that the scores order rightly."""
    scores, seconds = np.array(scores), np.array(seconds)
    right = (scores[:, None] > scores[None, :])[seconds[:, None] < seconds[None, :]]
    return float(np.mean(right))


# --- candidates to begin with --------------------------------------------------------------------

LAYERS, FIRST = 16, 8


def wrong_rows(got, count, rows):
    """Return what is wrong with a list of rows; "" if nothing is."""
    if not isinstance(got, list) or not all(isinstance(row, list) for row in got):
        return "not a list of lists"
    known = {tuple(row) for row in rows}
    strange = [row for row in got if tuple(row) not in known]
    if strange:
        return f"{strange[0]}, which is not among the rows"
    if len({tuple(row) for row in got}) != len(got):
        return "a row twice"
    return "" if len(got) == count else f"{len(got)} rows"


def right_rows(answer, rng):
    """Check that the rows are different, and rows of the layer."""
    operator = drawn_operator(rng)
    for count in (1, FIRST, 20):
        times, tables = drawn_layer(rng, operator), drawn_tables(rng, operator)
        rows = [list(row) for row in times]
        if wrong := wrong_rows(answer(tables, rows, count), count, rows):
            return failed("wrong-value", expected=f"{count} different rows", got=wrong)
    return PASSED


def by_effects(tables, rows, count):
    """Return the reference answer: rows whose options were fast in the tables."""
    logs = {}
    for table in tables.values():
        middle = np.mean([math.log(t) for _, t in table])
        for row, t in table:
            for place in enumerate(row):
                logs.setdefault(place, []).append(math.log(t) - middle)
    effects = {place: np.mean(values) for place, values in logs.items()}
    return sorted(rows, key=lambda row: sum(effects.get(p, 0.0) for p in enumerate(row)))[:count]


def begins(goal, least, weight, title):
    """Make a part: the best of the first rows has `goal` of the best speed, as a mean."""

    def check(answer, rng):
        shares = []
        for _ in range(LAYERS):
            operator = drawn_operator(rng)
            times, tables = drawn_layer(rng, operator), drawn_tables(rng, operator)
            rows = [list(row) for row in times]
            got = answer(tables, rows, FIRST)
            if wrong := wrong_rows(got, FIRST, rows):
                return failed("wrong-value", expected=f"{FIRST} different rows", got=wrong)
            shares.append(min(times.values()) / min(times[tuple(row)] for row in got))
        mean = float(np.mean(shares))
        if mean >= goal:
            return PASSED
        return failed(
            "too-slow-search",
            expected=f"{goal:.2f} of the best speed",
            got=f"{mean:.2f}",
            case=f"{LAYERS} layers, the best of {FIRST} rows each",
            why="layers take seconds or microseconds: compare each table with itself; a row that"
            " no table has still has options that the tables know",
            score=max(0.0, (mean - least) / (goal - least)),
        )

    return Part("property", title, weight, check)


# --- tilings of the accelerator ------------------------------------------------------------------

TILINGS = json.loads(Path(__file__).with_name("ex13_cycles.json").read_text(encoding="utf-8"))
BUDGET, BATCH, CLOSE = 32, 4, 1.03
BY_HAND = 0.3  # the score of a tiling that is only as good as the one by hand


def cycles_of(table):
    """Return the simulated cycles of each allowed row of a recorded layer."""
    return {
        tuple(o[n] for o, n in zip(table["options"], row, strict=True)): cycles
        for *row, cycles in table["cycles"]
    }


def wrong_tilings(got, options, tried):
    """Return what is wrong with a batch of rows; "" if nothing is."""
    every = [list(row) for row in itertools.product(*options) if list(row) not in tried]
    return wrong_rows(got, BATCH, every)


def tunes(layer, weight):
    """Make a part: within BUDGET trials, a row is within 3 % of the fastest one."""

    def check(answer, rng):
        table = TILINGS[layer]
        known, tried, cycles = cycles_of(table), [], []
        goal = math.floor(CLOSE * min(known.values()))
        while len(tried) < BUDGET:
            options = [list(o) for o in table["options"]]
            got = answer(options, [list(row) for row in tried], list(cycles), BATCH)
            if wrong := wrong_tilings(got, options, tried):
                return failed("wrong-value", expected=f"{BATCH} new rows of options", got=wrong)
            tried += got
            cycles += [known.get(tuple(row), math.inf) for row in got]
            if min(cycles) <= goal:
                return PASSED
        refused = sum(c == math.inf for c in cycles)
        return failed(
            "too-slow-search",
            expected=f"at most {goal:,} cycles",
            got=f"{min(cycles):,} cycles",
            case=f"{layer}, {BUDGET} trials, {refused} of them refused; by hand: {table['hand']:,}",
            why="a tile that is larger than a refused one is refused, too; large tiles that fit"
            " fetch the fewest bytes",
            score=BY_HAND * (min(cycles) <= table["hand"]),
        )

    return Part("property", f"{layer}: within 3 % of the fastest tiling", weight, check)


# --- the challenge -------------------------------------------------------------------------------

TARGETS, MOST_TRIALS, AT_ONCE, GOAL = 6, 120, 4, 0.98


def trials_needed(answer, tables, times, seed):
    """Return (trials until GOAL of the best speed is reached, ""), or (0, the fault of a row)."""
    rows, best = [list(row) for row in times], min(times.values())
    tried, seconds = [], []
    while len(tried) < MOST_TRIALS:
        given = [list(row) for row in tried], list(seconds)
        got = answer(tables, rows, *given, AT_ONCE, seed)
        if wrong := wrong_rows(got, AT_ONCE, [row for row in rows if row not in tried]):
            return 0, wrong
        for row in got:
            tried.append(row)
            seconds.append(times[tuple(row)])
            if best / seconds[-1] >= GOAL:
                return len(tried), ""
    return MOST_TRIALS, ""


def trials_with_history(answer, rng):
    """Count the trials that a search needs on TARGETS layers, with the tables of others."""
    total = 0
    for _ in range(TARGETS):
        operator = drawn_operator(rng)
        tables = drawn_tables(rng, operator, count=3)
        times = drawn_layer(rng, operator, alike=float(rng.choice([0.3, 0.6, 0.9])))
        trials, wrong = trials_needed(answer, tables, times, int(rng.integers(1000)))
        if wrong:
            return failed("wrong-value", expected=f"{AT_ONCE} new rows of the layer", got=wrong)
        total += trials
    return total


def at_random(tables, rows, tried, seconds, count, seed):
    """Return the stub of the challenge: new rows, at random."""
    rng = random.Random(f"{seed} {len(tried)}")
    return rng.sample([row for row in rows if row not in tried], count)


def history_alone(tables, rows, tried, seconds, count, seed):
    """Return the reference: the rows that the tables of other layers promise, in order."""
    return by_effects(tables, [row for row in rows if row not in tried], count)


# --- puzzles -------------------------------------------------------------------------------------


def worth(here, there):
    return max(there) and there[here.index(max(here))] / max(there)


def two_layers(rng):
    count = int(rng.integers(4, 12))
    return tuple([round(float(x), 2) for x in rng.uniform(0.1, 60, count)] for _ in range(2))


def favourite_bars(value, arguments):
    """Draw the speeds on the second layer, as shares of the best, beside the answer."""
    there = arguments[1]
    bars = {f"candidate {n}": round(s / max(there), 3) for n, s in enumerate(there)}
    return viz.ScoreBars({**bars, "your answer": round(float(value), 3)}, "of the best speed")


def fetched(rows, columns, blocks, h, w, oc, image, weights):
    return image * (blocks // oc) + weights * (rows // h) * (columns // w)


def tiled_layer(rng):
    """Draw a layer, and a tile that divides it."""
    h, w, oc, *counts = (int(n) for n in rng.integers(1, 9, 6))
    rows, columns, blocks = (size * count for size, count in zip((h, w, oc), counts, strict=True))
    return rows, columns, blocks, h, w, oc, rows * columns * 64, blocks * 1024


def fetched_bars(value, arguments):
    """Draw the bytes of one pass over the image and over the weights, beside the answer."""
    image, weights = arguments[-2:]
    bars = {"image, once": image, "weights, once": weights, "your answer": float(value)}
    return viz.ScoreBars(bars, "bytes")


PUZZLES = (
    Puzzle(
        "13.worth",
        "the favourite of another layer",
        "worth",
        (
            equal(
                worth, two_layers, rtol=1e-9, cases=12, title="its share of the best speed there",
                why="the fastest candidate here, and its speed there",
            ),
        ),
        lambda rng: ([31.0, 58.0, 22.0, 44.0], [20.0, 27.0, 12.0, 36.0]),
        worth,
        (
            "here.index(max(here)) is the number of the fastest candidate here.",
        ),
        "notebook 13, section 1",
        of="value",
        picture=favourite_bars,
    ),
    Puzzle(
        "13.fetched",
        "what a tile fetches",
        "fetched",
        (
            equal(
                fetched, tiled_layer, cases=12, title="the bytes of the image and of the weights",
                why="the image once for each group of output channels, the weights once for each"
                " tile of pixels",
            ),
        ),
        lambda rng: (14, 14, 32, 7, 14, 8, 50176, 131072),
        fetched,
        (
            "How many tiles of pixels are there, and how many groups of output channels?",
        ),
        "notebook 13, section 8",
        of="value",
        picture=fetched_bars,
    ),
)  # fmt: skip


EXERCISE = Exercise(
    "ex13",
    "transfer",
    (
        Item(
            "ex13.1",
            "which table is alike",
            4,
            "alike",
            (
                compares(
                    "all",
                    0.3,
                    "tables that have all trials",
                    "the correlation of ranks, not of seconds; the most alike table first",
                ),
                compares(
                    "some",
                    0.4,
                    "tables that share some rows, or too few",
                    f"only shared rows are ranked; with fewer than {FEWEST} a table is left out",
                ),
                compares(
                    "failures",
                    0.3,
                    "tables in which candidates failed",
                    "equal times, such as those of failures, have the mean of their ranks",
                ),
            ),
            (
                "For each table: which trials does it have, too? Collect pairs of times, yours and"
                " the table's.",
                "Replace times by ranks, on both sides, and among the pairs only. Rank of x: how"
                " many are smaller, plus half of the others that are equal.",
                "known = {tuple(row): t for row, t in table}; np.corrcoef(mine, theirs)[0, 1] of"
                " the ranks; sorted(..., key=lambda pair: -pair[1]).",
            ),
            "notebook 13, section 1",
        ),
        Item(
            "ex13.2",
            "when is a history dropped",
            4,
            "kept",
            (
                required(
                    judges(
                        "good",
                        (16, 97),
                        60,
                        54,
                        0.1,
                        "good histories are kept",
                        "a history that puts five of six pairs in order saves many trials",
                    )
                ),
                judges(
                    "weak",
                    (150, 250),
                    30,
                    27,
                    0.2,
                    "weak histories are kept if there are many trials",
                    "with so many trials, chance does not put .6 of the pairs in order",
                ),
                judges(
                    "inverted",
                    (16, 97),
                    40,
                    39,
                    0.1,
                    "inverted histories are dropped",
                    "it calls the slowest candidates the fastest",
                ),
                judges(
                    "unrelated",
                    (30, 97),
                    100,
                    90,
                    0.3,
                    "unrelated histories are dropped",
                    "a useless history often puts a little more than half of the pairs in order",
                ),
                judges(
                    "unrelated",
                    (6, 20),
                    150,
                    135,
                    0.3,
                    "unrelated histories are dropped after few trials, too",
                    "the fewer trials there are, the further above one half chance may take the"
                    " share of a useless history",
                ),
            ),
            (
                "A useless history has half of the pairs in order only on average. How far from"
                " one half is it usually, for 6 trials and for 96?",
                "Try it: shuffle the scores many times, and compare the real share with the shares"
                " of the shuffled scores. Or use the formula of the text.",
                "Keep it if the share of pairs in order exceeds 0.5 by more than two standard"
                " deviations: sqrt(2 * (2 * n + 5) / (9 * n * (n - 1))) / 2 for n trials.",
            ),
            "notebook 13, section 7",
        ),
        Item(
            "ex13.3",
            "eight candidates to begin with",
            5,
            "first",
            (
                required(Part("property", "different rows of the layer", 0.1, right_rows)),
                begins(0.75, 0.65, 0.2, "three quarters of the best speed"),
                begins(0.88, 0.84, 0.7, "seven eighths of the best speed"),
            ),
            (
                "The fastest row of one table is a start. But what do all rows of all tables say"
                " about an option?",
                "In each table, take the logarithms of the times minus their mean: layers of any"
                " size then compare. The effect of an option is the mean over all rows with it.",
                "effects[knob, option] = mean of (log t - mean of its table). Sort the rows by the"
                " sum of the effects of their options, and return the first `count`.",
            ),
            "notebook 13, sections 2 and 3",
        ),
        Item(
            "ex13.4",
            "a tiling for the accelerator",
            4,
            "tilings",
            (
                tunes("C11", 0.5),
                tunes("C8", 0.5),
            ),
            (
                "Print the rows that your function returns, for made-up cycles: what does it"
                " learn from a refused row?",
                "Few bytes are fetched if tiles have many pixels and many output channels. So"
                " begin with large ones, and leave out what a refused row has ruled out.",
                "refused = the tried rows with math.inf. Drop each row that is at least as large"
                " as one of them in all six places, and sort the others by h * w * co * threads,"
                " the largest first.",
            ),
            "notebook 13, section 8",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "13.challenge",
        "a search with a history",
        "search",
        "trials",
        trials_with_history,
        at_random,
        history_alone,
        minutes=60,
        best_known=137,  # the solution: equation 4, with effects fitted by ridge regression
        hints=(
            "The tables are good for the first rows. What do your own trials say about them?",
            "Equation 4: the effects of options in the tables, plus a correction that is fitted to"
            " the difference of your own trials from it, and stronger with more trials.",
        ),
        section="notebook 13, sections 3 and 4",
    ),
)
