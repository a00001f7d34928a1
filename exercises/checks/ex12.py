# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 12: the gradient of a rank loss, a relation curve, a diverse batch, and a model."""

import math

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
)

# --- the gradient of a rank loss -----------------------------------------------------------------


def drawn_trials(rng, kind):
    """Draw (scores, seconds): "plain", with "failures" and ties, or with "large" scores."""
    count = int(rng.integers(3, 12))
    scores = np.round(rng.normal(0, 2, count), 2)
    seconds = rng.permutation(count) * 1e-3 + 1e-3
    if kind == "failures":
        seconds = rng.integers(1, 4, count) * 1e-3
        seconds[rng.permutation(count)[:2]] = math.inf
    if kind == "large":
        scores = np.where(rng.random(count) < 0.5, 2000.0, -2000.0) + scores
    return scores.tolist(), seconds.tolist()


def gradient(scores, seconds):
    """Return the reference: how the weighted loss of all pairs changes with each score."""
    slopes, best = [0.0] * len(scores), min(seconds)
    for a, fast in enumerate(seconds):
        for b, slow in enumerate(seconds):
            if fast < slow:
                ahead = scores[a] - scores[b]
                slope = math.exp(-max(ahead, 0.0)) / (1 + math.exp(-abs(ahead)))
                slope *= best / fast - best / slow
                slopes[a] -= slope
                slopes[b] += slope
    return slopes


def slopes(kind, weight, title, why):
    """Make a part that compares gradients for one kind of trials."""
    return equal(
        gradient,
        lambda rng: drawn_trials(rng, kind),
        title=title,
        cases=8,
        rtol=1e-6,
        atol=1e-9,
        weight=weight,
        why=why,
    )


# --- a relation curve ----------------------------------------------------------------------------

THRESHOLDS = (1, 2, 8, 32, 128, 512, 2048, 8192, 1 << 20)


def drawn_access(rng, windows):
    """Draw (extents, access, thresholds): a pixel of a convolution, or an element of a matrix."""
    sizes = {"y": (4, 7, 14), "x": (4, 7, 14), "c": (8, 16), "f": (8, 32), "dy": (2, 3, 5)}
    names = [str(name) for name in rng.permutation([*sizes])]
    extents = {name: int(rng.choice(sizes[name])) for name in names}
    stride = int(rng.choice([1, 2, 3]))
    rows = {"y": stride, "dy": 1} if windows else {"y": 1}
    return extents, [rows, {"c": 1}, *([{"x": 1}] if rng.random() < 0.5 else [])], [*THRESHOLDS]


def relation(extents, access, thresholds):
    """Return the reference: the elements that each loop touches, and the curve of their reuse."""
    touched, reuse = [], []
    for at in range(len(extents)):
        inner = dict([*extents.items()][at:])
        spans = [sum(s * (inner[n] - 1) for n, s in dim.items() if n in inner) for dim in access]
        touched.append(math.prod(span + 1 for span in spans))
        reuse.append(math.prod(inner.values()) / touched[-1])
    pairs = [*zip(touched, reuse, strict=True)]
    return touched, [max((r for c, r in pairs if c < t), default=0) for t in thresholds]


def half(which, windows, weight, title, why):
    """Make a part that checks the touched elements (`which` is 0) or the curve (1)."""

    def check(answer, rng):
        for _ in range(6):
            given = drawn_access(rng, windows)
            got, want = answer(*given), relation(*given)[which]
            case = f"relation{given}"
            if not isinstance(got, list | tuple) or len(got) != 2:
                return failed("wrong-type", expected="(touched, curve)", got=f"{got!r:.80}")
            values = got[which]
            if not isinstance(values, list | tuple) or len(values) != len(want):
                told = f"a list of {len(want)} numbers"
                return failed("wrong-type", expected=told, got=f"{values!r:.80}", case=case)
            same = (
                isinstance(a, int | float) and math.isclose(a, b, rel_tol=1e-9)
                for a, b in zip(values, want, strict=True)
            )
            if not all(same):
                shown = [round(n, 3) if isinstance(n, float) else n for n in values]
                told = f"{[round(n, 3) for n in want]}"
                return failed("wrong-value", expected=told, got=f"{shown}", case=case, why=why)
        return PASSED

    return Part("property", title, weight, check)


# --- a diverse batch -----------------------------------------------------------------------------


def worth(rows, scores, alpha, chosen):
    """Return equation 3: the scores, and alpha[knob] for each option of a knob in the batch."""
    options = sum(a * len({rows[n][knob] for n in chosen}) for knob, a in enumerate(alpha))
    return sum(scores[n] for n in chosen) + options


def greedy(rows, scores, count, alpha):
    """Return the reference: add the candidate that raises the worth most, `count` times."""
    chosen = []
    for _ in range(count):
        left = [n for n in range(len(rows)) if n not in chosen]
        chosen.append(max(left, key=lambda n: worth(rows, scores, alpha, [*chosen, n])))
    return chosen


def drawn_batch(rng):
    """Draw (rows, scores, count, alpha): the best scores belong to rows that are alike.

    alpha has a weight for each knob; one of them is 0.
    """
    sizes = [int(n) for n in rng.integers(3, 9, 4)]
    rows = np.unique(np.array([rng.integers(0, sizes) for _ in range(60)]), axis=0)
    rows = rows[rng.permutation(len(rows))]
    best = rows[int(rng.integers(len(rows)))]
    scores = (rows == best).sum(axis=1) * 0.2 + rng.random(len(rows)) * 0.3
    alpha = rng.permutation([0.0, 0.1, 0.3, 0.5]).tolist()
    return rows.tolist(), scores.tolist(), int(rng.integers(5, 9)), alpha


def wrong_batch(chosen, rows, count):
    """Describe what is wrong about a batch; "" if nothing is."""
    if not isinstance(chosen, list | tuple) or any(type(n) is not int for n in chosen):
        return f"{chosen!r:.60} is not a list of the numbers of candidates"
    if len(chosen) != count or len({*chosen}) != count:
        return f"{len({*chosen})} different candidates, not {count}"
    bad = [n for n in chosen if not 0 <= n < len(rows)]
    return f"there is no candidate {bad[0]}: they are 0 to {len(rows) - 1}" if bad else ""


def whole_batch(answer, rng):
    """Check that a batch has the right number of different candidates."""
    rows, scores, _, alpha = drawn_batch(rng)
    for count in (1, 5, len(rows)):
        if wrong := wrong_batch(answer(rows, scores, count, alpha), rows, count):
            told = f"{count} different numbers below {len(rows)}"
            return failed("wrong-value", expected=told, got=wrong)
    return PASSED


def as_good_as_greedy(answer, rng):
    """Check that batches are worth what greedy ones are worth, or more."""
    for _ in range(8):
        rows, scores, count, alpha = drawn_batch(rng)
        chosen = answer(rows, scores, count, alpha)
        if wrong := wrong_batch(chosen, rows, count):
            return failed("wrong-value", expected=f"{count} different candidates", got=wrong)
        least = worth(rows, scores, alpha, greedy(rows, scores, count, alpha))
        got = worth(rows, scores, alpha, chosen)
        if got < least - 1e-9:
            return failed(
                "too-low",
                expected=f"a worth of {least:.3f} or more",
                got=f"{got:.3f}, by the candidates {[*chosen]}",
                case=f"{len(rows)} candidates, count={count}, alpha={alpha}",
                why="an option that the batch has already adds nothing",
            )
    return PASSED


def only_scores(answer, rng):
    """Check that without diversity (all of alpha 0) the highest scores are chosen."""
    rows, scores, count, alpha = drawn_batch(rng)
    zeros = [0.0] * len(alpha)
    got, want = answer(rows, scores, count, zeros), greedy(rows, scores, count, zeros)
    if wrong := wrong_batch(got, rows, count):
        return failed("wrong-value", expected=f"{count} different candidates", got=wrong)
    if {*got} != {*want}:
        told, case = f"{sorted(want)}, in any order", f"alpha={zeros}"
        return failed("wrong-value", expected=told, got=f"{sorted(got)}", case=case)
    return PASSED


# --- the challenge -------------------------------------------------------------------------------

MACHINES, MEASURED = 6, 64
TILES = ((1, 2, 3, 4, 6, 8), (8, 16, 32, 64), (1, 2, 4, 8, 16), (0, 1), (0, 1))


def drawn_machine(rng):
    """Return (rows, seconds) of a product on a machine whose numbers are drawn.

    A row is [tile_y, tile_x, tile_k, order, pack]. A step of the sum takes as long as its
    arithmetic, its loads or the latency of its chains; sums without a register are spilled.
    """
    y, x, k, order, pack = np.stack(np.meshgrid(*TILES, indexing="ij")).reshape(len(TILES), -1)
    lanes, registers = int(rng.choice([4, 8, 16])), int(rng.choice([16, 32]))
    wide = -(-x // lanes)
    sums, loads = y * wide, (y + wide) * np.where(pack, 1.0, rng.uniform(1.1, 1.8))
    latency = rng.uniform(4, 10) * np.where(order, 1.0, rng.uniform(0.6, 1.4))
    step = np.maximum(np.maximum(sums / 2, loads / 2), latency)
    step += rng.uniform(0.5, 2) * np.maximum(sums + wide + 1 - registers, 0)
    step += rng.uniform(1, 6) * np.sqrt(sums) / k + rng.uniform(0, 0.5) * np.maximum(
        k * wide - 64, 0
    )
    seconds = 1e-9 * step / (y * x) * np.exp(rng.normal(0, 0.03, len(y)))
    return np.stack([y, x, k, order, pack], axis=1).tolist(), seconds


def pairs_out_of_order(answer, rng):
    """Count the pairs of unmeasured rows, on MACHINES machines, whose scores are the wrong way."""
    total = 0.0
    for _ in range(MACHINES):
        rows, seconds = drawn_machine(rng)
        drawn = rng.permutation(len(rows))
        known, others = drawn[:MEASURED], drawn[MEASURED:]
        asked = [rows[n] for n in others]
        got = answer([rows[n] for n in known], seconds[known].tolist(), asked)
        if not isinstance(got, list | tuple) or len(got) != len(asked):
            told = f"a list of {len(asked)} scores"
            return failed("wrong-value", expected=told, got=f"{got!r:.60}")
        if not all(isinstance(n, int | float) and math.isfinite(n) for n in got):
            return failed("wrong-value", expected="scores that are numbers", got=f"{got!r:.60}")
        a, b = np.triu_indices(len(asked), 1)
        truth, said = -seconds[others], np.array(got, float)
        agree = np.sign(truth[a] - truth[b]) * np.sign(said[a] - said[b])
        total += float(np.sum(0.5 - 0.5 * agree))
    return total


def linear(measured, seconds, others):
    """Return the stub: a sum of the logarithms of the sizes, fitted by least squares."""

    def features(rows):
        rows = np.array(rows, float)
        return np.hstack([np.ones((len(rows), 1)), np.log2(rows[:, :3]), rows[:, 3:]])

    weights = np.linalg.lstsq(features(measured), np.log(seconds), rcond=None)[0]
    return (-(features(others) @ weights)).tolist()


def quadratic(measured, seconds, others):
    """Return the reference: the same with all products of two features, by ridge regression."""

    def features(rows):
        rows = np.array(rows, float)
        logs = np.hstack([np.ones((len(rows), 1)), np.log2(rows[:, :3]), rows[:, 3:]])
        a, b = np.triu_indices(logs.shape[1])
        return logs[:, a] * logs[:, b]

    x, logs = features(measured), np.log(seconds)
    both = x.T @ x + 0.1 * np.eye(x.shape[1])
    weights = np.linalg.solve(both, x.T @ (logs - logs.mean()))
    return (-(features(others) @ weights)).tolist()


# --- puzzles -------------------------------------------------------------------------------------


def chance(count, good, trials):
    return 1 - math.comb(count - good, trials) / math.comb(count, trials)


def some_draw(rng):
    count = int(rng.integers(20, 300))
    return count, int(rng.integers(1, 10)), int(rng.integers(1, count - 10))


def chances(value, arguments):
    """Draw the answer beside the chances of half as many and twice as many trials."""
    count, good, trials = arguments
    others = {f"{n} trials": 100 * chance(count, good, n) for n in (trials // 2, trials * 2)}
    return viz.ScoreBars({f"{trials} trials": 100 * abs(float(value)), **others}, "% chance")


def curve(xs, ys, t):
    return max((y for x, y in zip(xs, ys, strict=True) if x < t), default=0)


def some_loops(rng):
    count = int(rng.integers(2, 7))
    xs, ys = rng.permutation(20)[:count] + 1, rng.permutation(50)[:count] + 1
    return xs.tolist(), ys.tolist(), int(rng.choice([*xs, 1, 30]))


def loops_below(value, arguments):
    """Draw the reuse of each loop beside the answer."""
    xs, ys, t = arguments
    bars = {f"touches {x}": y for x, y in zip(xs, ys, strict=True)}
    return viz.ScoreBars({f"R_{t}": abs(float(value)), **bars}, "uses of an element")


def improvement(mean, spread, best):
    return (max(mean + spread - best, 0) + max(mean - spread - best, 0)) / 2


def some_candidate(rng):
    mean, spread, best = rng.integers(1, 60, 3) / 64
    return float(mean), float(spread), float(best)


def improvements(value, arguments):
    """Draw the answer beside the improvements of candidates with other spreads."""
    mean, spread, best = arguments
    bars = {f"spread {s:g}": 100 * improvement(mean, s, best) for s in (0, spread / 2, spread * 2)}
    return viz.ScoreBars({f"spread {spread:g}": 100 * abs(float(value)), **bars}, "% improvement")


EXERCISE = Exercise(
    "ex12",
    "cost_models",
    (
        Item(
            "ex12.1",
            "the gradient of a weighted rank loss",
            4,
            "gradient",
            (
                slopes("plain", 0.5, "the gradient of all pairs", "each pair moves two scores"),
                slopes("failures", 0.25, "equal times and failures", "the speed of a failure is 0"),
                slopes("large", 0.25, "scores far apart", "exp(4000) is no float"),
            ),
            (
                "First one pair: by how much does w * log(1 + exp(-d)) change if d grows a little?",
                "The slope for d is -w / (1 + exp(d)). d grows with the score of the faster one and"
                " falls with that of the slower one.",
                "1 / (1 + exp(d)) is np.exp(-np.logaddexp(0, d)), without overflow. The weights are"
                " np.maximum(speeds[:, None] - speeds[None, :], 0), which is 0 unless the first is"
                " faster. Sum over both axes, with opposite signs.",
            ),
            "notebook 11, section 5",
        ),
        Item(
            "ex12.2",
            "a relation curve of another access",
            4,
            "relation",
            (
                half(0, True, 0.5, "the elements that each loop touches", "windows overlap"),
                half(1, False, 0.5, "the curve of the reuse", "below means less than t"),
            ),
            (
                "Take the innermost loop first. Which indices of the tensor does it change, and"
                " by how much from the first iteration to the last?",
                "In one dimension, a loop moves the index by stride * (extent - 1). Loops of the"
                " same dimension add up, dimensions multiply.",
                "For each loop: `inner` are the names from it on. touched = prod over the"
                " dimensions of 1 + sum(stride * (extents[n] - 1) for n, stride in dim.items() if"
                " n in inner); reuse = prod(extents[n] for n in inner) / touched.",
            ),
            "notebook 12, section 2",
        ),
        Item(
            "ex12.3",
            "a good and diverse batch",
            4,
            "batch",
            (
                required(
                    Part("property", "different candidates, `count` of them", 0.2, whole_batch)
                ),
                Part("property", "without diversity, the highest scores", 0.2, only_scores),
                Part("property", "worth as much as a greedy batch", 0.6, as_good_as_greedy),
            ),
            (
                "Add one candidate after the other. What does the next one add, beyond its score?",
                "It adds alpha[k] for each knob k whose option no chosen candidate has.",
                "seen = one set for each knob. `count` times: the candidate, not chosen yet, with"
                " the largest scores[n] + sum(alpha[k] * (row[k] not in seen[k]) for each knob k);"
                " then add its options to the sets.",
            ),
            "notebook 12, section 6",
        ),
    ),
    puzzles=(
        Puzzle(
            "12.chance",
            "the chance of random search",
            "chance",
            (
                equal(
                    chance,
                    some_draw,
                    rtol=1e-9,
                    why="it finds one unless all of its trials are among the others",
                ),
            ),
            lambda rng: (2000, 6, 250),
            chance,
            (
                "With which probability does it find none?",
                "There are comb(count, trials) ways to draw, and comb(count - good, trials) of them"
                " draw no good candidate.",
            ),
            "notebook 12, section 1",
            of="value",
            picture=chances,
            cost=lambda value, arguments: round(100 * float(value), 2),
            unit="% chance",
        ),
        Puzzle(
            "12.curve",
            "a point of a relation curve",
            "curve",
            (equal(curve, some_loops, cases=12, why="only loops with x < t count"),),
            lambda rng: ([4608, 3584, 28, 4, 1], [37, 16, 16, 16, 8], 4096),
            curve,
            (
                "Which loops count? Of these, the largest y.",
                "max(..., default=0) of a generator: y for x, y in zip(xs, ys) if ...",
            ),
            "notebook 12, section 2",
            of="value",
            picture=loops_below,
            cost=lambda value, arguments: float(value),
            unit="uses",
        ),
        Puzzle(
            "12.improved",
            "an expected improvement",
            "improvement",
            (
                equal(
                    improvement,
                    some_candidate,
                    cases=12,
                    rtol=1e-9,
                    atol=1e-12,
                    why="a speed below the best improves nothing, and costs nothing",
                ),
            ),
            lambda rng: (0.75, 0.25, 0.875),
            improvement,
            (
                "What is the improvement if the speed is mean + spread? It is never below 0.",
                "Half of max(mean + spread - best, 0), and half of the same with - spread.",
            ),
            "notebook 12, section 6",
            of="value",
            picture=improvements,
            cost=lambda value, arguments: round(100 * float(value), 2),
            unit="% improvement",
        ),
    ),
    challenge=Challenge(
        "12.challenge",
        "a model of other machines",
        "scores",
        "pairs in the wrong order",
        pairs_out_of_order,
        linear,
        quadratic,
        minutes=60,
        best_known=15_403,  # the stages of a step, fitted for each number of lanes and registers
        hints=(
            "The stub takes the logarithm of the time for a sum over knobs. Which two knobs decide"
            " together whether a tile fits into registers?",
            "Add features that a machine would have, such as the vectors of sums for each number of"
            " lanes and registers, or a kernel that compares rows (a Gaussian process).",
        ),
        section="notebook 12, sections 2 and 3",
    ),
)
