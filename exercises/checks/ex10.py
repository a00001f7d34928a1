# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 10: a pass, a folded normalisation, fusion decisions, and a plan of the memory."""

import numpy as np

from minitvm import graph, viz
from minitvm.base import GraphError
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

# --- a pass --------------------------------------------------------------------------------------

ARITY = {"exp": 1, "log": 1, "negative": 1, "tanh": 1, "add": 2, "multiply": 2}
MOST_CALLS = 200
TOLD = "the text of a network with the input x, made of exp, log, negative, tanh, add and multiply"
CHAINS = (  # each line is an operator, with the numbers of the lines that it reads; 0 is the input
    (("negative", 0), ("negative", 1), ("tanh", 2)),
    (("negative", 0), ("negative", 1), ("negative", 2), ("negative", 3)),
    (("tanh", 0), ("exp", 1), ("log", 2), ("negative", 3)),
    (("exp", 0), ("tanh", 0), ("exp", 2), ("multiply", 1, 3)),
    (("exp", 0), ("multiply", 1, 1), ("multiply", 1, 2), ("log", 3)),
    (("exp", 0), ("negative", 1), ("negative", 2), ("multiply", 3, 1), ("tanh", 4)),
    (("negative", 0), ("exp", 1), ("log", 2), ("negative", 3), ("tanh", 4)),
    (("negative", 0), ("exp", 1), ("negative", 2), ("exp", 1), ("multiply", 2, 4), ("add", 3, 5)),
)


def built(lines):
    """Build the network of some lines; its output is the last of them."""
    b = graph.Builder("net")
    made = [b.input("x", (3, 4))]
    for op, *inputs in lines:
        made.append(b.call(op, *(made[n] for n in inputs)))
    return b.graph(made[-1])


def drawn_network(rng):
    """Draw lines whose values stay small; log is only drawn where its argument is positive."""
    lines, bounds, signs = [], [3.0], [False]  # the largest absolute value; whether it is positive
    while len(lines) < 14:
        op = str(
            rng.choice(["negative", "negative", "exp", "exp", "log", "tanh", "add", "multiply"])
        )
        n, m = len(bounds) - 1, int(rng.integers(max(0, len(bounds) - 3), len(bounds)))
        bound, sign = {
            "negative": (bounds[n], False), "exp": (np.exp(min(bounds[n], 30.0)), True),
            "log": (bounds[n], False), "tanh": (1.0, False),
            "add": (bounds[n] + bounds[m], signs[n] and signs[m]),
            "multiply": (bounds[n] * bounds[m], signs[n] and signs[m]),
        }[op]  # fmt: skip
        if bound > 1e6 or (
            op == "log" and (lines[-1][0] if lines else "") not in ("exp", "multiply")
        ):
            continue
        if op == "log" and not signs[n]:
            continue
        lines.append((op, n, m) if ARITY[op] == 2 else (op, n))
        bounds.append(float(bound))
        signs.append(sign)
    return lines


def network_of(got):
    """Return (network, "") for the text of a network, and (None, what is wrong) for all else."""
    if not isinstance(got, str):
        return None, f"{got!r:.200}"
    try:
        net = graph.parse(got)
    except GraphError as e:
        return None, str(e)
    others = [n.op for n in net.calls if n.op not in ARITY]
    names = [n.name for n in net.inputs]
    if others or len(net.calls) > MOST_CALLS or names != ["x"] or len(net.outputs) != 1:
        return None, f"inputs {names}, {len(net.calls)} calls, among them {others[:3]}"
    if net.inputs[0].type.shape != (3, 4):
        return None, f"the input {net.inputs[0]}"
    return net, ""


def what_is_left(net):
    """Name an operator to which a rule still applies; "" if there is none."""
    for node in net.calls:
        match node.op, [n.op for n in node.inputs]:
            case ("negative", ["negative"]) | ("log", ["exp"]) | ("multiply", ["exp", "exp"]):
                inner = ", ".join(f"{n.op}(...)" for n in node.inputs)
                return f"{node.op}({inner})"
            case _:
                pass
    return ""


def simplified(smaller):
    """Return a check that a network computes the same and, with `smaller`, no rule applies."""

    def check(answer, rng):
        for lines in (*CHAINS, *(drawn_network(rng) for _ in range(12))):
            net = built(lines)
            got, wrong = network_of(answer(str(net)))
            if got is None:
                return failed("wrong-type", expected=TOLD, got=wrong, case=str(net))
            x = rng.uniform(-1, 1, (3, 4)).astype("float32")
            (mine,), (right,) = (graph.evaluate(g, x, dtype="float64") for g in (got, net))
            if mine.shape != right.shape or not np.allclose(mine, right):
                return failed(
                    "wrong-value", "the same result", f"another one, by\n{got}", case=str(net)
                )
            if smaller and (left := what_is_left(got)):
                why = "a rule may apply to what another one has made: look at the new inputs"
                return failed("too-many", "no rule applies", left, case=str(net), why=why)
        return PASSED

    return check


# --- batch normalisation -------------------------------------------------------------------------


def drawn_layer(rng):
    """Draw a convolution's weights and bias, and the vectors of a batch normalisation."""
    o, i, k = (int(n) for n in rng.integers(2, 6, 3))
    w = rng.standard_normal((o, i, k, k))
    bias, gamma, beta, mean = (rng.standard_normal(o) for _ in range(4))
    return w, bias, gamma, beta, mean, 0.1 + rng.random(o), float(rng.choice([1e-5, 1e-3, 0.1]))


FOLDED = (
    "the weights of output channel o are w[o] * gamma[o] / sqrt(variance[o] + epsilon)",
    "batch_norm(y) = (y - mean) / sqrt(variance + epsilon) * gamma + beta, for y = bias",
)


def folds(which):
    """Return a check of the new weights (`which` is 0) or of the new bias (1)."""

    def check(answer, rng):
        for _ in range(4):
            w, bias, gamma, beta, mean, variance, epsilon = drawn_layer(rng)
            got = answer(w, bias, gamma, beta, mean, variance, epsilon)
            if not isinstance(got, list | tuple) or len(got) != 2:
                return wrong_type("(weights, bias)", got)
            scale = gamma / np.sqrt(variance + epsilon)
            want = (w * scale[:, None, None, None], (bias - mean) * scale + beta)[which]
            mine = np.asarray(got[which], float)
            case = f"weights {w.shape}, epsilon {epsilon:g}"
            if mine.shape != want.shape:
                told = str(want.shape)
                return failed(
                    "wrong-shape", expected=told, got=str(mine.shape), case=case, why=FOLDED[which]
                )
            if not np.allclose(mine, want, rtol=1e-6):
                at = tuple(np.argwhere(~np.isclose(mine, want, rtol=1e-6))[0])
                expected, found = f"{want[at]:.9g}", f"{mine[at]:.9g}"
                where, why = str(tuple(map(int, at))), FOLDED[which]
                return failed(
                    "wrong-value", expected=expected, got=found, where=where, case=case, why=why
                )
        return PASSED

    return check


# --- fusion --------------------------------------------------------------------------------------

KIND = {
    "conv2d": "anchor", "dense": "anchor", "relu": "element", "add": "element", "tanh": "element",
    "transpose": "mover", "reshape": "mover", "softmax": "reduction", "mean": "reduction",
}  # fmt: skip
FIXED = (
    ("conv2d", "add", "relu", "conv2d", "relu"),
    ("relu", "conv2d"),
    ("tanh", "relu", "mean", "relu"),
    ("conv2d", "transpose", "relu"),
    ("relu", "transpose", "tanh", "softmax"),
    ("dense",),
)


def kernels(ops):
    """Return the reference: the kernels of a chain of operators."""
    found = []
    for op in ops:
        kind, before = KIND[op], found[-1] if found else []
        kinds = {KIND[each] for each in before}
        joins = bool(before) and (
            (kind == "element" and "reduction" not in kinds)
            or (kind in ("mover", "reduction") and kinds <= {"element", "mover"})
        )
        if joins:
            before.append(op)
        else:
            found.append([op])
    return found


RULES = {
    "anchor": "always opens a kernel",
    "element": "joins unless the kernel has a reduction",
    "mover": "joins if the kernel has only elements and movers",
    "reduction": "joins if the kernel has only elements and movers",
}


def broken_rule(ops, mine, want):
    """Return the rule for the first operator that joins a kernel, or opens one, wrongly."""
    starts = [{sum(map(len, each[:n])) for n in range(len(each))} for each in (mine, want)]
    first = min(starts[0] ^ starts[1], default=len(ops))
    if first >= len(ops) or [op for each in mine for op in each] != ops:
        return "the kernels together are the operators of the chain, in its order"
    kind = KIND[ops[first]]
    return f"ops[{first}] is {ops[first]!r}, of kind {kind!r}: it {RULES[kind]}"


def fused_right(fixed):
    """Return a check of the kernels of the chains in FIXED, or of random chains."""

    def check(answer, rng):
        chains = [list(c) for c in FIXED]
        if not fixed:
            names = list(KIND)
            sizes = rng.integers(3, 9, 40)
            chains = [[names[int(k)] for k in rng.integers(len(names), size=int(n))] for n in sizes]
        for ops in chains:
            got, want = answer(ops), kernels(ops)
            if not isinstance(got, list) or not all(isinstance(k, list | tuple) for k in got):
                return wrong_type("a list of kernels, each a list of operators", got)
            mine = [list(k) for k in got]
            if mine != want:
                case = " ".join(ops)
                expected, found = str(want), str(mine)[:300]
                why = broken_rule(ops, mine, want)
                return failed("wrong-value", expected=expected, got=found, case=case, why=why)
        return PASSED

    return check


# --- offsets -------------------------------------------------------------------------------------


def drawn_lives(rng):
    """Draw tensors as [first call, last call, bytes], with lifetimes like those in networks."""
    count = int(rng.integers(8, 24))
    sizes = rng.choice([63, 64, 65, 128, 192, 256, 257, 512, 1024], count)
    lasts = [min(count, n + int(rng.choice([1, 1, 1, 2, 3, 6]))) for n in range(count)]
    return [[n, last, int(size)] for n, (last, size) in enumerate(zip(lasts, sizes, strict=True))]


SHORT = [[0, 1, 64], [1, 2, 64], [2, 3, 64], [3, 4, 64]]
LARGE_LAST = [[0, 2, 64], [1, 2, 64], [2, 4, 1024], [3, 5, 64], [4, 5, 128]]


def live_bound(lives):
    """Return the most bytes alive during a call."""
    calls = {n for first, last, _ in lives for n in (first, last)}
    return max(sum(b for first, last, b in lives if first <= n <= last) for n in calls)


def checked_offsets(got, lives):
    """Return the outcome for offsets that are malformed or overlap; None if they are right."""
    whole = isinstance(got, list | tuple) and len(got) == len(lives)
    if not whole or not all(isinstance(at, int) and at >= 0 for at in got):
        return wrong_type("a list of offsets, not below 0, one for each life", got)
    for k, (first, last, size) in enumerate(lives):
        for m in range(k):
            other_first, other_last, other = lives[m]
            meet = first <= other_last and other_first <= last
            if meet and got[k] < got[m] + other and got[m] < got[k] + size:
                where = f"tensors {m} and {k}: {lives[m]} at {got[m]}, {lives[k]} at {got[k]}"
                expected, found = "tensors in use at once lie apart", "an overlap"
                call = max(first, other_first)
                why = f"both are in use during call {call}"
                if call == min(last, other_last):
                    why += ", and both ends count"
                return failed("overlap", expected=expected, got=found, where=where, why=why)
    return None


def placed(limit):
    """Return a check that tensors do not overlap and, with a limit, that plans are small.

    limit   the mean of (end of the plan / bytes alive at once) over all cases; 0 for no limit
    """

    def check(answer, rng):
        cases = [SHORT, LARGE_LAST, *(drawn_lives(rng) for _ in range(20))]
        shares, worst = [], (0.0, "", "")
        for lives in cases:
            got = answer(lives)
            if wrong := checked_offsets(got, lives):
                return wrong
            end = max(at + size for at, (_, _, size) in zip(got, lives, strict=True))
            bound = live_bound(lives)
            shares.append(end / bound)
            why = f"its plan ends at {end}; at most {bound} bytes are in use at once"
            worst = max(worst, (shares[-1], f"offsets({lives}) = {list(got)}", why))
        mean = float(np.mean(shares))
        if limit and mean > limit:
            told, found = f"at most {limit:g} x the bytes alive at once", f"{mean:.3f} x, as a mean"
            where, why = f"the largest, {worst[0]:.3f} x: {worst[1]}", worst[2]
            case = f"{len(cases)} networks"
            return failed("too-large", expected=told, got=found, where=where, case=case, why=why)
        return PASSED

    return check


# --- puzzles -------------------------------------------------------------------------------------


def some_images(rng):
    return 1024 * int(rng.integers(1, 200)), int(rng.integers(1, 6))


def saved(image, after):
    return 2 * image * after


def draw_saved(answer, arguments):
    image, after = arguments
    apart = 2 * image * (after + 1)
    bytes_of = {"fused": max(0, apart - answer), "apart": apart, "one image": image}
    return viz.ScoreBars(bytes_of, "bytes")


def some_gains(rng):
    return [int(n) for n in rng.integers(0, 6, int(rng.integers(1, 6)))], int(rng.integers(1, 7))


def pays(gains, transpose):
    return sum(gains) > 2 * transpose


def draw_sides(answer, arguments):
    gains, transpose = arguments
    return viz.ScoreBars(
        {"two transposes": 2 * transpose, "gains": sum(gains)}, "cycles, in thousands"
    )


def some_call(rng):
    lives = drawn_lives(rng)
    return lives, int(rng.integers(0, len(lives)))


def in_use(lives, call):
    return sum(size for first, last, size in lives if first <= call <= last)


def draw_lives(answer, arguments):
    lives, call = arguments
    others = {f"call {n}": in_use(lives, n) for n in range(len(lives)) if n != call}
    return viz.ScoreBars({f"call {call}": answer} | others, "bytes in use")


def some_outputs(rng):
    return (int(rng.integers(4, 60)),)


def multiplications(size):
    """Count the multiplications of F(4, 3) for size x size outputs of one channel."""
    return 36 * (-(-size // 4)) ** 2


def draw_multiplications(answer, arguments):
    counts = {"Winograd": answer, "direct": 9 * arguments[0] ** 2}
    return viz.ScoreBars(counts, "multiplications")


def some_dimensions(rng):
    axes = tuple(int(d) for d in rng.permutation(4))
    return axes, tuple(int(d) for d in rng.permutation(4)[: rng.integers(1, 4)])


def behind(axes, over):
    return tuple(axes[d] for d in over)


# --- the challenge -------------------------------------------------------------------------------

NETWORKS, CALLS = 6, 40


def drawn_calls(rng):
    """Draw a network as [bytes of the result, numbers of the calls that it reads], in some order.

    Branches begin at a shared tensor, shrink or grow, and end in one call that joins all ends.
    """
    calls = [[1024 * int(rng.integers(8, 64)), []]]
    ends = [0]
    while len(calls) < CALLS - 1:
        if len(ends) > 2 and rng.random() < 0.25:
            a, b = (int(n) for n in rng.choice(len(ends), 2, replace=False))
            reads = sorted({ends[a], ends[b]})
            ends = [n for n in ends if n not in reads]
        else:
            reads = [int(rng.choice(ends))]
            if len(ends) > 5 or rng.random() < 0.6:  # it goes on; otherwise it also branches
                ends.remove(reads[0])
        ends.append(len(calls))
        calls.append([1024 * int(2 ** rng.uniform(1, 7)), reads])
    unread = set(range(len(calls))) - {n for _, reads in calls for n in reads}
    calls.append([1024, sorted(unread)])
    return calls


def most_in_use(order, calls):
    """Return the most bytes in use during a call, if the calls are made in this order."""
    at = {call: n for n, call in enumerate(order)}
    lasts = dict(at)
    for call, (_, reads) in enumerate(calls):
        for read in reads:
            lasts[read] = max(lasts[read], at[call])
    return live_bound([[at[n], lasts[n], size] for n, (size, _) in enumerate(calls)])


def fault_of(order, calls):
    """Return what is wrong with an order, or ""."""
    whole = isinstance(order, list | tuple) and all(type(n) is int for n in order)
    if not whole or sorted(order) != list(range(len(calls))):
        return f"{order!r:.200}"
    done = set()
    for call in order:
        if missing := set(calls[call][1]) - done:
            return f"call {call} before call {min(missing)}, which it reads"
        done.add(call)
    return ""


def kilobytes(answer, rng):
    """Add up the most kilobytes in use of NETWORKS drawn networks."""
    total = 0
    for _ in range(NETWORKS):
        calls = drawn_calls(rng)
        order = answer([[size, list(reads)] for size, reads in calls])
        if fault := fault_of(order, calls):
            told = f"an order of the {len(calls)} calls, each after those that it reads"
            return failed("wrong-value", expected=told, got=fault)
        total += most_in_use(order, calls)
    return total / 1024


def as_given(calls):
    return list(range(len(calls)))


def best_few(calls):
    """Return the reference: keep the 5 best beginnings of an order, and extend all of them."""
    readers = [sum(n in reads for _, reads in calls) for n in range(len(calls))]
    beginnings = [(0, 0, (), tuple(readers))]  # most in use, in use now, the order, readers to come
    for _ in calls:
        longer = {}
        for most, live, order, left in beginnings:
            for call, (size, reads) in enumerate(calls):
                if call in order or not set(reads) <= set(order):
                    continue
                rest = [n - (k in reads) for k, n in enumerate(left)]
                freed = sum(calls[k][0] for k in reads if rest[k] == 0)
                state = (max(most, live + size), live + size - freed, (*order, call), tuple(rest))
                key = frozenset(state[2])
                longer[key] = min(state, longer.get(key, state))
        beginnings = sorted(longer.values())[:5]
    return list(beginnings[0][2])


EXERCISE = Exercise(
    "ex10",
    "networks",
    (
        Item(
            "ex10.1",
            "a pass of your own",
            3,
            "simplified",
            (
                required(Part("property", "the same result", 0.25, simplified(False))),
                Part("property", "no rule applies any more", 0.75, simplified(True)),
            ),
            (
                "A pass builds a new network: a graph.Builder, and a dict from each old node to"
                " the new one. Go through net.calls in order, with new inputs.",
                "new = {node: b.input(node.name, node.type.shape) for node in net.inputs}. For a"
                " node to which no rule applies: b.call(node.op, *inputs, **node.attrs), where"
                " inputs are the new ones. Decide by the operators of the new inputs.",
                "match node.op, [n.op for n in inputs]: for negative of negative and log of exp the"
                " new node is inputs[0].inputs[0]; for multiply of two exp it is b.exp(b.add(...))"
                " of their inputs. At the end return b.graph(*(new[n] for n in net.outputs)).",
            ),
            "notebook 10, section 2",
        ),
        Item(
            "ex10.2",
            "fold batch normalisation",
            3,
            "fold",
            (
                Part("property", "the weights", 0.25, folds(0)),
                Part("property", "the bias", 0.75, folds(1)),
            ),
            (
                "Write batch_norm(conv(x, w) + bias) as factor * conv(x, w) + shift.",
                "The factor is gamma / sqrt(variance + epsilon), one number for each output"
                " channel: the first dimension of the weights.",
                "w * factor[:, None, None, None]; the bias is normalised like any other value:"
                " (bias - mean) * factor + beta.",
            ),
            "notebook 10, section 2",
        ),
        Item(
            "ex10.3",
            "which operators share a kernel",
            4,
            "kernels",
            (
                Part("property", "six chains", 0.25, fused_right(True)),
                Part("property", "random chains", 0.75, fused_right(False)),
            ),
            (
                "Go through the chain. Each operator joins the last kernel of the list, or opens a"
                " new one.",
                "An anchor always opens a kernel. Whether another operator joins depends on the set"
                " of kinds in the last kernel.",
                "With that set: an element joins if it has no 'reduction'; a mover or a reduction"
                " joins if it is not empty and <= {'element', 'mover'}.",
            ),
            "notebook 10, section 3",
        ),
        Item(
            "ex10.4",
            "a plan of the memory",
            4,
            "offsets",
            (
                required(Part("property", "tensors in use at once lie apart", 0.25, placed(0))),
                Part("property", "it uses memory again: within 1.35", 0.25, placed(1.35)),
                Part(
                    "property", "it is nearly as small as it can be: within 1.05", 0.5, placed(1.05)
                ),
            ),
            (
                "Two tensors are in use during the same call if each life begins no later than the"
                " other one ends.",
                "Place tensors one by one, the largest first. Only tensors matter that are placed"
                " already and in use during the same call: go through them by their offsets.",
                "Sort by size, the largest first. at = 0; for each placed neighbour (start, size)"
                " by start: if at + mine <= start, stop; otherwise at = max(at, start + size).",
            ),
            "notebook 10, section 6",
        ),
    ),
    puzzles=(
        Puzzle(
            "10.saved",
            "bytes that fusion saves",
            "saved",
            (
                equal(
                    saved,
                    some_images,
                    cases=20,
                    why="between two kernels an image is written once and read once",
                ),
            ),
            lambda rng: (100352, 2),
            saved,
            ("How many images lie between 1 + after kernels?",),
            "notebook 10, section 3",
            of="value",
            picture=draw_saved,
            cost=lambda answer, arguments: 2 * arguments[0] * (arguments[1] + 1) - answer,
            unit="bytes left",
        ),
        Puzzle(
            "10.pays",
            "when a layout pays",
            "pays",
            (
                equal(
                    pays,
                    some_gains,
                    cases=40,
                    why="there is a transpose where NHWC begins and one where it ends, no others",
                ),
            ),
            lambda rng: ([2, 1, 3], 2),
            pays,
            ("All nodes of the part together pay for two transposes.",),
            "notebook 10, section 4",
            of="value",
            picture=draw_sides,
            cost=lambda answer, arguments: 2 * arguments[1] if answer else sum(arguments[0]),
            unit="thousand cycles lost",
        ),
        Puzzle(
            "10.live",
            "what is in use",
            "in_use",
            (equal(in_use, some_call, cases=20, why="first and last both belong to a life"),),
            lambda rng: ([[0, 1, 64], [1, 3, 32], [2, 3, 128], [3, 4, 16]], 3),
            in_use,
            ("sum(size for first, last, size in lives if ...): which lives contain the call?",),
            "notebook 10, section 6",
            of="value",
            picture=draw_lives,
        ),
        Puzzle(
            "10.multiplications",
            "what Winograd's formula leaves",
            "multiplications",
            (
                equal(
                    multiplications,
                    some_outputs,
                    cases=20,
                    why="tiles at the edge are whole, even if they compute outputs that do not"
                    " exist",
                ),
            ),
            lambda rng: (7,),
            multiplications,
            ("How many tiles of 4 x 4 cover size x size outputs? -(-size // 4) rounds up.",),
            "notebook 10, section 9",
            of="value",
            picture=draw_multiplications,
            cost=lambda answer, arguments: answer,
            unit="multiplications",
        ),
        Puzzle(
            "10.behind",
            "a mean before a transpose",
            "behind",
            (
                equal(
                    behind,
                    some_dimensions,
                    cases=20,
                    why="dimension d of transpose(x, axes) is dimension axes[d] of x",
                ),
            ),
            lambda rng: ((0, 2, 3, 1), (1, 2)),
            behind,
            ("tuple(... for d in over)",),
            "notebook 10, section 10",
            of="value",
        ),
    ),
    challenge=Challenge(
        "10.challenge",
        "an order of the calls",
        "order",
        "kilobytes in use at most",
        kilobytes,
        as_given,
        best_few,
        best_known=1382,  # the same with the 500 best beginnings; 3000 find no better one
        hints=(
            "A call needs its result and what is in use around it. Which call lets a large tensor"
            " go, and which one begins a branch that could wait?",
            "The next call alone says little. Keep the best few beginnings of an order, with the"
            " most that each has used so far, and extend all of them.",
        ),
        section="notebook 10, section 6",
    ),
)
