# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 11: a space with filters, a search on a frozen table, a rank loss, and a log."""

import itertools
import json
import math
import random
from typing import Any

import numpy as np

from minitvm import viz
from minitvm.edu import (
    PASSED,
    Challenge,
    Exercise,
    Item,
    Part,
    Puzzle,
    Space,
    equal,
    failed,
    required,
    wrong_type,
)

# --- a space -------------------------------------------------------------------------------------

BLOCK = 256  # the most columns of a block
CHAINS = 8  # the fewest sums in a tile
LOOPS = {"tile_y": 2, "tile_x": 3}  # the loops of each
CASES = ((96, 768, 8, 16), (60, 384, 4, 16), (512, 512, 16, 32), (56, 448, 8, 16))


def sizes_of(rng):
    """Draw (rows, columns, lanes, registers): not only powers of two."""
    rows = int(rng.choice([48, 60, 96, 120, 512]))
    columns = int(rng.choice([192, 320, 384, 640, 768]))
    lanes, registers = ((8, 16), (16, 32), (4, 32), (8, 32))[int(rng.integers(4))]
    return rows, columns, lanes, registers


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def broken_rule(y, x, lanes, registers):
    """Return why a configuration is forbidden; "" if it is allowed."""
    vectors = x[-1] // lanes
    if x[-1] % lanes:
        return f"{x[-1]} columns of a tile are not a multiple of {lanes} lanes"
    if x[-2] * x[-1] > BLOCK:
        return f"a block has {x[-2] * x[-1]} columns"
    if y[-1] * vectors + vectors + 1 > registers:
        used = f"{y[-1]} x {vectors} vectors of sums, {vectors} of B and one of A"
        return f"{used} do not fit into {registers} registers"
    return f"it has {y[-1] * vectors} vectors of sums" if y[-1] * vectors < CHAINS else ""


def tiles_of_rows(rows):
    return {(-1, y) for y in divisors(rows)}


def tiles_of_columns(columns, lanes):
    """Return the options of tile_x that meet the conditions of this knob alone."""
    splits = {(-1, m, x) for x in divisors(columns) for m in divisors(columns // x)}
    return {(_, m, x) for _, m, x in splits if x % lanes == 0 and m * x <= BLOCK}


def allowed(rows, columns, lanes, registers):
    """Return all configurations that the space has."""
    pairs = itertools.product(tiles_of_rows(rows), tiles_of_columns(columns, lanes))
    return {(y, x) for y, x in pairs if not broken_rule(y, x, lanes, registers)}


def wrong_space(got):
    """Return the outcome for what is no space with the two knobs; None if it is one."""
    if not isinstance(got, Space):
        return wrong_type("a ConfigSpace: `return cfg`", got)
    loops = {name: {len(o) for o in options} for name, options in got.knobs.items()}
    if loops == {name: {n} for name, n in LOOPS.items()}:
        return None
    shown = ", ".join(f"{name!r} with {sorted(n)} loops" for name, n in loops.items())
    told = "the knobs 'tile_y' with 2 loops, and 'tile_x' with 3"
    return failed("wrong-type", expected=told, got=shown)


def each_knob(answer, rng):
    """Check that each knob has the options that are needed, and only what its filter allows."""
    for given in (*CASES, sizes_of(rng)):
        got = answer(*given)
        if wrong := wrong_space(got):
            return wrong
        rows, columns, lanes, _ = given
        most = {"tile_y": tiles_of_rows(rows), "tile_x": tiles_of_columns(columns, lanes)}
        for n, (name, possible) in enumerate(most.items()):
            options, case = {tuple(o) for o in got.knobs[name]}, f"{name} of space{given}"
            if more := sorted(options - possible):
                shown, why = f"{list(more[0])}, too", ""
                if name == "tile_x":
                    why = broken_rule((-1, 1), more[0], lanes, math.inf)
                told = "options that meet the conditions of this knob alone"
                return failed("forbidden", expected=told, got=shown, case=case, why=why)
            if less := sorted({cfg[n] for cfg in allowed(*given)} - options):
                return failed("missing", expected=f"the option {list(less[0])}", case=case)
    return PASSED


def exactly(answer, rng):
    """Check that the space has exactly the allowed configurations, each once."""
    for given in (*CASES, *(sizes_of(rng) for _ in range(3))):
        got, want, (_, _, lanes, registers) = answer(*given), allowed(*given), given
        if wrong := wrong_space(got):
            return wrong
        options = [[tuple(o) for o in got.knobs[name]] for name in LOOPS]
        order = [list(got.knobs).index(name) for name in LOOPS]
        rows = [[row[n] for n in order] for row in got.configurations]
        found = [tuple(o[n] for o, n in zip(options, row, strict=True)) for row in rows]
        case, count = f"space{given}", f"{len(want)} configurations"
        if more := sorted(set(found) - want):
            ((y, x), *_), shown = more, f"{len(found)}, among them {listed(more[0])}"
            why = broken_rule(y, x, lanes, registers)
            return failed("forbidden", expected=count, got=shown, case=case, why=why)
        if less := sorted(want - set(found)):
            told = f"{count}, among them {listed(less[0])}"
            return failed("missing", expected=told, got=f"{len(found)}", case=case)
        if len(found) != len(want):
            return failed("twice", expected="each configuration once", case=case)
    return PASSED


def listed(cfg):
    return [list(option) for option in cfg]


# --- a search ------------------------------------------------------------------------------------

SIZES = (8, 7, 6, 5, 4, 3)  # options of the knobs, which each space has in another order
BUDGET, COUNT, SEARCHES = 192, 16, 24
ENOUGH_SPEED, NOTHING = 0.95, 0.93  # mean shares of the best speed, for all points and for none
FOOT = 0.7  # the speed at the top of the wide hill, and at the foot of the small one


def drawn_space(rng, hills):
    """Return (sizes, seconds of each row) of a space with one hill or with two.

    The speed falls with each step away from the top of a hill. The small one of two hills has 4 %
    of the rows: those where the three largest knobs have options from their middle. They are all
    faster than the other rows, and the top of the wide hill differs in all three knobs.
    """
    sizes = rng.permutation(SIZES)
    rows = np.indices(sizes).reshape(len(sizes), -1).T
    falls = rng.uniform(0.75, 0.95, len(sizes))
    middle, few = sizes // 2, (sizes + 1) // 3
    low, high = rng.integers(0, few), middle + rng.integers(0, few)

    def hill(top):
        return np.prod(falls ** abs(rows - top), axis=1)

    speeds = hill(low)
    if hills == 2:
        small = np.all((rows >= middle) & (rows < middle + few) | (sizes < 6), axis=1)
        speeds = np.where(small, FOOT + (1 - FOOT) * hill(high), FOOT * speeds)
    else:  # some rows fail
        one, other = rng.permutation(len(sizes))[:2]
        fails = rows[:, [one, other]] == rng.integers(0, sizes[[one, other]])
        speeds = np.where(fails.all(axis=1), 0.0, speeds)
    with np.errstate(divide="ignore"):
        seconds = 1e-3 / (speeds * rng.uniform(0.98, 1.0, len(rows)))
    mirrored = np.where(rng.random(len(sizes)) < 0.5, sizes - 1 - rows, rows)
    return sizes.tolist(), dict(zip(map(tuple, mirrored.tolist()), seconds.tolist(), strict=True))


def wrong_rows(rows, count, sizes, tried):
    """Describe what is wrong about proposed rows; "" if nothing is."""
    if not isinstance(rows, list):
        return f"{type(rows).__name__} is not a list of rows"
    if len(rows) != count:
        return f"{len(rows)} rows, not {count}"
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != len(sizes):
            return f"{row!r:.60} is not a row of {len(sizes)} numbers"
        if any(type(n) is not int or not 0 <= n < most for n, most in zip(row, sizes, strict=True)):
            return f"{row!r:.60}: an option is a number from 0, and there are {sizes} of them"
    found = [tuple(row) for row in rows]
    if again := [row for row in found if found.count(row) > 1 or row in tried]:
        return f"{again[0]} is proposed twice, or has been measured before"
    return ""


def searched(answer, sizes, times, seed):
    """Run BUDGET trials; return (reached share of the best speed, ""), or (0.0, a row's fault)."""
    tried, seconds = {}, []
    while len(tried) < BUDGET:
        rows = answer(sizes, [list(row) for row in tried], list(seconds), COUNT, seed)
        if wrong := wrong_rows(rows, COUNT, sizes, tried):
            return 0.0, wrong
        for row in rows:
            tried[tuple(row)] = None
            seconds.append(times.get(tuple(row), math.inf))
    return min(times.values()) / min(seconds), ""


def rows_in_order(answer, rng):
    """Check that rows are new, complete and in range, also when nearly all have been tried."""
    sizes = [3, 1, 4, 2]
    every = [list(row) for row in itertools.product(*map(range, sizes))]
    for left in (24, 20, 4):
        drawn = [every[n] for n in rng.permutation(24)]
        tried = drawn[: 24 - left]
        seconds = [float(x) for x in rng.random(len(tried))]
        count = min(4, left)
        rows = answer(sizes, tried, seconds, count, int(rng.integers(1000)))
        case = f"{len(tried)} of 24 rows were tried, {count} are wanted"
        if wrong := wrong_rows(rows, count, sizes, {tuple(row) for row in tried}):
            return failed("wrong-value", expected="new rows", got=wrong, case=case)
    return PASSED


def finds(hills):
    """Make a part that checks the mean speed found in BUDGET trials, with one hill or with two."""

    def check(answer, rng):
        reached = []
        for n in range(SEARCHES):
            sizes, times = drawn_space(rng, hills)
            share, wrong = searched(answer, sizes, times, 1000 * n + int(rng.integers(1000)))
            if wrong:
                return failed("wrong-value", expected="new rows", got=wrong)
            reached.append(share)
        mean = sum(reached) / len(reached)
        if mean >= ENOUGH_SPEED:
            return PASSED
        return failed(
            "too-slow",
            expected=f"{ENOUGH_SPEED:.0%} of the best speed, as the mean of {SEARCHES} searches",
            got=f"{mean:.1%}: " + ", ".join(f"{share:.0%}" for share in reached),
            case=f"spaces of {math.prod(SIZES)} rows, {BUDGET} trials",
            why=WIDE if hills == 1 else SMALL,
            score=max(0.0, (mean - NOTHING) / (ENOUGH_SPEED - NOTHING)),
        )

    title = ("one hill", "two hills")[hills - 1] + f": {ENOUGH_SPEED:.0%} of the best speed"
    return Part("property", title, 0.4, check)


WIDE = "there is one hill: every step towards its top is faster"
SMALL = (
    f"the wide hill ends at {FOOT:.0%} of the best speed; the rows of the small one are all faster,"
    " and three knobs away"
)

# --- a rank loss ---------------------------------------------------------------------------------

PAIRS = (  # small cases, and what each of them shows
    ([2.0, 1.0], [1e-3, 2e-3], "the faster one has the higher score"),
    ([1.0, 2.0], [1e-3, 2e-3], "the faster one has the lower score: d is -1"),
    ([1.0, 1.0], [1e-3, 2e-3], "equal scores count half"),
    ([3.0, 1.0, 2.0], [1e-3, 1e-3, 2e-3], "pairs of equal times do not count"),
    ([1.0, 2.0], [1e-3, math.inf], "a failure is slower than what ran"),
    ([3.0, 1.0, 2.0], [1e-3, math.inf, math.inf], "two failures have the same time"),
    ([0.0, 1000.0], [1e-3, 2e-3], "log(1 + exp(1000)) is 1000, but exp(1000) is no float"),
)


def drawn_pairs(rng, n):
    """Draw scores and seconds with ties: n=1 adds failures, n=2 failures and large scores."""
    count = int(rng.integers(12, 30))
    seconds = rng.choice(np.exp(rng.normal(-6, 1, count // 2)), count)
    scores = np.round(rng.normal(0, 2, count), 1)
    if n:
        seconds[rng.permutation(count)[:3]] = math.inf
    if n == 2:
        scores *= 500
    return scores.tolist(), seconds.tolist()


def accuracy_and_loss(scores, seconds):
    """Return the reference: (pairwise accuracy, mean loss of the pairs with different times)."""
    good, losses = [], []
    for a, b in itertools.permutations(range(len(scores)), 2):
        if seconds[a] < seconds[b]:
            ahead = scores[a] - scores[b]
            good.append(1.0 if ahead > 0 else 0.5 if ahead == 0 else 0.0)
            losses.append(max(-ahead, 0.0) + math.log1p(math.exp(-abs(ahead))))
    return sum(good) / len(good), sum(losses) / len(losses)


def ranks(which, weight, title):
    """Make a part that checks the accuracy (`which` is 0) or the loss (1)."""

    def check(answer, rng):
        drawn = [(*drawn_pairs(rng, n), "") for n in range(3)]
        for scores, seconds, why in (*PAIRS, *drawn):
            got, want = answer(scores, seconds), accuracy_and_loss(scores, seconds)
            if not isinstance(got, list | tuple) or len(got) != 2:
                return wrong_type("(accuracy, loss)", got)
            if not isinstance(got[which], int | float):
                return wrong_type("two numbers", got[which])
            if not math.isclose(got[which], want[which], rel_tol=1e-6, abs_tol=1e-9):
                case = f"judged({scores}, {seconds})"
                expected, found = f"{want[which]:.6g}", f"{got[which]:.6g}"
                return failed("wrong-value", expected=expected, got=found, case=case, why=why)
        return PASSED

    return Part("property", title, weight, check)


# --- a log ---------------------------------------------------------------------------------------

ENOUGH = 5  # the fewest trials of an option whose mean counts
KEY = '["tables/matmul", 512]'
KNOBS = {
    "tile_y": [[-1, 1], [-1, 2], [-1, 4], [-1, 8]],
    "tile_x": [[-1, 16], [-1, 32], [-1, 64]],
    "order": [[0, 1], [1, 0]],
    "unroll": [0, 16, 64],
    "pack": ["no", "B"],
}
KINDS = ("crash", "compile time-out", "wrong answer", "run time-out", "memory")


def line_of(values, seconds, error, *, task=KEY, final=False):
    """Return one line of a log."""
    fields = {
        "version": 1, "task": task, "target": "llvm -num-cores=1", "machine": {},
        "sketch": "matmul.0", "values": values, "steps": [], "flops": 2.0 * 512**3,
        "time": 1.8e9, "final": final, "seconds": seconds, "error": error,
        "detail": f"the message of the {error}" * bool(error),
        "build_seconds": 0.08, "run_seconds": 0.05,
    }  # fmt: skip
    return json.dumps(fields)


def mean(numbers):
    return sum(numbers) / len(numbers)


def drawn_log(rng, close=False):
    """Draw the lines of a log.

    One knob has the largest effect; with `close`, another one nearly as large. An option of a
    second knob often fails, an option of a third knob is rare and slow, and a few trials are very
    slow by chance.
    """
    names = list(KNOBS)
    strong, risky, rare, next_one = (names[n] for n in rng.permutation(len(names))[:4])
    most = dict.fromkeys(names, 0.3) | {strong: 1.6} | ({next_one: 1.5} if close else {})
    effects = {
        name: rng.permutation(np.linspace(0, most[name], len(options)))
        for name, options in KNOBS.items()
    }
    first, second = (KINDS[n] for n in rng.permutation(len(KINDS))[:2])
    count = int(rng.integers(90, 110))
    trials = 3 + int(rng.integers(3)) if close else 3
    few, slow = rng.permutation(count)[:trials].tolist(), rng.permutation(count)[:4].tolist()
    lines = []
    for n in range(count):
        option = {name: int(rng.integers(len(options))) for name, options in KNOBS.items()}
        last = len(KNOBS[rare]) - 1
        option[rare] = last if n in few else int(rng.integers(last))
        values = {name: KNOBS[name][at] for name, at in option.items()}
        if option[risky] == 0 and n not in few and rng.random() < 0.5:
            lines.append(line_of(values, [], first if rng.random() < 0.7 else second))
            continue
        best = 2e-3 * math.exp(sum(effects[k][at] for k, at in option.items()))
        best *= math.exp(rng.normal(0, 0.05)) * (60 if n in few else 90 if n in slow else 1)
        runs = (best * (1 + rng.gamma(1.0, 0.3, 3))).tolist()
        runs[1 + int(rng.integers(2))] = best
        lines.append(line_of(values, runs, ""))
        if n % 9 == 0:  # other tasks may share a log, and are faster or fail in another way
            lines.append(line_of(values, [1e-6], "", task='["tables/matmul", 64]'))
            lines.append(line_of(values, [], "garbage", task='["tables/matmul", 64]'))
    values = {name: options[0] for name, options in KNOBS.items()}
    lines.append(line_of(values, [1e-5], "", final=True))  # measured again, after an earlier search
    lines.append(line_of(values, [], "exit", final=True))
    lines.append(lines[0][: int(rng.integers(40, 200))])  # killed while it wrote
    return lines


def diagnosis(lines, time=min, enough=ENOUGH, end=min):
    """Return the reference answer: a log's failures, best values and most important knob.

    Wrong answers have another time of a trial, another least number of trials of an option, or
    another number that is subtracted from the largest mean.
    """
    found = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["task"] == KEY and not record["final"]:
            found.append(record)
    kinds = {}
    for r in found:
        if r["error"]:
            kinds[r["error"]] = kinds.get(r["error"], 0) + 1
    good = [r for r in found if not r["error"]]
    best = min(good, key=lambda r: min(r["seconds"]))

    def spread(knob):
        groups = {}
        for r in good:
            option = json.dumps(r["values"][knob])
            groups.setdefault(option, []).append(math.log(time(r["seconds"])))
        means = [mean(g) for g in groups.values() if len(g) >= enough]
        return max(means) - end(means)

    return {"failures": kinds, "best": best["values"], "knob": max(best["values"], key=spread)}


MISTAKES: tuple[dict[str, Any], ...] = (
    {"time": max}, {"time": mean}, {"time": lambda seconds: seconds[0]}, {"end": mean},
    {"enough": 1}, {"enough": ENOUGH - 1}, {"enough": ENOUGH + 1},
)  # fmt: skip


def telling_logs(key, rng):
    """Draw logs; for the knob, each of them with a different result for one of MISTAKES."""
    if key != "knob":
        return [drawn_log(rng) for _ in range(6)]
    found = []
    for mistake in MISTAKES:
        lines = drawn_log(rng, close=True)
        while diagnosis(lines)["knob"] == diagnosis(lines, **mistake)["knob"]:
            lines = drawn_log(rng, close=True)
        found.append(lines)
    return found


def told(key, weight, title, why):
    """Make a part that checks the entry `key` of the diagnosis."""

    def check(answer, rng):
        for lines in telling_logs(key, rng):
            got, want = answer(lines, KEY), diagnosis(lines)
            if not isinstance(got, dict) or key not in got:
                return wrong_type(f"a dict with {key!r}", got)
            if json.dumps(got[key], sort_keys=True) != json.dumps(want[key], sort_keys=True):
                expected, found = f"{want[key]!r:.200}", f"{got[key]!r:.200}"
                case = f"a log of {len(lines)} lines"
                return failed("wrong-value", expected=expected, got=found, case=case, why=why)
        return PASSED

    return Part("property", title, weight, check)


# --- the challenge -------------------------------------------------------------------------------

TABLES, MOST_TRIALS, AT_ONCE, GOAL = 6, 256, 8, 0.95


def drawn_table(rng):
    """Return (sizes, seconds of each row) of another machine: nothing of it is in a notebook.

    The logarithm of the time is a sum of the effects of single knobs, of three pairs of knobs, and
    of noise; some rows fail. The order of the knobs and of their options is drawn, too.
    """
    sizes = rng.permutation(SIZES)
    rows = np.indices(sizes).reshape(len(sizes), -1).T
    logs = rng.normal(0, 0.02, len(rows))
    for knob, size in enumerate(sizes):
        logs += rng.gamma(1.5, 0.25, size)[rows[:, knob]]
    for a, b in zip(*[iter(rng.permutation(len(sizes)))] * 2, strict=True):
        logs += rng.normal(0, 0.1, (sizes[a], sizes[b]))[rows[:, a], rows[:, b]]
    one, other = rng.permutation(len(sizes))[:2]
    fails = (rows[:, one] == rng.integers(sizes[one])) & (
        rows[:, other] == rng.integers(sizes[other])
    )
    seconds = np.where(fails, math.inf, 1e-3 * np.exp(logs))
    return sizes.tolist(), dict(zip(map(tuple, rows.tolist()), seconds.tolist(), strict=True))


def trials_needed(answer, sizes, times, seed):
    """Return (trials until GOAL of the best speed is reached, ""), or (0, the fault of a row)."""
    tried, seconds, enough = {}, [], min(times.values()) / GOAL
    while len(tried) < MOST_TRIALS:
        rows = answer(sizes, [list(row) for row in tried], list(seconds), AT_ONCE, seed)
        if wrong := wrong_rows(rows, AT_ONCE, sizes, tried):
            return 0, wrong
        for row in rows:
            tried[tuple(row)] = None
            seconds.append(times[tuple(row)])
            if seconds[-1] <= enough:
                return len(tried), ""
    return MOST_TRIALS, ""


def trials_on_tables(answer, rng):
    """Count the trials that a search needs on TABLES drawn tables, at most MOST_TRIALS on each."""
    total = 0
    for _ in range(TABLES):
        sizes, times = drawn_table(rng)
        trials, wrong = trials_needed(answer, sizes, times, int(rng.integers(1000)))
        if wrong:
            return failed("wrong-value", expected="new rows", got=wrong)
        total += trials
    return total


def mostly_random(sizes, tried, seconds, count, seed):
    """Return the stub of the challenge: random rows, and some like the fastest but for a knob."""
    rng = random.Random(f"{seed} {len(tried)}")
    known, rows = {tuple(row) for row in tried}, []
    while len(rows) < count:
        row = [rng.randrange(n) for n in sizes]
        if tried and rng.random() < 0.3:
            best, knob = tried[seconds.index(min(seconds))], rng.randrange(len(sizes))
            row = [*best[:knob], row[knob], *best[knob + 1 :]]
        if tuple(row) not in known:
            known.add(tuple(row))
            rows.append(row)
    return rows


def near_the_best(sizes, tried, seconds, count, seed):
    """Return the reference: most rows differ from the fastest one in a knob, or in two."""
    rng = random.Random(f"{seed} {len(tried)}")
    known, rows = {tuple(row) for row in tried}, []
    while len(rows) < count:
        row = [rng.randrange(n) for n in sizes]
        if tried and rng.random() < 0.9:
            best = tried[seconds.index(min(seconds))]
            changed = rng.sample(range(len(sizes)), 2 if rng.random() < 0.3 else 1)
            row = [row[n] if n in changed else best[n] for n in range(len(sizes))]
        if tuple(row) not in known:
            known.add(tuple(row))
            rows.append(row)
    return rows


# --- puzzles -------------------------------------------------------------------------------------


def options(power, parts):
    return math.comb(power + parts - 1, parts - 1)


def some_loop(rng):
    return int(rng.integers(1, 11)), int(rng.integers(2, 6))


def options_of_parts(value, arguments):
    """Draw the answer beside the options of two loops and of three."""
    power, parts = arguments
    others = {f"{n} parts": options(power, n) for n in (2, 3)}
    return viz.ScoreBars({f"{parts} parts": abs(int(value)), **others}, "options")


def good_ones(count, trials):
    return -(-(count + 1) // trials) - 1


def some_search(rng):
    return int(rng.integers(100, 10_000)), int(rng.integers(4, 100))


def waits(value, arguments):
    """Draw the expected draws with so many good candidates, and with one less and one more."""
    count, good = arguments[0], abs(int(value))
    draws = {f"{k} good": (count + 1) / (k + 1) for k in (good, good - 1, good + 1) if k >= 0}
    return viz.ScoreBars(draws, "draws until the first, on average")


def rows(extent, most):
    return [n for n in range(1, most + 1) if 8 * (-extent % n) <= extent]


def some_rows(rng):
    return 8 * int(rng.integers(3, 25)), int(rng.integers(8, 25))


def rows_computed(value, arguments):
    """Draw the rows that the tiles of each option compute, the last tile included."""
    extent = arguments[0]
    return viz.ScoreBars({f"{n} a tile": -(-extent // n) * n for n in value}, "rows computed")


EXERCISE = Exercise(
    "ex11",
    "tuning_with_templates",
    (
        Item(
            "ex11.1",
            "a space without hopeless candidates",
            4,
            "space",
            (
                Part("property", "each knob offers what is needed, and no more", 0.25, each_knob),
                Part("property", "exactly the allowed configurations", 0.75, exactly),
            ),
            (
                "A condition about one knob belongs in its define_split; one about two knobs"
                " needs both of them. Which conditions are of which kind?",
                "filter=lambda e: ... of define_split sees e.size, outermost loop first."
                " cfg.multi_filter(lambda c: ...) sees c['tile_y'].size and c['tile_x'].size.",
                "tile_x has num_outputs=3 and a filter for the lanes and the block; the registers"
                " and the eight sums are two comparisons in one multi_filter. A row of the tile"
                " has c['tile_x'].size[-1] // lanes vectors.",
            ),
            "notebook 11, section 1",
        ),
        Item(
            "ex11.2",
            "a search with few trials",
            5,
            "propose",
            (
                required(Part("property", "new rows, as many as asked for", 0.2, rows_in_order)),
                finds(1),
                finds(2),
            ),
            (
                "Random rows teach the search nothing. Which rows are likely to be good, given"
                " those that were measured?",
                "Most proposals: the best row, with one knob or two changed. Some (epsilon) are"
                " random, or the search ends at the first hill. None that was tried before.",
                "In a loop until there are `count`: for the first 64 rows, and later with"
                " probability .2, a random row; otherwise a copy of the row of the smallest seconds"
                " with one or two knobs drawn again. Keep it if it is new.",
            ),
            "notebook 11, sections 3 and 5",
        ),
        Item(
            "ex11.3",
            "what a model is worth",
            3,
            "judged",
            (
                ranks(0, 0.3, "the share of pairs in the right order"),
                ranks(1, 0.7, "the mean rank loss"),
            ),
            (
                "Both are means over the same pairs. Which pairs are these, and how many of them"
                " are there in [1, 1, 2]?",
                "For each pair with seconds[a] < seconds[b]: d = scores[a] - scores[b]. Right if"
                " d > 0. Infinity is larger than any number, and not smaller than infinity.",
                "np.logaddexp(0, -d) is log(1 + exp(-d)) without overflow. With arrays:"
                " d = scores[:, None] - scores[None, :], faster = seconds[:, None] <"
                " seconds[None, :], and means over d[faster].",
            ),
            "notebook 11, section 5",
        ),
        Item(
            "ex11.4",
            "read a log",
            4,
            "diagnose",
            (
                told(
                    "failures",
                    0.3,
                    "the failures, by kind",
                    "lines of other tasks, final lines and broken lines do not count",
                ),
                told(
                    "best",
                    0.3,
                    "the knobs of the fastest trial",
                    "the time of a trial is the shortest of its seconds; a failure has none",
                ),
                told(
                    "knob",
                    0.4,
                    "the knob that matters most",
                    "means of logarithms, of options with at least five trials that worked",
                ),
            ),
            (
                "First make a list of the records that count: json.loads of each line, in a try.",
                "The time of a record is min(record['seconds']). For each knob, group the"
                " logarithms of the times by json.dumps(option): a list cannot be a key of a dict.",
                "spread(knob) = the largest minus the smallest mean of the groups with five"
                " members or more; the knob is max(knobs, key=spread).",
            ),
            "notebook 11, sections 2 and 6",
        ),
    ),
    puzzles=(
        Puzzle(
            "11.options",
            "the options of a split",
            "options",
            (equal(options, some_loop, why="it counts the ways to share out the factors of two"),),
            lambda rng: (9, 4),
            options,
            (
                "A loop of 2 iterations (power 1) can be cut into 3 loops in 3 ways: one of them"
                " gets the factor. And one of 4 iterations?",
                "Write the factors as stars in a row and put parts - 1 bars between them: in how"
                " many ways can the bars be placed among power + parts - 1 signs?",
            ),
            "notebook 11, section 1",
            of="value",
            picture=options_of_parts,
            cost=lambda count, arguments: int(count),
            unit="options",
        ),
        Puzzle(
            "11.wait",
            "good enough for random search",
            "good_ones",
            (
                equal(
                    good_ones,
                    some_search,
                    why="(count + 1) / (good + 1) draws are expected, and that is at most trials",
                ),
            ),
            lambda rng: (1008, 64),
            good_ones,
            (
                "Solve (count + 1) / (good + 1) <= trials for good.",
                "-(-a // b) is a / b, rounded up.",
            ),
            "notebook 11, section 3",
            of="value",
            picture=waits,
            cost=lambda good, arguments: int(good),
            unit="good candidates",
        ),
        Puzzle(
            "11.rows",
            "a knob with tiles that do not divide the rows",
            "rows",
            (equal(rows, some_rows, why="the last tile may lack at most an eighth of all rows"),),
            lambda rng: (56, 14),
            rows,
            (
                "Which tiles need more than `extent` rows? With 5 rows each, 56 rows need 12 tiles,"
                " which have 60.",
                "-(-extent // n) is extent / n, rounded up; so many tiles of n rows are needed."
                " Keep n if their rows are at most extent + extent / 8.",
            ),
            "notebook 11, section 6",
            of="value",
            picture=rows_computed,
            cost=lambda options, arguments: len(options),
            unit="options",
        ),
    ),
    challenge=Challenge(
        "11.challenge",
        "few trials on another machine",
        "search",
        "trials",
        trials_on_tables,
        mostly_random,
        near_the_best,
        minutes=60,
        best_known=441,  # the solution: a sum of effects, fitted by ridge regression
        hints=(
            "The stub forgets all rows but the fastest one. What do the others say about a knob?",
            "Fit a model to all rows (a sum over knobs, then over pairs), and propose the rows with"
            " the best predictions, and some that differ from what was tried.",
        ),
        section="notebook 11, sections 3 and 5",
    ),
)
