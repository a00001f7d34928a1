# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 14: reuse, a derivation, a mutation, fusion that fails, and a rule that wins."""

import copy

import numpy as np

from minitvm import Target, te, tune, viz
from minitvm.auto_scheduler import ComputeDAG, SearchTask
from minitvm.cachesim import Cache
from minitvm.edu import (
    PASSED,
    Challenge,
    Exercise,
    Item,
    Kept,
    Part,
    Puzzle,
    at_most,
    equal,
    failed,
    misses,
    problem,
    schedule_correct,
    wrong_type,
)
from minitvm.tensor import loads

# --- reuse ---------------------------------------------------------------------------------------

NAMES = "ijlm"
TENSORS = ("A", "B", "W")


def drawn_formula(rng, with_sum):
    """Draw (axes, sums, reads) of a formula; some axes have one iteration."""
    count = 2 + int(rng.integers(2))
    axes = {name: int(rng.choice([1, 2, 7, 64, 64])) for name in NAMES[:count]}
    sums = {"k": 32} if with_sum else {}
    reads = []
    for _ in range(1 + int(rng.integers(3))):
        used = [a for a in axes if rng.random() < 0.75] + [a for a in sums if rng.random() < 0.8]
        reads.append([TENSORS[int(rng.integers(len(TENSORS)))], used])
    return axes, sums, reads


def reused(axes, sums, reads):
    """Return the reference answer: whether inputs are reused so often that tiles pay."""
    wanted = {a for a, n in axes.items() if n > 1}
    seen = {}
    for name, used in reads:
        seen.setdefault(name, set()).update(used)
    count = sum(not wanted <= used for used in seen.values())
    return count >= 2 or (count == 1 and bool(sums))


def pays(with_sum, weight, title):
    """Make a part that checks formulas with or without a sum; tiles pay for half of them."""

    def check(answer, rng):
        left = {True: 12, False: 12}
        while any(left.values()):
            given = drawn_formula(rng, with_sum)
            want = reused(*given)
            if not left[want]:
                continue
            left[want] -= 1
            got = answer(*given)
            if not isinstance(got, bool):
                return wrong_type("True or False", got)
            if got != want:
                axes, sums, reads = given
                why = (
                    "count the inputs that are read without one of the axes; an axis of one"
                    " iteration does not count, and all reads of an input count together"
                )
                case = f"axes {axes}, sums {sums}, reads {reads}"
                return failed("wrong-value", expected=str(want), got=str(got), case=case, why=why)
        return PASSED

    return Part("property", title, weight, check)


# --- a derivation --------------------------------------------------------------------------------

KINDS = ("product", "elementwise", "window")  # has reuse; simple; neither


def drawn_chain(rng, least):
    """Draw kinds of stages, from the input to the output, with `least` products or more."""
    while True:
        length = 2 + int(rng.integers(4))
        kinds = [KINDS[int(rng.integers(3))] for _ in range(length)]
        if kinds.count("product") >= least and kinds.count("product") <= 3:
            return [[f"S{n}", kind] for n, kind in enumerate(kinds)]


def all_sketches(stages):
    """Return the reference answer: all derivations, each as a tuple of (rule, stage)."""
    found = []
    waiting: list[tuple[int, tuple]] = [(len(stages) - 1, ())]
    while waiting:
        at, steps = waiting.pop()
        if at < 0:
            found.append(steps)
            continue
        name, kind = stages[at]
        if kind == "elementwise" and at < len(stages) - 1:
            waiting.append((at - 1, (*steps, ("inline", name))))
            continue
        if kind != "product":
            waiting.append((at - 1, steps))
            continue
        inlined = {stage for rule, stage in steps if rule == "inline"}
        readers = [s for s in stages[at + 1 :] if s[0] not in inlined]
        if readers and readers[0][1] == "elementwise":
            waiting += [(at - 1, (*steps, (f"fuse {n}", name))) for n in (1, 2)]
        waiting.append((at - 1, (*steps, ("tile", name))))
    return found


def derives(least, weight, title, plain):
    """Make a part that checks chains; in `plain` ones, only the last stage may be elementwise."""

    def check(answer, rng):
        done = 0
        while done < 12:
            stages = drawn_chain(rng, least)
            inner = any(kind == "elementwise" for _, kind in stages[:-1])
            if inner == plain:
                continue
            done += 1
            got, want = answer(copy.deepcopy(stages)), all_sketches(stages)
            try:
                found = [tuple((str(rule), str(stage)) for rule, stage in one) for one in got]
            except (TypeError, ValueError):
                return wrong_type('a list of sketches, each a list of ["tile", "S0"]', got)
            if sorted(found) != sorted(want):
                more, less = set(found) - set(want), set(want) - set(found)
                shown = f"among them {listed(min(more))}" if more else "some of them twice"
                if less and not more:
                    shown = f"without {listed(min(less))}"
                return failed(
                    "wrong-value",
                    expected=f"{len(want)} sketches, among them {listed(min(less or want))}",
                    got=f"{len(found)}, {shown}",
                    case=f"derive({stages})",
                )
        return PASSED

    return Part("property", title, weight, check)


def listed(steps):
    return [list(step) for step in steps]


# --- a mutation ----------------------------------------------------------------------------------

SIZES = ([8, 4, 1], [2, 3], [1, 1, 12, 5], [16, 1], [1, 7, 9], [30, 1, 2])
DRAWS = 400


def primes(n):
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


def neighbours(sizes):
    """Return the reference answers: all results of moving one prime factor to another part."""
    found = set()
    for a, size in enumerate(sizes):
        for p in primes(size):
            for b in range(len(sizes)):
                if a != b:
                    new = list(sizes)
                    new[a], new[b] = new[a] // p, new[b] * p
                    found.add(tuple(new))
    return found


def mutants(answer, sizes, first, draws):
    """Return (results for `draws` seeds, None), or ([], the outcome for a wrong result)."""
    results = []
    for seed in range(first, first + draws):
        got = answer(Kept(list(sizes)), seed)
        if not isinstance(got, list | tuple) or any(type(n) is not int for n in got):
            return [], wrong_type("a list of whole numbers", got)
        results.append(tuple(got))
    return results, None


def legal_children(answer, rng):
    """Check that every result has the given sizes, except for one prime factor that has moved."""
    for sizes in SIZES:
        results, wrong = mutants(answer, sizes, int(rng.integers(10**6)), 20)
        if wrong:
            return wrong
        for got in results:
            if got not in neighbours(sizes):
                return failed(
                    "wrong-value", expected="one prime factor in another part", got=str(list(got)),
                    case=f"mutated({sizes}, seed)",
                    why="divide one part by a prime factor of it, and multiply another part by it",
                )  # fmt: skip
    results, wrong = mutants(answer, [1, 1, 1], 0, 3)
    if wrong:
        return wrong
    if set(results) != {(1, 1, 1)}:
        why = "there is no prime factor that could move"
        return failed("wrong-value", expected="[1, 1, 1]", got=str(list(results[0])), why=why)
    return PASSED


def every_child(answer, rng):
    """Check that each neighbour is a result for some seed."""
    for sizes in SIZES[:4]:
        results, wrong = mutants(answer, sizes, int(rng.integers(10**6)), DRAWS)
        if wrong:
            return wrong
        more, less = set(results) - neighbours(sizes), neighbours(sizes) - set(results)
        if more or less:
            return failed(
                "wrong-value", expected=f"{len(neighbours(sizes))} different results",
                got=f"{len(set(results))}, "
                + (f"without {list(min(less))}" if less else f"among them {list(min(more))}"),
                case=f"mutated({sizes}, seed) for {DRAWS} seeds",
                why="a prime factor may move from each part to each other part; another seed is"
                " another draw",
            )  # fmt: skip
    return PASSED


# --- fusion that fails ---------------------------------------------------------------------------

REASONS = ("output", "readers", "sum", "shape", "index")


def product_stage():
    return {
        "shape": [64, 32],
        "axes": ["i", "j"],
        "sums": ["k"],
        "reads": [["A", ["i", "k"]], ["B", ["k", "j"]]],
    }


def reader_stage(of, reads=(("i", "j"),), shape=(64, 32), sums=()):
    """Return a stage that reads the stage `of` at each place in `reads`, and a bias."""
    return {
        "shape": list(shape),
        "axes": ["i", "j"],
        "sums": list(sums),
        "reads": [[of, list(place)] for place in reads] + [["bias", ["j"]]],
    }


def drawn_stages(rng, reason):
    """Draw stages in which P cannot be fused for `reason`, and perhaps for later REASONS."""
    later = REASONS[REASONS.index(reason) + 1 :] if reason else ()
    also = {r for r in later if rng.random() < 0.4} | {reason}
    shape = [64, 32] if "shape" not in also else [64, 1]
    places = [["i", "j"]]
    if "index" in also:
        odd = (["j", "i"], ["i", "j + 1"], ["i", "0"], ["i", "i"])[int(rng.integers(4))]
        places = [places[0], odd] if rng.random() < 0.5 else [odd]
    elif rng.random() < 0.4:
        places *= 2
    stages = {"P": product_stage()}
    if reason != "output":
        sums = ["k"] if "sum" in also else []
        stages["D"] = reader_stage("P", places, shape, sums)
        if "readers" in also:
            stages["E"] = reader_stage("P")
    stages["other"] = reader_stage("X", [["j", "i"]])
    names = list(stages)
    return {names[n]: stages[names[n]] for n in rng.permutation(len(names)).tolist()}


def reason_of(name, stages):
    """Return the reference answer: the first of REASONS that holds, or "" if none does."""
    readers = [s for s in stages.values() if any(read == name for read, _ in s["reads"])]
    if not readers:
        return "output"
    if len(readers) > 1:
        return "readers"
    (reader,) = readers
    if reader["sums"]:
        return "sum"
    if reader["shape"] != stages[name]["shape"]:
        return "shape"
    places = [place for read, place in reader["reads"] if read == name]
    return "" if all(place == reader["axes"] for place in places) else "index"


def explains(reasons, weight, title):
    """Make a part that checks stages that cannot be fused for the given `reasons`."""

    def check(answer, rng):
        for _ in range(5):
            for n in rng.permutation(len(reasons)).tolist():
                stages = drawn_stages(rng, reasons[n])
                got, want = answer("P", copy.deepcopy(stages)), reason_of("P", stages)
                if not isinstance(got, str):
                    return wrong_type('a reason, such as "sum", or ""', got)
                if got != want:
                    reads = {name: s["reads"] for name, s in stages.items()}
                    return failed(
                        "wrong-value", expected=repr(want), got=repr(got),
                        case=f"stage P; all reads: {reads}",
                        why="the first reason of the table that holds; a stage that reads P twice"
                        " is one reader, and all of its reads count",
                    )  # fmt: skip
        return PASSED

    return Part("property", title, weight, check)


# --- the exercise --------------------------------------------------------------------------------

# --- a rule that wins ----------------------------------------------------------------------------

CACHE = Cache(4096, 64, 8)
TARGET = "llvm -num-cores=1"


def permuted(order, shape):
    """Return A and C, whose element is twice that of A at its own axes in another order."""
    A = te.placeholder([shape[n] for n in order], name="A")
    return A, te.compute(shape, lambda *axes: A(*(axes[n] for n in order)) * 2.0, name="C")


def permutations(rng):
    """Draw an order in which the last index of A is not the last axis of C."""
    order = [[2, 1, 0], [2, 0, 1], [1, 2, 0]][int(rng.integers(3))]
    inner, shape = order[-1], [3, 3, 32]
    shape[inner] = 32
    return (problem(permuted, order, shape),)


def built_in(A, C):
    """Return the best schedule that the rules of the library derive."""
    task = SearchTask(compute_dag=ComputeDAG([A, C]), target=TARGET)
    made = [
        sketch.scheduled(row)
        for sketch in task.sketches
        for row in sketch.space.sample(np.random.default_rng(0), 8).tolist()
    ]
    return min(made, key=lambda s: misses(CACHE)(s, [A, C]))


def tiled(A, C):
    """Return the reference schedule: tiles of 16 x 16 of the two axes that walk along memory."""
    s = te.create_schedule(C.op)
    last = C.op.axis[-1]
    indices = {load.indices[-1] for load in loads(C.op)}
    (inner,) = (a for a in C.op.axis if a in indices)
    (rest,) = (a for a in C.op.axis if a is not last and a is not inner)
    (io, ii), (lo, li) = s[C].split(inner, 16), s[C].split(last, 16)
    s[C].reorder(rest, io, lo, ii, li)
    return s


# --- puzzles -------------------------------------------------------------------------------------


def count_of_neighbours(sizes):
    return len(neighbours(sizes))


def powers_of_two(rng):
    """Draw two to five sizes, each a power of two."""
    return ((2 ** rng.integers(0, 6, int(rng.integers(2, 6)))).tolist(),)


def neighbour_bars(value, arguments):
    """Draw the answer beside the number of neighbours that are counted."""
    bars = {"formula": float(value), "counted": float(count_of_neighbours(*arguments))}
    return viz.ScoreBars(bars, "neighbours")


def longer(first, second):
    return 1e6 * (2.0**-second - 2.0**-first)


def score_bars(value, arguments):
    """Draw the times of both programs, the second one by the answer."""
    first = 1e6 * 2.0 ** -arguments[0]
    bars = {"first": round(first, 1), "second": round(max(0.0, first + value), 1)}
    return viz.ScoreBars(bars, "microseconds of a call")


def smallest(decisions):
    return max(1 + sum(score > scores[0] for score in scores) for scores in decisions)


def drawn_decisions(rng):
    """Draw scores of one to four decisions; the first is that of the best program's prefix."""
    sizes = rng.integers(2, 9, int(rng.integers(1, 5)))
    return ([rng.permutation(np.arange(size) - size / 2).tolist() for size in sizes],)


def rank_bars(value, arguments):
    """Draw the rank of the best program's prefix after each decision, and the answer."""
    ranks = {f"decision {n}": smallest([scores]) for n, scores in enumerate(arguments[0])}
    return viz.ScoreBars(ranks | {"your answer": max(0, value)}, "prefixes that are kept")


PUZZLES = (
    Puzzle(
        "14.neighbours",
        "neighbours of a split",
        "neighbours",
        (
            equal(
                count_of_neighbours, powers_of_two,
                title="as many as are counted", cases=12,
                why="a part of size 1 has no factor to give; the others can give one to any part",
            ),
        ),
        lambda rng: ([4, 1, 2, 32],),
        count_of_neighbours,
        ("How many parts can give a factor of two? To how many other parts can each give it?",),
        "notebook 14, section 5",
        of="value",
        picture=neighbour_bars,
    ),
    Puzzle(
        "14.score",
        "scores and times",
        "longer",
        (
            equal(
                longer, lambda rng: tuple(map(float, rng.uniform(6, 20, 2))), rtol=1e-6, cases=12,
                why="a score is the base-2 logarithm of the calls in a second",
            ),
        ),
        lambda rng: (11.0, 10.0),
        longer,
        ("2 ** score are calls in a second. How many seconds does one call take?",),
        "notebook 14, section 5",
        of="value",
        picture=score_bars,
    ),
    Puzzle(
        "14.beam",
        "the smallest beam",
        "smallest",
        (
            equal(
                smallest, drawn_decisions, cases=12,
                why="a prefix is kept if its rank is at most the beam; the best one has rank 1",
            ),
        ),
        lambda rng: ([[0.5, 1.5, -0.5], [-1.0, 0.0, 1.0, -2.0, 2.0], [1.0, 0.0]],),
        smallest,
        ("How many prefixes have a higher score than the first one? Every decision must keep it.",),
        "notebook 14, section 8",
        of="value",
        picture=rank_bars,
    ),
)  # fmt: skip


# --- the challenge -------------------------------------------------------------------------------

SHAPES = 6
FIXED = {"auto_unroll": 64, "pack_inputs": "no", "unroll_rows": "yes"}
DESCRIBED = Target("llvm -num-cores=1").on(
    vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, l3=32 << 20
)


def product_task(rows, columns, depth):
    """Return the task of a product with a relu, for the machine of the notebook."""
    A, B = te.placeholder((rows, depth), name="A"), te.placeholder((depth, columns), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((rows, columns), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((rows, columns), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return SearchTask(compute_dag=ComputeDAG([A, B, D]), target=DESCRIBED)


def estimated(task, row):
    """Return the microseconds that the analytic model estimates for a row of sketch 1."""
    columns = tune.columns_of(task)
    return 1e6 * 2.0 ** -columns.of(1, np.array([row]))[0, columns.names.index(tune.ANALYTIC)]


def row_of(task, sizes):
    """Return the row with these sizes, or the first of them that is no option, as text."""
    row, tiles = [], dict(zip(("tile_i", "tile_j", "tile_k"), sizes, strict=True))
    for knob in task.sketches[1].space.knobs:
        option = tiles.get(knob.name, FIXED.get(knob.name))
        if option not in knob.options:
            return f"{knob.name} = {option}"
        row.append(knob.options.index(option))
    return row


def microseconds(answer, rng):
    """Add up the estimates for SHAPES drawn products, tiled as the answer says."""
    total = 0.0
    for _ in range(SHAPES):
        shape = tuple(int(n) for n in 2 ** rng.integers(5, 11, 3))
        sizes, case = answer(*shape), f"tiles{shape}"
        if not isinstance(sizes, tuple) or [type(x) for x in sizes] != [tuple] * 3:
            return failed("wrong-type", expected="three tuples", got=f"{sizes!r:.80}", case=case)
        task = product_task(*shape)
        row = row_of(task, sizes)
        if isinstance(row, str):
            why = "a split has the extent as its product, and at most 64 as its last size"
            return failed("wrong-value", expected="an option", got=row, case=case, why=why)
        total += estimated(task, row)
    return round(float(total), 1)


def one_vector(rows, columns, depth):
    """Return the stub: a vector of 16 columns, and no other tile."""
    return (rows, 1, 1, 1), (columns // 16, 1, 1, 16), (depth, 1)


def register_tile(rows, columns, depth):
    """Return the reference: a register tile of 4 x 16."""
    return (rows // 4, 1, 1, 4), (columns // 16, 1, 1, 16), (depth // 16, 16)


EXERCISE = Exercise(
    "ex14",
    "search_without_templates",
    (
        Item(
            "ex14.1",
            "do tiles pay?",
            3,
            "has_reuse",
            (
                pays(True, 0.5, "formulas with a sum"),
                pays(False, 0.5, "formulas without a sum"),
            ),
            (
                "Which elements of A does A[i, k] * B[k, j] read again when j moves on?",
                "An input is read again if it is read without one of the axes. Collect the axes of"
                " all reads of each input first.",
                "seen[name] = the union of the axes of all reads of this input; count the inputs"
                " with wanted - seen[name] not empty, where wanted has the axes with more than one"
                " iteration. True for two of them, or for one and a sum.",
            ),
            "notebook 14, section 2",
        ),
        Item(
            "ex14.2",
            "a derivation",
            5,
            "derive",
            (
                derives(1, 0.5, "chains in which nothing is inlined", plain=True),
                derives(1, 0.5, "chains with stages that are inlined", plain=False),
            ),
            (
                "How many sketches has a product with an elementwise stage after it? And a product"
                " that is the last stage?",
                "Keep a list of unfinished (position, steps). At a position, each rule that holds"
                " makes a new entry; inline is exclusive, so nothing else is made.",
                "The consumer is the first later stage that is not inlined. As the last stage is"
                " never inlined, there is one for every stage but the last. A recursive function"
                " of (position, steps) that returns a list of lists is short.",
            ),
            "notebook 14, sections 1 and 2",
        ),
        Item(
            "ex14.3",
            "a mutation of tile sizes",
            3,
            "mutated",
            (
                Part("property", "one prime factor has moved", 0.5, legal_children),
                Part("property", "every neighbour is drawn", 0.5, every_child),
            ),
            (
                "What are the neighbours of [2, 3]? There are two.",
                "List all possible moves (from, prime, to), and draw one of them. If the list is"
                " empty, return a copy.",
                "For each part a, each prime p that divides it, each part b other than a: one move."
                " np.random.default_rng(seed).integers(len(moves)) draws one; then divide"
                " new[a] by p and multiply new[b] by it.",
            ),
            "notebook 14, section 5",
        ),
        Item(
            "ex14.4",
            "why it is not fused",
            3,
            "blocked",
            (
                explains(("output", "readers", ""), 0.4, "who reads it"),
                explains(("sum", "shape", "index", ""), 0.6, "how it is read"),
            ),
            (
                "Which stages read this one? A stage that reads it twice is one reader.",
                "Go through the table from the top; return at the first reason that holds.",
                "readers = the stages with any(read == name for read, _ in stage['reads']). With"
                " one reader: its sums, its shape, and whether the place of each read of this"
                " stage equals its axes.",
            ),
            "notebook 14, section 2",
        ),
        Item(
            "ex14.5",
            "a rule that wins",
            3,
            "best",
            (
                schedule_correct(
                    permutations, cases=3, weight=0.0, why="a rule splits and reorders, no more"
                ),
                at_most(
                    misses(CACHE),
                    built_in,
                    permutations,
                    factor=0.5,
                    worst=0.999,
                    weight=0.4,
                    title="half the misses of the best candidate of the built-in rules",
                    why="no built-in rule has tiles for it: A is read along another axis than C is"
                    " written, so a cache line is fetched again for every element",
                ),
                at_most(
                    misses(CACHE),
                    tiled,
                    permutations,
                    factor=1.3,
                    worst=3.0,
                    weight=0.6,
                    title="at most 1.3 times the misses of our tiles",
                    why="tile the two axes along which A and C are contiguous in memory, and keep"
                    " the third one outside; compare ten to twenty candidates before you choose",
                ),
            ),
            (
                "Along which axis are neighbours of C adjacent in memory, and along which are those"
                " of A? Tile these two axes.",
                "The condition: no reduce axis, and some load whose last index is not the last"
                " axis. The effect is `tile_both` of the notebook with these two axes; the third"
                " one comes first in the reorder.",
                "inner = load.indices[-1] of the load in tensor.loads(op), last = op.axis[-1]."
                " Then new.s[stage].reorder(rest, inner0, last0, inner1, last1). Draw ten"
                " to twenty rows, and return the sketch.scheduled(row) with the fewest misses.",
            ),
            "notebook 14, section 6",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "14.challenge",
        "a rule of thumb",
        "tiles",
        "estimated microseconds",
        microseconds,
        one_vector,
        register_tile,
        minutes=45,
        best_known=549.8,  # evolution, for each of the six products on its own
        hints=(
            "Two vectors of columns and several rows share what they load. How many sums fit into"
            " 32 registers of 16 numbers, beside what is loaded?",
            "A tile of B that is read again and again should stay in a cache of 32 KiB or 1 MiB:"
            " which sizes does that limit?",
        ),
        section="notebook 14, sections 3 and 4",
    ),
)
