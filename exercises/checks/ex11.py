# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 11: a space with filters, a search on a frozen table, a rank loss, and a log."""

import itertools
import json
import math

import numpy as np

from minitvm import tune
from minitvm.edu import PASSED, Exercise, Item, Part, failed, required, wrong_type

# --- a space -------------------------------------------------------------------------------------

BLOCK = 256  # the most columns of a block
CHAINS = 8  # the fewest sums in a tile
SPLIT = "a configuration is [[-1, rows of a tile], [-1, tiles of a block, columns of a tile]]"


CASES = ((96, 768, 8, 16), (60, 384, 4, 16), (512, 512, 16, 32), (120, 640, 8, 32))


def sizes_of(rng):
    """Draw (rows, columns, lanes, registers): not only powers of two."""
    rows = int(rng.choice([48, 60, 96, 120, 512]))
    columns = int(rng.choice([192, 320, 384, 640, 768]))
    lanes, registers = ((8, 16), (16, 32), (4, 32), (8, 32))[int(rng.integers(4))]
    return rows, columns, lanes, registers


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def fits(y, x, lanes, registers):
    vectors = x // lanes
    return y * vectors + vectors + 1 <= registers and y * vectors >= CHAINS


def tiles_of_rows(rows):
    return {(-1, y) for y in divisors(rows)}


def tiles_of_columns(columns, lanes):
    return {
        (-1, m, x)
        for x in divisors(columns)
        for m in divisors(columns // x)
        if x % lanes == 0 and m * x <= BLOCK
    }


def allowed(rows, columns, lanes, registers):
    """Return all configurations that the space has."""
    pairs = itertools.product(tiles_of_rows(rows), tiles_of_columns(columns, lanes))
    return {(y, x) for y, x in pairs if fits(y[-1], x[-1], lanes, registers)}


def configurations(got):
    """Return a list of configurations as tuples; None if it is no such list."""
    if not isinstance(got, list) or not got:
        return None
    try:
        found = [tuple(tuple(map(int, knob)) for knob in cfg) for cfg in got]
    except (TypeError, ValueError):
        return None
    return found if all(len(c) == 2 and list(map(len, c)) == [2, 3] for c in found) else None


def each_knob(answer, rng):
    """Check that the options of each knob are exactly those in the allowed configurations."""
    for given in (*CASES, sizes_of(rng)):
        got = configurations(answer(*given))
        if got is None:
            return wrong_type("a list of configurations: " + SPLIT, answer(*given))
        names = ("tile_y", "tile_x")
        for n, want in enumerate(
            ({y for y, _ in allowed(*given)}, {x for _, x in allowed(*given)})
        ):
            if wrong := compared({c[n] for c in got}, want, f"{names[n]} of space{given}"):
                return wrong
    return PASSED


def exactly(answer, rng):
    """Check that the space has exactly the allowed configurations, each once."""
    for given in (*CASES, *(sizes_of(rng) for _ in range(3))):
        got = configurations(answer(*given))
        if got is None:
            return wrong_type("a list of configurations: " + SPLIT, answer(*given))
        if wrong := compared(set(got), allowed(*given), f"space{given}"):
            return wrong
        if len(got) != len(set(got)):
            return failed("twice", expected="each configuration once", case=f"space{given}")
    return PASSED


def compared(got, want, case):
    """Return the outcome for forbidden or missing options; None if there are none."""
    if more := sorted(got - want):
        why = "a filter lets it pass: do the sums, the vectors of B and that of A fit?"
        return failed(
            "forbidden", expected=f"{len(want)} options",
            got=f"{len(got)}, among them {listed(more[0])}", case=case, why=why,
        )  # fmt: skip
    if less := sorted(want - got):
        why = "a filter rejects too much, or a split does not offer it"
        return failed(
            "missing", expected=f"{len(want)} options, among them {listed(less[0])}",
            got=f"{len(got)}", case=case, why=why,
        )  # fmt: skip
    return None


def listed(x):
    return [listed(y) for y in x] if isinstance(x, tuple) else x


# --- a search ------------------------------------------------------------------------------------

BUDGET, COUNT, SEARCHES = 192, 8, 16
ENOUGH_SPEED, NOTHING = 0.95, 0.93  # mean shares of the best speed, for all points and for none


def another(table, rng):
    """Return (sizes, times) of a table as it might be on another machine.

    Each option of a knob changes its times by up to a tenth, and the knobs are in another order.
    times: row -> seconds; other rows cannot be measured.
    """
    factors = [rng.uniform(0.9, 1.1, len(gene)) for gene in table.genes]
    order = [int(n) for n in rng.permutation(len(table.genes))]
    times = {}
    for row, seconds in zip(table.rows.tolist(), table.measured.tolist(), strict=True):
        factor = math.prod(f[option] for f, option in zip(factors, row, strict=True))
        times[tuple(row[n] for n in order)] = seconds * float(factor)
    return [len(table.genes[n]) for n in order], times


def wrong_rows(rows, count, sizes, tried):
    """Describe what is wrong about proposed rows; "" if nothing is."""
    if not isinstance(rows, list) or len(rows) != count:
        return f"{len(rows) if isinstance(rows, list) else type(rows).__name__}, not {count} rows"
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != len(sizes):
            return f"{row!r:.60} is no row of {len(sizes)} numbers"
        if any(type(n) is not int or not 0 <= n < most for n, most in zip(row, sizes, strict=True)):
            return f"{row!r:.60}: an option is a number from 0, and there are {sizes} of them"
    found = [tuple(row) for row in rows]
    if again := [row for row in found if found.count(row) > 1 or row in tried]:
        return f"{again[0]} is there twice, or has been measured before"
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


def finds(name):
    """Make a part that checks the mean speed found in BUDGET trials, on variants of a table."""

    def check(answer, rng):
        table, reached = tune.load_table(name), []
        for n in range(SEARCHES):
            sizes, times = another(table, rng)
            share, wrong = searched(answer, sizes, times, 1000 * n + int(rng.integers(1000)))
            if wrong:
                return failed("wrong-value", expected="new rows", got=wrong, case=f"table {name}")
            reached.append(share)
        mean = sum(reached) / len(reached)
        if mean >= ENOUGH_SPEED:
            return PASSED
        return failed(
            "too-slow",
            expected=f"{ENOUGH_SPEED:.0%} of the best speed, as the mean of {SEARCHES} searches",
            got=f"{mean:.1%}: " + ", ".join(f"{share:.0%}" for share in reached),
            case=f"the table {name} as on other machines, {BUDGET} trials",
            why="random rows rarely are near the best; neighbours of good rows are, more often."
            " And a search that only looks around its best row gets stuck",
            score=max(0.0, (mean - NOTHING) / (ENOUGH_SPEED - NOTHING)),
        )

    title = f"table {name}: {ENOUGH_SPEED:.0%} of the best speed in {BUDGET} trials"
    return Part("property", title, 0.4, check)


# --- a rank loss ---------------------------------------------------------------------------------


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


def ranks(which, weight, title, why):
    """Make a part that checks the accuracy (`which` is 0) or the loss (1)."""

    def check(answer, rng):
        for n in range(3):
            scores, seconds = drawn_pairs(rng, n)
            got, want = answer(scores, seconds), accuracy_and_loss(scores, seconds)
            if not isinstance(got, list | tuple) or len(got) != 2:
                return wrong_type("(accuracy, loss)", got)
            if not isinstance(got[which], int | float):
                return wrong_type("two numbers", got[which])
            if not math.isclose(got[which], want[which], rel_tol=1e-6, abs_tol=1e-9):
                kind = ("no failures", "three failures", "three failures, large scores")[n]
                case = f"{len(scores)} candidates, {kind}"
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
        "sketch": "matmul.0", "row": [], "values": values, "steps": [], "flops": 2.0 * 512**3,
        "time": 1.8e9, "final": final, "seconds": seconds, "error": error,
        "detail": f"the message of the {error}" * bool(error),
        "build_seconds": 0.08, "run_seconds": 0.05,
    }  # fmt: skip
    return json.dumps(fields)


def drawn_log(rng):
    """Draw the lines of a log.

    One knob has the largest effect. An option of a second knob often fails, an option of a third
    knob is rare and slow, and a few trials are very slow by chance.
    """
    names = list(KNOBS)
    strong, risky, rare = (names[n] for n in rng.permutation(len(names))[:3])
    effects = {
        name: rng.permutation(np.linspace(0, 1.6 if name == strong else 0.3, len(options)))
        for name, options in KNOBS.items()
    }
    first, second = (KINDS[n] for n in rng.permutation(len(KINDS))[:2])
    count = int(rng.integers(90, 110))
    few, slow = rng.permutation(count)[:3].tolist(), rng.permutation(count)[:4].tolist()
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
    lines.append(line_of(values, [1e-5], "", final=True))  # in turns, after an earlier search
    lines.append(line_of(values, [], "exit", final=True))
    lines.append(lines[0][: int(rng.integers(40, 200))])  # killed while it wrote
    return lines


def diagnosis(lines):
    """Return the reference answer: a log's failures, best values and most important knob."""
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
            groups.setdefault(option, []).append(math.log(min(r["seconds"])))
        means = [sum(g) / len(g) for g in groups.values() if len(g) >= ENOUGH]
        return max(means) - min(means)

    return {"failures": kinds, "best": best["values"], "knob": max(best["values"], key=spread)}


def told(key, weight, title, why):
    """Make a part that checks the entry `key` of the diagnosis."""

    def check(answer, rng):
        for _ in range(6):
            lines = drawn_log(rng)
            got, want = answer(lines, KEY), diagnosis(lines)
            if not isinstance(got, dict) or key not in got:
                return wrong_type(f"a dict with {key!r}", got)
            if json.dumps(got[key], sort_keys=True) != json.dumps(want[key], sort_keys=True):
                expected, found = f"{want[key]!r:.200}", f"{got[key]!r:.200}"
                case = f"a log of {len(lines)} lines"
                return failed("wrong-value", expected=expected, got=found, case=case, why=why)
        return PASSED

    return Part("property", title, weight, check)


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
                "A condition about one knob belongs into its define_split; one about two knobs"
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
            "a search on frozen tables",
            5,
            "propose",
            (
                required(Part("property", "new rows, as many as asked for", 0.2, rows_in_order)),
                finds("matmul"),
                finds("conv2d"),
            ),
            (
                "Random rows teach the search nothing. Which rows are likely to be good, given"
                " those that were measured?",
                "Most proposals: one of the best few rows, with one knob changed. Some (epsilon)"
                " are random, or the search ends at the first hill. None that was tried before.",
                "parents = the rows of the four or so smallest seconds. In a loop until there are"
                " `count`: with probability .15, or at the start, a random row; otherwise a copy"
                " of a parent with one or two knobs drawn anew. Keep it if it is new.",
            ),
            "notebook 11, section 3",
        ),
        Item(
            "ex11.3",
            "what a model is worth",
            3,
            "judged",
            (
                ranks(
                    0,
                    0.3,
                    "the share of pairs in the right order",
                    "pairs of equal times do not count, and equal scores count half; a failure is"
                    " slower than all that ran, and two failures are equal",
                ),
                ranks(
                    1,
                    0.7,
                    "the mean rank loss",
                    "the mean over pairs with different times of log(1 + exp(-d)), where d is by"
                    " how much the faster one's score is higher; exp(1000) is too large for a"
                    " float",
                ),
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
                " logarithms of the times by json.dumps(option), as a list is no key of a dict.",
                "spread(knob) = the largest minus the smallest mean of the groups with five"
                " members or more; the knob is max(knobs, key=spread).",
            ),
            "notebook 11, sections 2 and 6",
        ),
    ),
)
