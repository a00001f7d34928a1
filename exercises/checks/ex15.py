# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 15: an objective, gradients, the choices of a scheduler, and a population."""

import math
from dataclasses import replace

import numpy as np

from minitvm import viz
from minitvm.edu import PASSED, Challenge, Exercise, Item, Part, Puzzle, equal, failed, wrong_type


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def compared(got, want, case, why):
    """Return the outcome for a wrong number; None if `got` equals `want` up to rounding."""
    if not is_number(got):
        return wrong_type("a number", got)
    if math.isclose(got, want, rel_tol=1e-6, abs_tol=1e-15):
        return None
    return failed("wrong-value", expected=f"{want:.6g}", got=f"{got:.6g}", case=case, why=why)


# --- an objective --------------------------------------------------------------------------------

PENALTY = 10


def drawn_networks(rng, kind):
    """Draw (weights, bounds, latencies); kind is "plain", "bounds" or "unknown"."""
    networks, tasks = int(rng.integers(1, 4)), int(rng.integers(3, 7))
    latencies = [float(x) for x in rng.uniform(1e-4, 5e-3, tasks)]
    weights = rng.integers(0, 5, (networks, tasks))
    weights[:, 0] += 1
    if kind == "unknown":
        weights[:, 1] = 0
        latencies[1] = math.inf
    bounds = [None] * networks
    if kind == "bounds":
        shares = rng.choice([0.5, 0.9, 1.2, 2.0, 0.0], networks)
        shares[0] = rng.choice([0.5, 1.2])
        sums = [float(sum(w * g for w, g in zip(row, latencies, strict=True))) for row in weights]
        bounds = [float(s * g) if s else None for s, g in zip(shares, sums, strict=True)]
    return weights.tolist(), bounds, latencies


def lateness(weights, bounds, latencies):
    """Return the reference answer: latencies, or penalties for latencies beyond a bound, summed."""
    total = 0.0
    for row, bound in zip(weights, bounds, strict=True):
        g = sum(w * t for w, t in zip(row, latencies, strict=True) if w)
        total += g if bound is None else PENALTY * max(0.0, g - bound)
    return total


def objective(kind, weight, title, why):
    """Make a part that checks the objective on networks of one kind."""

    def check(answer, rng):
        for _ in range(8):
            given = drawn_networks(rng, kind)
            wrong = compared(answer(*given), lateness(*given), f"late{given}", why)
            if wrong is not None:
                return wrong
        return PASSED

    return Part("property", title, weight, check)


# --- a gradient ----------------------------------------------------------------------------------

ALPHA, BETA, WINDOW = 0.2, 2.0, 3


def drawn_task(rng, rounds, similar=False):
    """Draw (history, flops, rates) of a task after some rounds, with similar tasks or without."""
    history = [float(x) for x in 4e-3 * rng.uniform(0.6, 1.0, rounds).cumprod()]
    flops = float(rng.integers(10, 400)) * 1e6
    factors = rng.choice([0.3, 0.7, 2.5, 6.0], int(rng.integers(1, 4))) if similar else []
    return history, flops, [float(f) * flops / history[-1] for f in factors]


def backward_of(history, window):
    return (history[-1] - history[-1 - window]) / window if len(history) > window else 0.0


def forward_of(first, history, flops, rates, beta):
    """Return the lower one of the first guess and the second, if there are similar tasks."""
    now = history[-1]
    return min(first, beta * flops / max([flops / now, *rates]) - now) if rates else first


def slope_of(weight, history):
    """Return the gradient of a task without similar tasks."""
    forward = -history[-1] / len(history)
    return weight * (ALPHA * backward_of(history, WINDOW) + (1 - ALPHA) * forward)


def backward_alone(answer, rng):
    """Check the backward part: alpha is 1, so the forward part does not count."""
    for rounds in (1, 3, 4, 5, *(int(n) for n in rng.integers(2, 12, 6))):
        window = int(rng.integers(2, 5)) if rounds > 4 else WINDOW
        given = 1, *drawn_task(rng, rounds), 1.0, BETA, window
        why = f"alpha is 1; {rounds} rounds, and the window is {window}"
        if wrong := compared(answer(*given), backward_of(given[1], window), call(given), why):
            return wrong
    return PASSED


def first_guess_alone(answer, rng):
    """Check the first guess: alpha is 0, so the backward part does not count."""
    for _ in range(8):
        given = 1, *drawn_task(rng, int(rng.integers(1, 9))), 0.0
        why = "alpha is 0 and there are no similar tasks, so it is the first guess"
        wrong = compared(answer(*given), -given[1][-1] / len(given[1]), call(given), why)
        if wrong:
            return wrong
    return PASSED


def second_guess(answer, rng):
    """Check the guess from similar tasks, with the answer's own first guess."""
    for n in range(12):
        history, flops, rates = drawn_task(rng, int(rng.integers(1, 9)), similar=True)
        beta = float(rng.uniform(1.0, 3.0))
        if n % 3 == 0:  # the task itself is the fastest
            rates, beta = [0.5 * flops / history[-1]], float(rng.uniform(0.2, 0.7))
        first = answer(1, history, flops, [], 0.0, beta)
        if not is_number(first):
            return wrong_type("a number", first)
        given = 1, history, flops, rates, 0.0, beta
        fastest = max([flops / history[-1], *rates])
        why = (
            f"alpha is 0; the first guess is {first:.6g}, and the fastest of the similar tasks and"
            f" the task itself has {fastest:.6g} operations per second"
        )
        want = forward_of(first, history, flops, rates, beta)
        if wrong := compared(answer(*given), want, call(given), why):
            return wrong
    return PASSED


def both_parts(answer, rng):
    """Check how the answer's own parts are put together: weight, alpha, and the usual values."""
    for n in range(8):
        history, flops, rates = drawn_task(rng, int(rng.integers(5, 12)), similar=n % 2 == 1)
        weight, alpha = int(rng.integers(2, 8)), float(rng.uniform(0.1, 0.9))
        rest, usual = (BETA, WINDOW), n < 4
        given = weight, history, flops, rates, *(() if usual else (alpha, *rest))
        alpha = ALPHA if usual else alpha
        backward, forward = (answer(1, history, flops, rates, a, *rest) for a in (1.0, 0.0))
        for part in (backward, forward):
            if not is_number(part):
                return wrong_type("a number", part)
        why = f"your function gives {backward:.6g} for alpha = 1, and {forward:.6g} for alpha = 0"
        if not forward or not backward:
            return failed(
                "wrong-value", expected="other than 0", got="0", case=call(given), why=why
            )
        want = weight * (alpha * backward + (1 - alpha) * forward)
        if wrong := compared(answer(*given), want, call(given), why):
            return wrong
    return PASSED


def call(given):
    return f"gradient({', '.join(map(repr, given))})"


# --- a scheduler ---------------------------------------------------------------------------------


def falling(rng, length):
    """Draw a curve that falls in every round."""
    start, end, rate = rng.uniform(2, 6), rng.uniform(0.5, 1.5), rng.uniform(0.2, 0.4)
    return [float(end + (start - end) * math.exp(-k * rate)) for k in range(length)]


def with_plateaus(rng, patience):
    """Draw a curve with plateaus, of which only the last one is as long as `patience` says."""
    curve = [float(rng.uniform(5, 9))]
    lengths = (*rng.integers(0, patience, 2).tolist(), patience - 1, patience + 3)
    for n in lengths:
        curve += [curve[-1]] * n + [curve[-1] * 0.8]
    return curve


def first_rounds(rng):
    """Draw different weights, two of them the largest, and as many rounds as there are tasks."""
    tasks = int(rng.integers(3, 6))
    weights = [int(w) for w in rng.permutation(range(1, tasks + 1))]
    low, high = sorted(int(n) for n in rng.permutation(tasks)[:2])
    weights[low] = weights[high] = tasks + 1
    return [falling(rng, 5) for _ in range(tasks)], weights, tasks, 100


def many_rounds(rng):
    """Draw falling curves, and weights that already fall with the number of the task."""
    tasks = int(rng.integers(3, 6))
    weights = sorted((int(w) for w in rng.permutation(range(1, tasks + 4))[:tasks]), reverse=True)
    return [falling(rng, 30) for _ in range(tasks)], weights, 24, 100


def equal_gradients(rng):
    """Draw equal curves, and equal weights but for a small one: the last choice is task 1."""
    tasks, curve = int(rng.integers(3, 6)), falling(rng, 30)
    return [[*curve] for _ in range(tasks)], [1] + [2] * (tasks - 1), tasks + 1, 100


def short_curves(rng):
    """Draw falling curves that are used up before the rounds are."""
    curves = [falling(rng, int(n)) for n in rng.integers(1, 8, int(rng.integers(1, 5)))]
    return curves, [1] * len(curves), 60, 100


def stalling_curves(rng):
    """Draw curves with plateaus, one of them from its first round on."""
    patience = int(rng.integers(2, 5))
    curves = [with_plateaus(rng, patience) for _ in range(int(rng.integers(1, 4)))]
    curves.append([float(rng.uniform(2, 5))] * (patience + 4))
    return curves, [1] * len(curves), 200, patience


def death(past, curve, patience):
    """Return why a task with the latencies `past` is dead; "" if it lives."""
    if len(past) > patience and past[-1] == past[-1 - patience]:
        return f"brought no improvement in its last {patience} rounds, after the first one"
    return "has used up its curve" if len(past) >= len(curve) else ""


def next_task(curves, weights, count, patience):
    """Return (the task that gets the next round, why); (None, why) if all are dead."""
    past = [curve[:n] for curve, n in zip(curves, count, strict=True)]
    living = [n for n, p in enumerate(past) if not death(p, curves[n], patience)]
    if not living:
        return None, "all tasks are dead"
    untried = [n for n in living if not count[n]]
    if untried:
        best = max(untried, key=lambda n: weights[n])
        return best, f"of the tasks without a round, task {best} has the largest weight"
    slopes = {n: slope_of(weights[n], past[n]) for n in living}
    best = min(living, key=slopes.__getitem__)
    shown = ", ".join(f"{n}: {slope:.4g}" for n, slope in slopes.items())
    return best, f"the gradients of the living tasks are {shown}"


def choices(curves, weights, rounds, patience):
    """Return the reference answer: the number of the task that is chosen in each round."""
    count, chosen = [0] * len(curves), []
    while len(chosen) < rounds:
        best, _ = next_task(curves, weights, count, patience)
        if best is None:
            break
        count[best] += 1
        chosen.append(best)
    return chosen


def wrong_list(got, given):
    """Return the outcome for a list that cannot be the choices; None if it can."""
    tasks = range(len(given[0]))
    if not isinstance(got, list) or not all(type(n) is int and n in tasks for n in got):
        return wrong_type(f"a list of numbers of tasks, 0 to {len(tasks) - 1}", got)
    return None


def chooses(drawn, weight, title, first=0):
    """Make a part that checks the choices, from number `first` on, on searches that `drawn` draws.

    first   from the start of the list, or if it is negative from its end
    """

    def check(answer, rng):
        for _ in range(6):
            given = drawn(rng)
            curves, weights, _, patience = given
            got, want = answer(*given), choices(*given)
            if wrong := wrong_list(got, given):
                return wrong
            if len(got) == len(want) and got[first:] == want[first:]:
                continue
            pairs = list(zip(got, want, strict=False))
            differ = (k for k, (a, b) in enumerate(pairs) if a != b and k >= first % len(want))
            at = next(differ, len(pairs))
            count = [want[:at].count(n) for n in range(len(curves))]
            latencies = [
                curve[n - 1] if n else None for curve, n in zip(curves, count, strict=True)
            ]
            return failed(
                "wrong-value",
                expected=f"task {want[at]}" if at < len(want) else f"{len(want)} rounds",
                got=f"task {got[at]}" if at < len(got) else f"{len(got)} rounds",
                where=f"round {at + 1} of {given[2]}, after {want[:at]}; latencies now {latencies}",
                case=f"{len(curves)} tasks, weights {weights}, patience {patience}",
                why=next_task(curves, weights, count, patience)[1],
            )
        return PASSED

    return Part("property", title, weight, check)


def dies(drawn, weight, title):
    """Make a part that checks how many rounds each task gets before all are dead."""

    def check(answer, rng):
        for _ in range(8):
            given = drawn(rng)
            curves, weights, rounds, patience = given
            got, want = answer(*given), choices(*given)
            if wrong := wrong_list(got, given):
                return wrong
            for n, curve in enumerate(curves):
                if got.count(n) == want.count(n):
                    continue
                past = curve[: want.count(n)]
                return failed(
                    "wrong-value",
                    expected=f"{want.count(n)} rounds of task {n}",
                    got=str(got.count(n)),
                    case=f"curve {curve}, weights {weights}, rounds {rounds}, patience {patience}",
                    why=f"after {len(past)} rounds, task {n} {death(past, curve, patience)}",
                )
        return PASSED

    return Part("property", title, weight, check)


# --- a scheduler of one's own --------------------------------------------------------------------

GAMES, ROUNDS = 6, 36


def game(rng):
    """Draw (curves, weights) of a network: tasks of any weight, some of which soon stop falling."""
    tasks = 6
    weights = [int(w) for w in rng.permutation([1, 1, 2, 4, 8, 16])]
    rates = rng.permutation([0.03, 0.05, 0.1, 0.2, 0.6, 1.5])
    starts, ends = rng.uniform(2e-3, 6e-3, tasks), rng.uniform(0.1, 0.4, tasks)
    rounds = range(ROUNDS + 1)
    curves = [
        [float(start * (end + (1 - end) * math.exp(-k * rate))) for k in rounds]
        for start, end, rate in zip(starts, ends, rates, strict=True)
    ]
    return curves, weights


def played(curves, weights, choose):
    """Return the latency of the network after ROUNDS rounds, or what choose() returned wrongly."""
    histories = [curve[:1] for curve in curves]
    for _ in range(ROUNDS):
        best = choose([[*h] for h in histories], [*weights])
        if type(best) is not int or best not in range(len(curves)):
            return best
        histories[best].append(curves[best][len(histories[best])])
    return float(sum(w * h[-1] for w, h in zip(weights, histories, strict=True)))


def round_robin(histories, weights):
    """Return the first of the tasks with the fewest rounds."""
    del weights
    return min(range(len(histories)), key=lambda n: len(histories[n]))


def by_gradient(histories, weights):
    """Return the task with the lowest gradient: the reference answer."""
    return min(range(len(histories)), key=lambda n: slope_of(weights[n], histories[n]))


def gains(share, weight, title):
    """Make a part that requires a share of what gradients gain over round robin, in all games."""

    def check(answer, rng):
        saved = possible = 0.0
        for _ in range(GAMES):
            curves, weights = game(rng)
            mine = played(curves, weights, answer)
            if not isinstance(mine, float):
                return wrong_type(f"the number of a task, 0 to {len(curves) - 1}", mine)
            turns, slopes = (played(curves, weights, f) for f in (round_robin, by_gradient))
            saved, possible = saved + turns - mine, possible + turns - slopes
        if saved >= share * possible:
            return PASSED
        return failed(
            "too-slow-search",
            expected=f"at least {1e3 * share * possible:.3g} ms less than round robin",
            got=f"{1e3 * saved:.3g} ms less" if saved > 0 else f"{-1e3 * saved:.3g} ms more",
            case=f"{GAMES} networks, {ROUNDS} rounds each",
            why="a round is worth what it takes off the network: the weight counts, and so does"
            " how fast the task still improves",
            score=max(0.0, saved / (share * possible)) if share > 0.5 else 0.0,
        )

    return Part("property", title, weight, check)


# --- a population --------------------------------------------------------------------------------


def population(kinds, generations):
    """Return a function that draws rows, points and draws with steps of these kinds."""

    def arguments(rng):
        knobs, options, count = 4, 5, 5
        table = [[int(n) for n in rng.permutation(range(1, 10))[:options]] for _ in range(knobs)]
        rows = {tuple(int(n) for n in rng.integers(0, options, knobs)): None for _ in range(20)}

        def step():
            u, v = (int(n) for n in rng.integers(0, 1000, 2))
            if rng.choice(kinds) == "mutate":
                return ["mutate", u, int(rng.integers(knobs)), int(rng.integers(options))]
            return ["cross", u, v, [int(n) for n in rng.integers(0, 2, knobs)]]

        draws = [[step() for _ in range(6)] for _ in range(generations)]
        return [list(row) for row in list(rows)[:count]], table, draws

    return arguments


def evolved(rows, table, draws):
    """Return the reference answer: the population after all generations."""

    def score(row):
        return sum(points[n] for points, n in zip(table, row, strict=True))

    def parent(u):
        left = u % sum(map(score, rows))
        for row in rows:
            left -= score(row)
            if left < 0:
                return row
        raise AssertionError

    for generation in draws:
        family = list(rows)
        for kind, u, *rest in generation:
            child = list(parent(u))
            if kind == "mutate":
                knob, option = rest
                child[knob] = option
            else:
                v, mask = rest
                child = [b if m else a for a, b, m in zip(child, parent(v), mask, strict=True)]
            if child not in family:
                family.append(child)
        rows = sorted(family, key=score, reverse=True)[: len(rows)]
    return rows


def follows(kinds, generations, weight, title, why):
    """Make a part that compares populations after some generations."""
    drawn = population(kinds, generations)
    part = equal(evolved, drawn, cases=6, weight=weight, title=title, why=why)
    return replace(part, kind="property")


# --- puzzles -------------------------------------------------------------------------------------


def stalled(w, g, alpha, rival):
    return math.ceil(w * (1 - alpha) * g / -rival)


def stalled_by_trial(w, g, alpha, rival):
    """Return the first number of rounds at which the gradient is not below `rival`, by trial."""
    return next(t for t in range(1, 100_000) if w * (1 - alpha) * -g / t >= rival)


def some_stall(rng):
    w, g, alpha = (
        int(rng.integers(1, 9)),
        float(rng.uniform(0.5, 4.0)),
        float(rng.choice([0.2, 0.5])),
    )
    return w, g, alpha, -w * (1 - alpha) * g / float(rng.uniform(3, 30))


def stall_bars(rounds, arguments):
    """Draw what both gradients promise, one round before the answer and at it."""
    w, g, alpha, rival = arguments
    counts = range(max(1, rounds - 1), max(1, rounds) + 1)
    bars = {f"stalled, {t} rounds": w * (1 - alpha) * g / t for t in counts}
    bars = {"rival": -rival, **bars}
    return viz.ScoreBars({n: round(x, 3) for n, x in bars.items()}, "minus the gradient")


def worst(networks, bounds, latencies):
    return max(np.array(networks) @ latencies / bounds)


def some_networks(rng):
    tasks, count = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    networks = rng.integers(0, 5, (count, tasks))
    networks[:, 0] += 1
    bounds, latencies = rng.uniform(2, 9, count), rng.uniform(0.5, 3, tasks)
    return networks.tolist(), bounds.round(2).tolist(), latencies.round(2).tolist()


def ratio_bars(value, arguments):
    """Draw the latency of each network, and its bound times the answer."""
    networks, bounds, latencies = arguments
    bars = {}
    for n, (taken, bound) in enumerate(zip(np.array(networks) @ latencies, bounds, strict=True)):
        bars |= {f"network {n}": float(taken), f"bound {n} times it": bound * float(value)}
    return viz.ScoreBars({n: round(x, 3) for n, x in bars.items()}, "ms")


PUZZLES = (
    Puzzle(
        "15.stalled",
        "a stalled task loses its turn",
        "stalled",
        (
            equal(
                stalled_by_trial, some_stall, title="the least number of rounds", cases=12,
                why="forward is -g / t, and it counts with the share 1 - alpha",
            ),
        ),
        lambda rng: (2, 1.5, 0.2, -0.29),
        stalled,
        ("Its gradient after t rounds is -w * (1 - alpha) * g / t. For which t is it rival?",),
        "notebook 15, section 2",
        of="value",
        picture=stall_bars,
        cost=lambda rounds, _: float(rounds),
        unit="rounds",
    ),
    Puzzle(
        "15.worst",
        "the network that is worst off",
        "worst",
        (
            equal(
                worst, some_networks, rtol=1e-6, cases=8, title="the largest ratio",
                why="each network has its own bound",
            ),
        ),
        lambda rng: ([[4, 1, 1], [0, 2, 0]], [5.0, 10.0], [1.0, 3.0, 2.0]),
        worst,
        (
            "np.array(networks) @ latencies are the latencies of the networks. Divide them by their"
            " bounds before you take the largest.",
        ),
        "notebook 15, section 2",
        of="value",
        picture=ratio_bars,
    ),
)  # fmt: skip


# --- the challenge -------------------------------------------------------------------------------

NETWORKS, TASKS, LONGEST = 12, 8, 80


def drawn_budget(rng):
    """Draw (curves, weights, seconds of a round of each task, budget of seconds)."""
    curves = []
    for _ in range(TASKS):
        latency, least, luck = rng.lognormal(0, 0.8), rng.uniform(0.2, 0.8), rng.uniform(0.2, 0.9)
        left = 1 - np.cumprod(1 - rng.beta(1, 3, LONGEST) * (rng.random(LONGEST) < luck))
        curves.append((latency * (1 - (1 - least) * np.array([0, *left]))).tolist())
    weights = rng.integers(1, 7, TASKS).tolist()
    seconds = np.exp(rng.uniform(0, 3, TASKS)).round(1)
    return curves, weights, seconds.tolist(), float((3 * seconds.sum()).round(1))


def latency_in_budget(answer, rng):
    """Add up the latencies of NETWORKS networks after tuning them, as the answer chooses."""
    total = 0.0
    for _ in range(NETWORKS):
        curves, weights, seconds, left = drawn_budget(rng)
        rounds = [1] * TASKS
        while min(seconds) <= left:
            histories = [curve[:n] for curve, n in zip(curves, rounds, strict=True)]
            got = answer(histories, list(weights), list(seconds), left)
            if not isinstance(got, int) or not 0 <= got < TASKS or seconds[got] > left:
                wanted = f"a task whose round takes at most {left:.1f} s"
                return failed("wrong-value", expected=wanted, got=f"{got!r:.80}")
            left -= seconds[got]
            rounds[got] = min(LONGEST, rounds[got] + 1)
        ends = (curve[n - 1] for curve, n in zip(curves, rounds, strict=True))
        total += sum(w * g for w, g in zip(weights, ends, strict=True))
    return round(total, 2)


def fitting(seconds, left):
    return [n for n, s in enumerate(seconds) if s <= left]


def in_turn(histories, weights, seconds, left):
    """Return the stub: of the tasks that fit, the one with the fewest rounds."""
    return min(fitting(seconds, left), key=lambda n: len(histories[n]))


def without_seconds(histories, weights, seconds, left):
    """Return the reference: the lowest gradient, which does not know how long a round takes."""

    def gradient(n):
        past, window = histories[n], min(3, len(histories[n]) - 1)
        backward = (past[-1] - past[-1 - window]) / max(1, window)
        return weights[n] * (0.2 * backward - 0.8 * past[-1] / len(past))

    return min(fitting(seconds, left), key=gradient)


EXERCISE = Exercise(
    "ex15",
    "tuning_networks",
    (
        Item(
            "ex15.1",
            "an objective with bounds",
            3,
            "late",
            (
                objective(
                    "plain",
                    0.2,
                    "the sum of all latencies without bounds",
                    "each network takes the sum of weight times latency",
                ),
                objective(
                    "bounds",
                    0.6,
                    "ten times what is beyond a bound",
                    "below its bound a network counts 0, above it ten times the difference",
                ),
                objective(
                    "unknown",
                    0.2,
                    "tasks that no network calls",
                    "0 * inf is nan: leave out tasks with weight 0",
                ),
            ),
            (
                "First the latency of each network, then what it adds to the objective.",
                "A network without a bound adds its latency; one with a bound adds"
                " 10 * max(0.0, latency - bound).",
                "latency = sum(w * t for w, t in zip(row, latencies) if w): the `if` leaves out"
                " tasks that are not called.",
            ),
            "notebook 15, section 2",
        ),
        Item(
            "ex15.2",
            "the gradient of a task",
            4,
            "gradient",
            (
                Part("property", "the backward part", 0.3, backward_alone),
                Part("property", "the first guess", 0.2, first_guess_alone),
                Part("property", "the second guess, and the lower of both", 0.3, second_guess),
                Part("property", "weight, alpha and the usual values", 0.2, both_parts),
            ),
            (
                "Compute the three parts one by one and print them: backward, the first guess,"
                " the second guess.",
                "backward needs history[-1 - window], so more than `window` entries. The first"
                " guess is -history[-1] / len(history).",
                "The second guess is beta * flops / best - history[-1], where best is the largest"
                " of `rates` and flops / history[-1]. forward is the smaller of both.",
            ),
            "notebook 15, section 2",
        ),
        Item(
            "ex15.3",
            "who is next",
            5,
            "order",
            (
                chooses(first_rounds, 0.2, "the first round of each task"),
                chooses(many_rounds, 0.3, "the lowest gradient"),
                chooses(equal_gradients, 0.1, "equal gradients", first=-1),
                dies(short_curves, 0.2, "tasks whose candidates are used up"),
                dies(stalling_curves, 0.2, "tasks that have stalled"),
            ),
            (
                "Keep the number of rounds of each task; the latency of task n is"
                " curves[n][count[n] - 1].",
                "In each step: the living tasks; of these the untried ones, by weight; otherwise"
                " the one with the lowest gradient. min() and max() return the first of equals.",
                "past = curves[n][:count[n]]. It is stalled if len(past) > patience and past[-1]"
                " == past[-1 - patience]; backward is (past[-1] - past[-4]) / 3 if len(past) > 3.",
            ),
            "notebook 15, sections 2 and 3",
        ),
        Item(
            "ex15.4",
            "beat round robin",
            2,
            "choose",
            (
                gains(0.3, 0.4, "better than round robin"),
                gains(0.9, 0.6, "nine tenths of what gradients gain"),
            ),
            (
                "Which task would take most off the latency of the network, if it got the next"
                " round? The weight is how often the network calls it.",
                "Two guesses: it goes on falling as in its last rounds, or it could reach zero in"
                " as many rounds as it has had. Multiply by the weight.",
                "The gradient of ex15.3: weight * (0.2 * backward - 0.8 * latency / rounds), and"
                " the task where it is lowest.",
            ),
            "notebook 15, sections 2 and 3",
        ),
        Item(
            "ex15.5",
            "a population, by hand",
            2,
            "evolved",
            (
                follows(
                    ["mutate"],
                    1,
                    0.4,
                    "selection and mutation, one generation",
                    "a parent is found by taking the scores of the rows, in their order, off u"
                    " modulo their sum; the best rows are kept, earlier ones first if equal",
                ),
                follows(
                    ["cross"],
                    1,
                    0.3,
                    "crossover, one generation",
                    "where the mask has a 1, the knob is that of the second parent",
                ),
                follows(
                    ["mutate", "cross"],
                    4,
                    0.3,
                    "four generations",
                    "parents come from the population at the start of their generation, and its"
                    " scores, not from the children of the same one",
                ),
            ),
            (
                "Write two functions first: the score of a row, and the parent for a number u.",
                "parent(u): left = u % (the sum of all scores); go through the rows, take the score"
                " of each off left, and stop when left is negative.",
                "In each generation: family = list(rows); append a child unless family has it;"
                " rows = sorted(family, key=score, reverse=True)[:len(rows)].",
            ),
            "notebook 14, section 5",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "15.challenge",
        "a budget of seconds",
        "choose_in_time",
        "ms",
        latency_in_budget,
        in_turn,
        without_seconds,
        minutes=45,
        best_known=447.23,  # the solution: a gradient for each second, alpha .9, over 8 rounds
        hints=(
            "A round of one task may take 20 times as long as one of another. What does a second"
            " gain?",
            "Divide the gradient by the seconds of a round. Then look at the two guesses: how much"
            " did the last rounds of such tasks gain, and how much did the guesses promise?",
        ),
        section="notebook 15, section 2",
    ),
)
