# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 10: a pass, a folded normalisation, fusion decisions, and a plan of the memory."""

import numpy as np

from minitvm.edu import PASSED, Exercise, Item, Part, failed, required, wrong_type

# --- a pass --------------------------------------------------------------------------------------

COUNTS = {"input": 0, "relu": 1, "exp": 1, "negative": 1, "transpose": 1, "add": 2}
UNARY = ("relu", "exp", "negative", "transpose")
EXAMPLE = [["x", "input", []], ["a", "relu", ["x"]], ["b", "relu", ["a"]], ["y", "exp", ["b"]]]


def drawn_network(rng):
    """Draw a network as a list of [name, operator, inputs], with pairs that can be removed."""
    nodes, last = [["x", "input", []]], ["x"]
    for n in range(int(rng.integers(8, 16))):
        name = f"t{n}"
        if rng.random() < 0.2 and len(last) > 2:
            pair = [last[int(k)] for k in rng.integers(len(last), size=2)]
            nodes.append([name, "add", pair])
        else:
            recent = last[-1] if rng.random() < 0.8 else last[int(rng.integers(len(last)))]
            nodes.append([name, UNARY[int(rng.integers(len(UNARY)))], [recent]])
        last.append(name)
    return nodes, last[-1]


CHAINS = (
    ("relu", "relu", "relu", "exp"),
    ("transpose", "transpose", "transpose", "exp"),
    ("negative", "negative", "relu", "relu"),
    ("negative", "transpose", "transpose", "negative"),
    ("exp", "exp", "relu"),
)


def chained(ops):
    nodes = [["x", "input", []]]
    for n, op in enumerate(ops):
        nodes.append([f"t{n}", op, [nodes[-1][0]]])
    return nodes, nodes[-1][0]


def value(nodes, output, x):
    """Compute a network on a matrix."""
    known = {}
    for name, op, inputs in nodes:
        given = [known[n] for n in inputs]
        match op:
            case "input":
                known[name] = x
            case "relu":
                known[name] = np.maximum(given[0], 0)
            case "exp":
                known[name] = np.exp(-np.abs(given[0]))
            case "negative":
                known[name] = -given[0]
            case "transpose":
                known[name] = given[0].T
            case "add":
                known[name] = given[0] + given[1]
            case _:
                raise KeyError(op)
    return known[output]


def fewest(nodes, output):
    """Return the number of operators that the reference leaves."""
    made, find = {}, {}
    for name, op, inputs in nodes:
        given = [find[n] for n in inputs]
        find[name] = name
        if given and made[given[0]][0] == op and op in ("relu", "negative", "transpose"):
            find[name] = given[0] if op == "relu" else made[given[0]][1][0]
        made[name] = op, given
    left, seen = [find[output]], set()
    while left:
        name = left.pop()
        if name not in seen and made[name][0] != "input":
            seen.add(name)
            left += made[name][1]
    return len(seen)


def network_of(got):
    """Return ((nodes, output), "") for a network, and (None, what is wrong) for anything else."""
    if not isinstance(got, list | tuple) or len(got) != 2:
        return None, f"{got!r:.300} is not (nodes, output)"
    nodes, output, known = *got, {}
    if not isinstance(nodes, list | tuple):
        return None, f"the nodes are {nodes!r:.300}, not a list"
    for node in nodes:
        match node:
            case [str(name), str(op), [*inputs]] if all(isinstance(n, str) for n in inputs):
                count = COUNTS.get(op)
            case _:
                return None, f"the node {node!r:.300} is not [name, operator, inputs]"
        if count != len(inputs):
            many = "there is no such operator" if count is None else f"it has {count} inputs"
            return None, f"the node {node!r:.300}: {many}"
        if unknown := [n for n in inputs if n not in known]:
            return None, f"{name!r} reads {unknown[0]!r}, which is not among the nodes before it"
        known[name] = node
    if not isinstance(output, str) or output not in known:
        return None, f"output {output!r:.300} is not among the nodes"
    return (nodes, output), ""


def what_is_left(nodes, output):
    """Name an operator that can be removed: one that is not needed, or the second of a pair."""
    made, needed = {name: (op, inputs) for name, op, inputs in nodes}, {output}
    for name, _, inputs in reversed(nodes):
        if name not in needed:
            return f"the output does not need {name!r}"
        needed.update(inputs)
    for name, op, inputs in nodes:
        if op in ("relu", "negative", "transpose") and made[inputs[0]][0] == op:
            return f"{name!r} and {inputs[0]!r} are a pair of {op}"
    return ""


def simplified(smaller):
    """Return a check that a network computes the same and, with `smaller`, is as small as ours."""

    def check(answer, rng):
        cases = [chained(ops) for ops in CHAINS] + [drawn_network(rng) for _ in range(12)]
        for nodes, output in cases:
            got, wrong = network_of(answer(nodes, output))
            case = " ".join(f"{n}={op}({','.join(i)})" for n, op, i in nodes[1:])
            case = f"{case}, output {output}"
            if got is None:
                told = (
                    "(nodes, output), each node [name, operator, inputs] after those that it reads"
                )
                return failed("wrong-type", expected=told, got=wrong, case=case)
            x = rng.standard_normal((3, 3))
            if not np.allclose(value(*got, x), value(nodes, output, x)):
                shown = f"another one, by {' '.join(map(str, got[0]))}, output {got[1]}"
                return failed("wrong-value", expected="the same result", got=shown, case=case)
            count, want = sum(op != "input" for _, op, _ in got[0]), fewest(nodes, output)
            if smaller and count > want:
                told = f"{want} operator{'s' * (want != 1)}"
                why = what_is_left(*got)
                return failed("too-many", expected=told, got=f"{count}", case=case, why=why)
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


EXERCISE = Exercise(
    "ex10",
    "networks",
    (
        Item(
            "ex10.1",
            "a pass that removes operators",
            3,
            "simplify",
            (
                required(Part("property", "the same result", 0.25, simplified(False))),
                Part("property", "no operator too many", 0.75, simplified(True)),
            ),
            (
                "Go through the nodes in order. When you come to a node, what do you know about its"
                " inputs?",
                "Keep a dict: name -> name of the node that takes its place. Look up the inputs of"
                " each node in it first; then look at the operator of the new input.",
                "If the input has the same operator: relu is replaced by its input, negative and"
                " transpose by the input of its input. At the end, keep the nodes that the output"
                " needs, going backwards.",
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
)
