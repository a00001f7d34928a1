# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 15: an objective with bounds, the gradient of a task, and the choices of a scheduler."""

import math

from minitvm.edu import PASSED, Exercise, Item, Part, failed, required, wrong_type


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
    if kind != "plain":
        shares = rng.choice([0.5, 0.9, 1.2, 2.0, 0.0], networks)
        shares[0] = rng.choice([0.5, 1.2])
        known = [0.0 if math.isinf(g) else g for g in latencies]
        sums = [float(sum(w * g for w, g in zip(row, known, strict=True))) for row in weights]
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
            case = f"late{given}"
            wrong = compared(answer(*given), lateness(*given), f"{case:.220}", why)
            if wrong is not None:
                return wrong
        return PASSED

    return Part("property", title, weight, check)


# --- a gradient ----------------------------------------------------------------------------------

ALPHA, BETA, WINDOW = 0.2, 2.0, 3


def drawn_task(rng, kind, slower):
    """Draw the arguments of `gradient`; kind is "first", "backward", "similar" or "options".

    slower   with "options": whether similar tasks are slower than this one, and beta is below 1
    """
    rounds = int(rng.integers(1, 4)) if kind == "first" else int(rng.integers(5, 12))
    falls = rng.uniform(0.6, 1.0, rounds).cumprod()
    history = [float(x) for x in 4e-3 * falls]
    flops = float(rng.integers(10, 400)) * 1e6
    rates = []
    if kind in ("similar", "options"):
        factors = rng.choice([0.3, 0.7, 2.5, 6.0], int(rng.integers(1, 4)))
        rates = [float(f) * flops / history[-1] for f in factors]
    given = [int(rng.integers(1, 8)), history, flops, rates]
    if kind == "options":
        if slower:
            given[3] = [0.5 * flops / history[-1]]
        beta = float(rng.uniform(0.2, 0.7) if slower else rng.uniform(1.0, 3.0))
        given += [float(rng.uniform(0.1, 0.9)), beta, 2]
    return tuple(given)


def slope_of(weight, history, flops, rates, alpha=ALPHA, beta=BETA, window=WINDOW):
    """Return the reference answer: the gradient of the objective for one more round of a task."""
    now = history[-1]
    backward = (now - history[-1 - window]) / window if len(history) > window else 0.0
    forward = -now / len(history)
    if rates:
        best = max([flops / now, *rates])
        forward = min(forward, beta * flops / best - now)
    return weight * (alpha * backward + (1 - alpha) * forward)


def sloped(kind, weight, title, why):
    """Make a part that checks the gradient of tasks of one kind."""

    def check(answer, rng):
        for n in range(12):
            given = drawn_task(rng, kind, n % 2 == 1)
            case = f"gradient{given}"
            wrong = compared(answer(*given), slope_of(*given), f"{case:.220}", why)
            if wrong is not None:
                return wrong
        return PASSED

    return Part("property", title, weight, check)


# --- a scheduler ---------------------------------------------------------------------------------


def drawn_curves(rng, kind):
    """Draw the arguments of `order`; kind is "first", "plain", "ties", "dead" or "stalled"."""
    tasks = int(rng.integers(3, 6))
    length = 30 if kind != "dead" else 6
    weights = [int(w) for w in rng.permutation(range(1, tasks + 1))]
    curves = []
    for _ in range(tasks):
        start, end = rng.uniform(2, 6), rng.uniform(0.5, 1.5)
        at = [float(end + (start - end) * math.exp(-k * rng.uniform(0.2, 0.4))) for k in range(40)]
        curves.append([min(at[: k + 1]) for k in range(length)])
    rounds, patience = 24, 100
    if kind == "first":
        weights[1], rounds = weights[0], tasks
    elif kind == "ties":
        curves, weights = [list(curves[0]) for _ in range(tasks)], [2] * tasks
    elif kind == "dead":
        rounds = 6 * tasks + 5
    elif kind == "stalled":
        curves = [c[:3] + [c[2]] * 27 for c in curves]
        curves[0][9:] = [curves[0][9] / 2] * 21
        rounds, patience = 60, int(rng.integers(2, 5))
    return curves, weights, rounds, patience


def choices(curves, weights, rounds, patience):
    """Return the reference answer: the number of the task that is chosen in each round."""
    count, chosen = [0] * len(curves), []
    while len(chosen) < rounds:
        living = []
        for n, curve in enumerate(curves):
            past = curve[: count[n]]
            stalled = len(past) > patience and past[-1] == past[-1 - patience]
            if len(past) < len(curve) and not stalled:
                living.append(n)
        if not living:
            break
        untried = [n for n in living if not count[n]]
        if untried:
            best = max(untried, key=lambda n: weights[n])
        else:
            slopes = {n: slope_of(weights[n], curves[n][: count[n]], 1.0, []) for n in living}
            best = min(living, key=slopes.__getitem__)
        count[best] += 1
        chosen.append(best)
    return chosen


def chooses(kind, weight, title, why):
    """Make a part that checks the choices on searches of one kind."""

    def check(answer, rng):
        for _ in range(6):
            given = drawn_curves(rng, kind)
            got, want = answer(*given), choices(*given)
            if not isinstance(got, list) or not all(type(n) is int for n in got):
                return wrong_type("a list of numbers of tasks", got)
            if got == want:
                continue
            pairs = zip(got, want, strict=False)
            at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(got), len(want)))
            case = (
                f"{len(given[0])} tasks, weights {given[1]}, patience {given[3]}; from round {at}"
            )
            return failed(
                "wrong-value",
                expected=f"{want[at : at + 8]}, {len(want)} rounds",
                got=f"{got[at : at + 8]}, {len(got)} rounds",
                case=case,
                why=why,
            )
        return PASSED

    return Part("property", title, weight, check)


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
                    0.5,
                    "ten times what is beyond a bound",
                    "below its bound a network counts 0, above it ten times the difference",
                ),
                objective(
                    "unknown",
                    0.3,
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
                sloped(
                    "first",
                    0.2,
                    "a task with few rounds",
                    "with `window` rounds or fewer the backward part is 0",
                ),
                sloped(
                    "backward",
                    0.3,
                    "what the last rounds have gained",
                    "(latency now - latency `window` rounds ago) / window",
                ),
                sloped(
                    "similar",
                    0.3,
                    "similar tasks",
                    "the lower of the two guesses; the task itself may be the fastest",
                ),
                sloped("options", 0.2, "other alpha, beta and window", "all three are arguments"),
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
                required(
                    chooses(
                        "first",
                        0.1,
                        "the first round of each task",
                        "the largest weight first; of equal ones the lower number",
                    )
                ),
                chooses("plain", 0.3, "the lowest gradient", "weight * (.2 backward + .8 forward)"),
                chooses("ties", 0.2, "equal gradients", "the lower number is first"),
                chooses(
                    "dead",
                    0.2,
                    "tasks whose candidates are used up",
                    "a task is dead when its curve is used up, and it ends when all are dead",
                ),
                chooses(
                    "stalled",
                    0.2,
                    "tasks that have stalled",
                    "dead: the latency now is the one of `patience` rounds ago",
                ),
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
    ),
)
