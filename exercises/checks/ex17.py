# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 17: a queue of substitutions, shifts for scales, and the sizes of an accelerator."""

import heapq
from dataclasses import replace
from itertools import pairwise

from minitvm import viz, vta
from minitvm.base import TVMError
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

# --- a queue of substitutions --------------------------------------------------------------------


def cheapest_path(costs, steps, start, alpha):
    """Return the reference answer."""
    path = {start: [start]}
    best, queue = start, [(costs[start], start)]
    while queue:
        cost, name = heapq.heappop(queue)
        if cost > alpha * costs[best]:
            break
        for after in steps[name]:
            if after not in path:
                path[after] = [*path[name], after]
                is_best = costs[after] < costs[best]
                best = after if is_best else best
                if is_best or costs[after] < alpha * costs[best]:
                    heapq.heappush(queue, (costs[after], after))
    return path[best]


def a_chain(rng, factors):
    """Draw networks that follow each other, each with another cost; each step can be undone."""
    cost, costs, steps = float(rng.uniform(5, 50)), {}, {}
    names = [f"net{n}" for n in rng.permutation(len(factors) + 1).tolist()]
    for n, name in enumerate(names):
        costs[name] = cost
        steps[name] = [names[k] for k in (n - 1, n + 1) if 0 <= k < len(names)]
        cost *= factors[n] if n < len(factors) else 1
    return costs, steps, names[0]


def some_networks(rng, count):
    """Draw networks with three steps each; from the start, steps save something at first."""
    costs = {f"net{n}": float(rng.uniform(8, 12)) for n in range(count)}
    costs["net0"] = 12.0
    names = [*costs]
    steps = {name: [names[k] for k in rng.integers(0, count, 3).tolist()] for name in names}
    return costs, steps, "net0"


def wrong_path(got, costs, steps, start, alpha):
    """Return what is wrong with a path; "" if nothing is."""
    if not isinstance(got, list) or not got or any(name not in costs for name in got):
        return "not a list of names of networks"
    if got[0] != start:
        return f"it begins with {got[0]!r}, not with the start {start!r}"
    for name, after in pairwise(got):
        if after not in steps[name]:
            return f"no substitution leads from {name!r} to {after!r}"
    want = cheapest_path(costs, steps, start, alpha)
    if costs[got[-1]] != costs[want[-1]]:
        return f"it ends at a cost of {costs[got[-1]]:.4g}, the search at {costs[want[-1]]:.4g}"
    return ""


def searches(title, weight, draw, alpha, why, cases=8):
    """Make a part: the path leads to the network that the search finds."""

    def check(answer, rng):
        for _ in range(cases):
            costs, steps, start = draw(rng)
            got = answer(dict(costs), {name: list(to) for name, to in steps.items()}, start, alpha)
            if wrong := wrong_path(got, costs, steps, start, alpha):
                return failed(
                    "wrong-value",
                    expected="a path to the cheapest network that the search finds",
                    got=wrong,
                    case=f"{len(costs)} networks, alpha {alpha}",
                    why=why,
                )
        return PASSED

    return Part("property", title, weight, check)


# --- shifts for scales ---------------------------------------------------------------------------


def rounded_constants(bias, x, w, y, r):
    """Return the reference answer."""
    shift = y - x - w
    return [bias + (1 << shift >> 1), 0 if r is None else r - x - w, shift]


def scales_by_shifts(kind, weight, why):
    """Make a part: the accelerator computes the nearest byte with the answer's constants."""

    def check(answer, rng):
        for _ in range(10):
            x, w = (int(rng.integers(-9, -2)) for _ in range(2))
            shift = int(rng.integers(1, 12))
            r = x + w + int(rng.integers(0, shift + 1)) if kind == "residual" else None
            bias = int(rng.integers(-5000, 5000))
            got = answer(bias, x, w, x + w + shift, r)
            is_list = isinstance(got, list) and len(got) == 3
            if not is_list or any(type(n) is not int for n in got):
                return wrong_type("a list of three integers", got)
            b, residual_shift, right = got
            if not (0 <= residual_shift < 32 and 0 <= right < 32):
                shown = f"{residual_shift} and {right}"
                return failed("wrong-value", expected="shifts from 0 to 31", got=shown, why=why)
            for _ in range(20):
                total = int(rng.integers(-(1 << 18), 1 << 18))
                if kind == "halves":  # the sum lies halfway between two bytes
                    total = (total >> shift << shift) + (1 << shift - 1) - bias
                q = int(rng.integers(-128, 128)) if kind == "residual" else 0
                exact = total + bias + (0 if r is None else q << r - x - w)
                want = (2 * exact + (1 << shift)) >> shift + 1
                result = (total + b + (q << residual_shift)) >> right
                if result != want:
                    return failed(
                        "wrong-value",
                        expected=f"{want}, nearest to {exact / 2**shift:g}",
                        got=f"{result}, by {got}",
                        case=f"sum {total}, bias {bias}, exponents {x}, {w}, {x + w + shift}, {r}",
                        why=why,
                    )
        return PASSED

    titles = {"plain": "a layer", "halves": "halves are rounded up", "residual": "a residual sum"}
    return Part("correctness", titles[kind], weight, check)


# --- the challenge -------------------------------------------------------------------------------

LAYERS = {name: vta.RESNET18[name] for name in ("C9", "C12")}
TRIES = 12


def cycles_of(sizes):
    """Return the cycles of a design, or None if a layer does not fit."""
    try:
        config = replace(vta.vta_pynq, name="design", **sizes)
        return config, vta.evaluate(LAYERS, config).cycles
    except TVMError:
        return None, None


def cycles_needed(answer, rng):
    """Count the cycles of the best design of several tries, in thousands."""
    area = round(float(rng.uniform(1.0, 2.0)), 2)
    tried, best = [], None
    while len(tried) < TRIES:
        got = answer(area, [[dict(sizes), count] for sizes, count in tried])
        if not isinstance(got, dict) or {*got} != {*vta.SPACE}:
            return wrong_type(f"a dict with the keys {', '.join(vta.SPACE)}", got)
        for name, value in got.items():
            if value not in vta.SPACE[name]:
                expected = f"{name} among {vta.SPACE[name]}"
                return failed("wrong-value", expected=expected, got=repr(value))
        config, cycles = cycles_of(got)
        if config is not None and vta.area(config) > area:
            cycles = None
        tried.append((got, cycles))
        if cycles is not None:
            best = cycles if best is None else min(best, cycles)
    if best is None:
        expected = f"a design of at most {area} mm2 on which both layers fit"
        return failed("wrong-value", expected=expected, got=f"none in {TRIES} tries")
    return best / 1000


SMALL = {
    "block_in": 8, "block_out": 16, "inp_bytes": 32 << 10, "wgt_bytes": 32 << 10,
    "acc_bytes": 64 << 10, "uop_bytes": 4 << 10,
}  # fmt: skip


def a_small_one(area, tried):
    """Return the stub of the challenge: a small design, again and again."""
    return dict(SMALL)


def more_multipliers(area, tried):
    """Return the reference: the same memories with four times the multipliers."""
    return {**SMALL, "block_in": 32}


# --- puzzles -------------------------------------------------------------------------------------


def launch_from(kernels, operations, peak):
    return operations / peak / kernels


def some_launch(rng):
    return int(rng.integers(1, 5)), int(rng.integers(1, 100)) * 10**6, float(rng.uniform(1e9, 1e13))


def launch_bars(value, arguments):
    """Draw the time of the operations, and the time that the answer saves."""
    kernels, operations, peak = arguments
    bars = {
        "more operations": operations / peak * 1e6,
        "starts saved": kernels * float(value) * 1e6,
    }
    return viz.ScoreBars({name: round(us, 3) for name, us in bars.items()}, "microseconds")


def products(pixels, inputs, outputs, size):
    return pixels * (inputs // 16) * (outputs // 16) * size**2


def some_layer(rng):
    blocks = (16 * int(rng.integers(1, 9)) for _ in range(2))
    return int(rng.integers(4, 200)), *blocks, int(rng.choice([1, 3, 5]))


def product_bars(value, arguments):
    """Draw the cycles of the unit beside those of one kernel element, and of one pair of blocks."""
    pixels, inputs, outputs, size = arguments
    one = pixels * (inputs // 16) * (outputs // 16)
    bars = {"a 1x1 kernel": one, f"a {size}x{size} kernel, one pair of blocks": pixels * size**2}
    return viz.ScoreBars({**bars, "your answer": abs(float(value))}, "cycles")


PUZZLES = (
    Puzzle(
        "17.launch",
        "from when merging pays",
        "launch_from",
        (
            equal(
                launch_from, some_launch, rtol=1e-9, cases=12, title="the time of a start",
                why="merging pays if kernels * launch is more than operations / peak",
            ),
        ),
        lambda rng: (2, 12_845_056, 100e9),
        launch_from,
        (
            "What is saved is kernels * launch seconds. What does it cost?",
        ),
        "notebook 17, section 1",
        of="value",
        picture=launch_bars,
    ),
    Puzzle(
        "17.products",
        "cycles of the matrix unit",
        "products",
        (
            equal(
                products, some_layer, cases=12, title="the cycles in which it multiplies",
                why="one cycle for each pixel, kernel element and pair of blocks",
            ),
        ),
        lambda rng: (16, 32, 64, 3),
        products,
        (
            "The unit multiplies one pixel of a block by a matrix of 16 x 16 in a cycle.",
        ),
        "notebook 17, section 2",
        of="value",
        picture=product_bars,
    ),
)  # fmt: skip


def a_descent(rng):
    return a_chain(rng, [0.9, 0.8, 0.95, 1.2, 0.4])


def a_detour(rng):
    return a_chain(rng, [0.9, 1.03, 0.7, 1.2, 0.2])


def two_worse(rng):
    return a_chain(rng, [1.02, 1.02, 0.6, 1.04, 0.9, 1.3, 0.1])


EXERCISE = Exercise(
    "ex17",
    "under_one_roof",
    (
        Item(
            "ex17.1",
            "the queue of substitutions",
            5,
            "cheapest",
            (
                searches(
                    "alpha 1 takes improvements only", 0.2, a_descent, 1.0,
                    "with alpha 1, a network that costs more than the best does not join the queue",
                ),
                searches(
                    "a step that is worse", 0.2, a_detour, 1.05,
                    "a network that costs less than alpha times the best so far joins the queue",
                ),
                searches(
                    "two steps that are worse", 0.2, two_worse, 1.05,
                    "alpha is compared with the best so far, not with the network before",
                ),
                searches(
                    "hundreds of networks", 0.4, lambda rng: some_networks(rng, 300), 1.1,
                    "the cheapest is taken first, and alpha is compared with the best so far",
                ),
            ),
            (
                "Three things change during the search: the queue, the networks that were seen, and"
                " the best one so far. Keep the path to each network that was seen.",
                "heapq.heappop takes the smallest of (cost, name). The loop ends when the queue is"
                " empty, or when the cheapest in it costs more than alpha times the best.",
                "path = {start: [start]}; for each successor that is not in path: path[after] ="
                " [*path[name], after], then update the best, and push it if it costs less than"
                " alpha times the best or is the best.",
            ),
            "notebook 17, section 1",
        ),
        Item(
            "ex17.2",
            "shifts for scales",
            4,
            "constants",
            (
                required(scales_by_shifts("plain", 0.3, "shift is the exponent of the ratio of the"
                                          " scales; >> rounds down")),
                scales_by_shifts("halves", 0.3, "add half of 1 << shift before the shift"),
                scales_by_shifts("residual", 0.4, "the other summand is brought to the scale of"
                                 " the sums, which is finer"),
            ),
            (
                "A sum stands for sum * 2**(x + w). In units of the result, that is"
                " sum * 2**(x + w - y).",
                "x >> n is floor(x / 2**n). To round to the nearest integer, add a half first:"
                " half of a step of the result, in units of the sums.",
                "shift = y - x - w; the half is 1 << shift >> 1; the residual is shifted by"
                " r - x - w.",
            ),
            "notebook 17, section 2",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "17.challenge",
        "an accelerator within an area",
        "design",
        "thousand cycles",
        cycles_needed,
        a_small_one,
        more_multipliers,
        minutes=45,
        best_known=576.355,  # 16x32 multipliers, 16/64/64/4 kB, within its 1.06 mm2
        hints=(
            "What limits the best design so far? Point.explain says it for any configuration:"
            " notebook 17, section 3.",
            "A change of one parameter at a time, from the best one so far, goes a long way in 12"
            " tries. Do not forget that the area grows with all of them.",
        ),
        section="notebook 17, section 3",
    ),
)  # fmt: skip
