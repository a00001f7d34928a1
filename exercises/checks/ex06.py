# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 06: is it really faster, a packed product on the clock, and vectors in LLVM IR."""

import json
import re
from pathlib import Path

import numpy as np

from minitvm import te, viz
from minitvm.base import Target
from minitvm.codegen import emit_llvm
from minitvm.driver import lower
from minitvm.edu import (
    PASSED,
    Challenge,
    Exercise,
    Fact,
    Item,
    Part,
    Puzzle,
    equal,
    facts,
    failed,
    problem,
    required,
    right_schedule,
    schedule_correct,
    speed,
    wrong_type,
)
from minitvm.tir import Const, For, Load, Store, elements, substitute, walk

# --- is it really faster? ------------------------------------------------------------------------

ROUNDS = 30
PAIRS = 60  # that are judged, for each kind of machine
RECORDED = json.loads(Path(__file__).with_name("ex06_times.json").read_text(encoding="utf-8"))
MACHINES = {name: np.array(times) * 1e-7 for name, times in RECORDED.items() if name != "about"}


def measured(rng, times, gain):
    """Return the times of alternating runs of two programs; the second is faster by `gain`.

    Both lists are every other run of one recording, so the noise is real and the gain is known.
    `gain` is a share of the shortest time recorded, which is the program's time without noise.
    """
    at = int(rng.integers(0, len(times) - 2 * ROUNDS))
    first = int(rng.integers(0, 2))
    piece = times[at : at + 2 * ROUNDS]
    before, after = piece[first::2], piece[1 - first :: 2] - gain * times.min()
    return before.tolist(), after.tolist()


def clear_cases(answer, rng):
    """Check obvious differences, with noise: a quarter of the time, and four times as long."""
    for name, times in MACHINES.items():
        for scale, want in ((0.25, True), (4.0, False)):
            before, after = measured(rng, times, 0.0)
            got = answer(before, [scale * t for t in after])
            if not isinstance(got, bool):
                return wrong_type("True or False", got)
            if got != want:
                case = f"{name}: each run of `after` takes {scale:g} times as long"
                why = "these are seconds: a program is faster if it takes fewer of them"
                return failed("wrong-value", expected=str(want), got=str(got), case=case, why=why)
    return PASSED


def shares(answer, rng, times):
    """Return the shares of pairs called faster: of those that are not, and of those that are.

    The pairs are in random order, so that an answer cannot guess by counting its calls.
    """
    gains = np.concatenate([rng.uniform(-0.02, 0.0, PAIRS), rng.uniform(0.08, 0.3, PAIRS)])
    called = [
        (gain > 0, bool(answer(*measured(rng, times, gain)))) for gain in rng.permutation(gains)
    ]
    return tuple(
        sum(yes for real, yes in called if bool(real) is of) / PAIRS for of in (False, True)
    )


def verdicts(answer, rng):
    """Check for false alarms (at most 5 %) and found gains of 8 to 30 % (at least 80 %)."""
    for name, times in MACHINES.items():
        alarms, found = shares(answer, rng, times)
        if alarms > 0.05:
            return failed(
                "false-alarm",
                expected="at most 5 % of programs that are no faster are called faster",
                got=f"{alarms:.0%}",
                case=name,
                why="of two numbers that differ by noise alone, one is always the smaller one",
            )
        if found < 0.8:
            return failed(
                "missed-gain",
                expected="at least 80 % of gains between 8 and 30 % are found",
                got=f"{found:.0%}",
                case=name,
                why="the median and the mean depend on other programs more than on yours; which"
                " runs were disturbed least?",
                score=max(0.0, (found - 0.2) / 0.6),
            )
    return PASSED


# --- a packed product ----------------------------------------------------------------------------


KINDS = ("nn", "tn", "nt")
MACHINES_DRAWN = ((16, 4), (32, 8))  # registers and lanes


def product(kind, n, depth, m):
    """Return a product with bias and ReLU; `kind` has a letter for A and B, "t" if transposed."""
    A = te.placeholder((depth, n) if kind[0] == "t" else (n, depth), name="A")
    B = te.placeholder((m, depth) if kind[1] == "t" else (depth, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis((0, depth), name="k")

    def term(i, j):
        a = A[k, i] if kind[0] == "t" else A[i, k]
        return a * (B[j, k] if kind[1] == "t" else B[k, j])

    C = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    D = te.compute((n, m), lambda i, j: te.max(C[i, j] + bias[j], 0.0), name="D")
    return A, B, bias, C, D


def products(*kinds, machine=None):
    """Return a function that draws the arguments for one of `kinds` and a machine."""

    def arguments(rng):
        kind = str(rng.choice(kinds))
        registers, lanes = machine or MACHINES_DRAWN[int(rng.integers(len(MACHINES_DRAWN)))]
        return (
            kind, registers, lanes,
            problem(product, kind, *(64 * int(n) for n in rng.integers(1, 4, 3))),
        )  # fmt: skip

    return arguments


def large_products(rng):
    """Draw a large product for the machine that runs the check."""
    target, kind = Target(), str(rng.choice(KINDS))
    m = 64 * int(rng.integers(7, 10))
    registers, lanes = target.vector_registers, target.lanes("float32")
    return kind, registers, lanes, problem(product, kind, 512, 512, m)


def packed(kind, registers, lanes, A, B, bias, C, D):
    """Return the reference schedule: a tile of sums in half of the registers, packed factors."""
    rows, columns = 4, registers // 2 // 4 * lanes
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    io, jo, ii, ji = s[D].tile(*s[D].leaf_iter_vars, rows, columns)
    s[D].reorder(jo, io, ii, ji)
    s[D].unroll(ii)
    s[D].vectorize(ji)
    s[C].compute_at(s[D], io)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(k, i, j)
    s[C].unroll(i)
    s[C].vectorize(j)
    pack(s, A, C, D, kind[0] == "t", rows, io)
    pack(s, B, C, D, kind[1] == "n", columns, jo)
    return s


def pack(s, factor, C, D, data, size, at):
    """Copy `factor` in pieces of `size` along its index number `data`, at a loop of D."""
    copy = s.cache_read(factor, "global", [C])
    s[copy].transform_layout(lambda y, x: ((y, x)[data] // size, (x, y)[data], (y, x)[data] % size))
    s[copy].compute_at(s[D], at)


def multiply_adds(loops):
    """Return the stores C[i, j] = C[i, j] + ..."""
    found = [n for n in walk(loops.body) if isinstance(n, Store)]
    return [n for n in found if any(b is n.buffer for b in read_by(n))]


def read_by(store):
    return [n.buffer for n in walk(store.value) if isinstance(n, Load)]


def reads_packed_copies(loops):
    """Check that multiply-adds read copies of A and B in which a tile's factors are neighbours."""
    sums = multiply_adds(loops)
    return bool(sums) and all(is_packed(loops, n, x) for n in sums for x in factors(n))


def factors(store):
    """Return the loads of a multiply-add other than that of its sum, or [store] if it has none."""
    found = [n for n in walk(store.value) if isinstance(n, Load) and n.buffer is not store.buffer]
    return found or [store]


def is_packed(loops, store, load):
    """Return whether some loop over the tile of sums reads consecutive elements of a copy."""
    if load.buffer.name in ("A", "B"):
        return False
    counters = [n.var for n in walk(loops.body) if isinstance(n, For)]
    start = dict.fromkeys(counters, 0)
    return any(
        address(load, {**start, v: 1}) - address(load, start) == 1
        and address(store, {**start, v: 1}) != address(store, start)
        for v in counters
    )


def address(access, values):
    """Return the offset of an element in its buffer for the given values of loop variables."""
    place = 0
    for size, index in zip(access.buffer.shape, access.indices, strict=True):
        at = substitute(index, values)
        place = place * size + (at.value if isinstance(at, Const) else at)
    return place


def sums_in_registers(count):
    """Return a check that multiply-adds update a local buffer of `count` numbers."""

    def holds(loops):
        sums = multiply_adds(loops)
        return bool(sums) and all(
            n.buffer.scope == "local" and elements(n.buffer) == count for n in sums
        )

    return holds


def is_packed_for(kind):
    """Make a part that checks the packing for one kind of product."""
    names = " times ".join(
        f"{x} transposed" if k == "t" else x for x, k in zip("AB", kind, strict=True)
    )
    fact = Fact(
        "packed",
        "multiply-adds read copies of A and of B, in which the factors of a tile are neighbours",
        reads_packed_copies,
        "notebook 00 packs B alone, and so does topi.schedule. Both factors need cache_read and"
        " transform_layout: for one k, the numbers of a tile follow each other, whichever index of"
        " the matrix they lie along",
    )
    title = f"both factors are packed: {names}"
    return required(
        facts(products(kind), (fact,), of="loops", until="nest", title=title, weight=0.1)
    )


def half_of_the_registers(registers, lanes):
    """Make a part that checks the size of the tile of sums for one machine."""
    count = registers // 2 * lanes
    fact = Fact(
        "registers",
        f"multiply-adds add to a local tile of {count} numbers, half of {registers} registers of"
        f" {lanes} lanes",
        sums_in_registers(count),
        's[C].set_scope("local") and compute_at make the sums a tile of their own; its size follows'
        " from the registers and lanes that your function gets, not from this machine",
    )
    title = f"sums in half of the registers: {registers} registers of {lanes} lanes"
    drawn = products(*KINDS, machine=(registers, lanes))
    return required(facts(drawn, (fact,), of="loops", until="nest", title=title, weight=0.1))


# --- vectors in LLVM IR --------------------------------------------------------------------------

LANES = 4


def weighted(n, rows, depth):
    M = te.placeholder((n, rows, depth), name="M")
    v = te.placeholder((rows, depth), name="v")
    r, k = te.reduce_axis((0, rows), name="r"), te.reduce_axis((0, depth), name="k")
    y = te.compute((n,), lambda i: te.sum(M[i, r, k] * v[r, k], axis=[r, k]), name="y")
    return M, v, y


def matrices(rng):
    n, depth = (int(x) for x in rng.integers(3, 9, 2))
    return (problem(weighted, 8 * n, int(rng.integers(3, 7)), 16 * depth),)


def four_partial_sums(loops):
    """Check that a buffer other than y sums products, in vectorized loops of LANES iterations."""
    wide = [n for n in walk(loops.body) if isinstance(n, For) and n.kind == "vectorize"]
    sums = [n for n in multiply_adds(loops) if len(factors(n)) == 2]
    inside = {id(x) for n in wide if n.extent == LANES for x in walk(n.body)}
    return bool(sums) and all(id(n) in inside and n.buffer.name != "y" for n in sums)


def text_of(loops):
    """Return the LLVM IR for a machine with vectors of LANES numbers."""
    return emit_llvm(loops, vector_bytes=4 * LANES)


def multiplies_vectors(loops):
    text = text_of(loops)
    return (
        bool(re.search(r"fmul contract <\d+ x float>", text)) and "fmul contract float" not in text
    )


def loads_neighbours(loops):
    text = text_of(loops)
    return len(re.findall(r" = load <\d+ x float>", text)) >= 2 and "gather" not in text


# --- puzzles -------------------------------------------------------------------------------------


EIGHT = Target("llvm -num-cores=1").on(vector_bytes=32, vector_registers=16)


def scaled(rows, columns):
    T, v = te.placeholder((rows, columns), name="T"), te.placeholder((rows,), name="v")
    return T, v, te.compute((rows, columns), lambda i, j: T[i, j] * v[i], name="G")


def some_rows(rng):
    return (problem(scaled, *(8 * int(n) for n in rng.integers(2, 6, 2))),)


def along_rows(s, G):
    s[G].vectorize(s[G].split(G.op.axis[1], factor=8)[1])


def no_gather(loops):
    text = emit_llvm(loops, vector_bytes=32)
    return "fmul contract float" not in text and "gather" not in text and "scatter" not in text


def accesses_of(s, tensors):
    """Return (loads and stores, gathers and scatters) of a run; a vector of 8 counts once."""
    loops = lower(s, tensors, target=EIGHT)
    text = emit_llvm(loops, vector_bytes=32).split("\n\n")[0]
    count = 1
    for n in walk(loops.body):
        count *= n.extent if isinstance(n, For) and n.kind != "vectorize" else 1
    lines = text.splitlines()
    apart = sum("masked.gather" in line or "masked.scatter" in line for line in lines)
    plain = sum(" = load " in line or line.strip().startswith("store ") for line in lines)
    return count * plain, count * apart


def visits_of_memory(s, tensors):
    """Count the accesses; one with eight addresses counts eight times."""
    plain, apart = accesses_of(s, tensors)
    return plain + 8 * apart


def draw_accesses(s, tensors):
    plain, apart = accesses_of(s, tensors)
    return viz.ScoreBars(
        {"loads and stores": plain, "gathers and scatters": apart}, "lines of LLVM that are run"
    )


def some_shares(rng):
    return round(float(rng.uniform(0.05, 0.85)), 3), float(rng.choice([0.1, 0.05, 0.01, 0.001]))


def runs_needed(clean, risk):
    """Return the least number of runs of which none is clean with a chance of `risk` at most."""
    return int(np.ceil(np.log(risk) / np.log(1 - clean)))


def draw_chances(runs, arguments):
    clean, _ = arguments
    chances = {f"{n} runs": round(100 * (1 - clean) ** n, 1) for n in (int(runs), 1, 5, 10, 20)}
    return viz.ScoreBars(chances, "percent of the draws without a clean run")


def some_registers(rng):
    return (int(rng.integers(6, 129)),)


def widest(registers):
    """Return the width w of a tile with 4 w sums, w vectors of B, and one number of A."""
    return (registers - 1) // 5


def loads_of(w, registers):
    """Return the loads and stores for each multiply-add; a spilled register costs one of each."""
    spilled = max(0, 5 * w + 1 - registers)
    return round((w + 4 + 2 * spilled) / (4 * w), 3)


def draw_registers(w, arguments):
    needed = {"needed": 5 * int(w) + 1, "sums": 4 * int(w), "of the machine": arguments[0]}
    return viz.ScoreBars(needed, "registers")


# --- the challenge -------------------------------------------------------------------------------

VECTOR, REGISTERS = 8, 12  # numbers of a vector; vectors of local buffers that stay in registers
UNROLLED = "unroll", "vectorize"


def filtered(channels, inputs, taps, length):
    x = te.placeholder((inputs, length + taps - 1), name="x")
    w = te.placeholder((channels, inputs, taps), name="w")
    d, t = te.reduce_axis((0, inputs), name="d"), te.reduce_axis((0, taps), name="t")
    y = te.compute(
        (channels, length), lambda c, i: te.sum(x[d, i + t] * w[c, d, t], axis=[d, t]), name="y"
    )
    return x, w, y


def loads_and_stores(s, tensors):
    """Count the loads and stores of a run on a machine with vectors of VECTOR numbers.

    A vector of neighbours, or of one number, is one access; others are one for each number. Local
    buffers of REGISTERS vectors in all are free if their loops are unrolled or vectorized.
    """
    body = lower(s, tensors, until="nest").body
    loops, counts, movable = {}, {}, set()
    for loop in (n for n in walk(body) if isinstance(n, For)):
        for n in walk(loop.body):
            loops.setdefault(id(n), []).append(loop)
    for n in walk(body):
        if isinstance(n, Load | Store):
            around = loops.get(id(n), [])
            steps = [step_of(n, loop, around) for loop in around]
            counts[n.buffer] = counts.get(n.buffer, 0) + repeats(around, steps)
            if any(k and loop.kind not in UNROLLED for loop, k in zip(around, steps, strict=True)):
                movable.add(n.buffer)
    local = {b for b in counts if b.scope == "local" and b not in movable}
    free = local if sum(-(-elements(b) // VECTOR) for b in local) <= REGISTERS else ()
    return sum(count for buffer, count in counts.items() if buffer not in free)


def step_of(access, loop, around):
    start = {each.var: 0 for each in around}
    return address(access, {**start, loop.var: 1}) - address(access, start)


def repeats(loops, steps):
    """Return how often an access is made in loops that move its address by `steps`.

    Innermost unrolled loops that leave the address as it is repeat nothing, up to REGISTERS
    iterations.
    """
    count, block = 1, 1
    for loop, step in zip(reversed(loops), reversed(steps), strict=True):
        if loop.kind == "vectorize":
            vectors = -(-loop.extent // VECTOR)
            count *= {0: 1, 1: vectors}.get(step, loop.extent)
            continue
        block *= loop.extent if loop.kind == "unroll" else REGISTERS + 1
        count *= 1 if step == 0 and block <= REGISTERS else loop.extent
    return count


def filter_loads(answer, rng):
    """Count the loads and stores of the schedule; drawn lengths are multiples of 32."""
    channels, inputs, taps = 12 * int(rng.integers(1, 4)), *(int(n) for n in rng.integers(3, 6, 2))
    args = (problem(filtered, channels, inputs, taps, 32 * int(rng.integers(2, 6))),)
    s, tensors = right_schedule(answer, args, rng)
    return loads_and_stores(s, tensors)


def in_vectors(x, w, y):
    s = te.create_schedule(y.op)
    c, i, d, t = s[y].leaf_iter_vars
    io, ii = s[y].split(i, factor=8)
    s[y].reorder(c, io, d, t, ii)
    s[y].vectorize(ii)
    return s


def two_by_two(x, w, y):
    """Return the reference: tiles of two channels and two vectors."""
    s = te.create_schedule(y.op)
    tile = s.cache_write(y, "local")
    _, io, ci, ii = s[y].tile(*s[y].leaf_iter_vars, 2, 16)
    s[y].unroll(ci)
    s[y].vectorize(ii)
    s[tile].compute_at(s[y], io)
    c, i, d, t = s[tile].leaf_iter_vars
    s[tile].reorder(d, t, c, i)
    s[tile].unroll(c)
    s[tile].vectorize(i)
    return s


EXERCISE = Exercise(
    "ex06",
    "cpu_codegen_and_measuring",
    (
        Item(
            "ex06.1",
            "is it really faster?",
            6,
            "faster",
            (
                Part("correctness", "right where the difference is obvious", 0.1, clear_cases),
                Part("property", "gains, and no false alarms, in three recordings", 0.9, verdicts),
            ),
            (
                "Try the mean, the median and the minimum on pairs of equal programs. How often"
                " does each say 'faster'?",
                "Noise only adds time, so the smallest times are the cleanest. But two minima are"
                " never quite equal: ask for a margin.",
                "min(after) < 0.96 * min(before).",
            ),
            "notebook 06, section 4",
        ),
        Item(
            "ex06.2",
            "three packed layers, on the clock",
            6,
            "product",
            (
                schedule_correct(
                    products(*KINDS),
                    cases=3,
                    weight=0.0,
                    rtol=1e-3,
                    atol=1e-3,
                    why="sizes are multiples of 64",
                ),
                *(is_packed_for(kind) for kind in KINDS),
                *(half_of_the_registers(*machine) for machine in MACHINES_DRAWN),
                speed(
                    packed,
                    large_products,
                    title="at most 1.2 times the time of ours, on one core",
                    weight=0.5,
                    why="a tile that is too small loads too much, one that is too large does not"
                    " fit into the registers",
                ),
            ),
            (
                "It is steps 3 and 4 of notebook 00, and the same packing for A. Here D comes after"
                " the sums: which stage is tiled, and which one lives in a tile?",
                "Four rows; as many columns as fit into half of the registers: registers // 2 // 4"
                " * lanes. One function of your own can pack either factor, if it gets as arguments"
                " which index runs along the tile, and how many of its numbers belong together.",
                's[C].set_scope("local"), computed at io of D. A copy of A is computed at io, in'
                " pieces of 4 along i; one of B at jo, in pieces of `columns` along j:"
                " transform_layout(lambda y, x: ((y, x)[d] // size, (x, y)[d], (y, x)[d] % size)),"
                " where d is 0 or 1.",
            ),
            "notebook 06, section 5, and notebook 00, steps 3 and 4",
        ),
        Item(
            "ex06.3",
            "a sum in vectors",
            3,
            "sums",
            (
                schedule_correct(matrices, weight=0.0, why="the partial sums must be added up"),
                required(
                    facts(
                        matrices,
                        (
                            Fact(
                                "partial",
                                "products are added to partial sums, in vectorized loops of"
                                f" {LANES} iterations",
                                four_partial_sums,
                                "a loop over a reduce axis cannot be vectorized before rfactor;"
                                f" there must be {LANES} partial sums, whatever suits a machine",
                            ),
                        ),
                        of="loops",
                        until="nest",
                        title=f"{LANES} partial sums for each row",
                        weight=0.3,
                    )
                ),
                facts(
                    matrices,
                    (
                        Fact(
                            "multiplies",
                            "the LLVM IR multiplies vectors, and no single numbers",
                            multiplies_vectors,
                            "the vectorized loop must be around all products",
                        ),
                        Fact(
                            "loads",
                            "M and v are loaded as vectors of neighbours: no gather",
                            loads_neighbours,
                            "lanes along i or r are whole rows apart; neighbours lie along k",
                        ),
                    ),
                    of="loops",
                    title="vectors in LLVM IR",
                    weight=0.7,
                ),
            ),
            (
                "Which index of M has its neighbours in memory? It is summed over.",
                "Notebook 05, section 5: rfactor makes a data axis of a piece of the sum. Which of"
                " the two reduce axes is to be split?",
                f"Split k, the second reduce axis, by {LANES}, rfactor the inner part with"
                " factor_axis=1, and in the new stage reorder its two reduce axes outside and"
                " vectorize its axis 1.",
            ),
            "notebook 06, section 2, and notebook 05, section 5",
        ),
    ),
    puzzles=(
        Puzzle(
            "06.neighbours",
            "no gather",
            "no_gather",
            (
                schedule_correct(some_rows),
                facts(
                    some_rows,
                    (
                        Fact(
                            "neighbours",
                            "vectors of neighbours: no single product, no gather, no scatter",
                            no_gather,
                            "eight lanes along i are in eight rows of T",
                        ),
                    ),
                    of="loops",
                ),
            ),
            lambda rng: (problem(scaled, 32, 32),),
            along_rows,
            (
                "Which of the two axes has neighbours in memory, in T and in G?",
                "s[G].split(axis, factor=8) returns two loops; vectorize the second of them.",
            ),
            "notebook 06, section 2",
            picture=draw_accesses,
            cost=visits_of_memory,
            unit="addresses visited",
        ),
        Puzzle(
            "06.runs",
            "how many runs?",
            "runs_needed",
            (
                equal(
                    runs_needed,
                    some_shares,
                    cases=20,
                    why="none of n runs is clean with a chance of (1 - clean) ** n",
                ),
            ),
            lambda rng: (0.25, 0.01),
            runs_needed,
            (
                "(1 - clean) ** n <= risk: take the logarithm of both sides. That of a number below"
                " 1 is negative.",
                "A number of runs is whole: int(np.ceil(...)).",
            ),
            "notebook 06, section 4",
            of="value",
            picture=draw_chances,
            cost=lambda runs, arguments: runs,
            unit="runs",
        ),
        Puzzle(
            "06.registers",
            "the widest tile that fits",
            "widest",
            (equal(widest, some_registers, cases=20, why="4 w sums, w vectors of B, 1 of A"),),
            lambda rng: (32,),
            widest,
            ("5 w + 1 <= registers; // rounds down.",),
            "notebook 06, section 5",
            of="value",
            picture=draw_registers,
            cost=lambda w, arguments: loads_of(w, arguments[0]),
            unit="loads and stores for each multiply-add",
        ),
    ),
    challenge=Challenge(
        "06.challenge",
        "a filter with few loads and stores",
        "filtered",
        "loads and stores",
        filter_loads,
        in_vectors,
        two_by_two,
        best_known=7440,  # tiles of 3 channels and 4 vectors, the best of all that have 12 vectors
        hints=(
            "Each number that is loaded should serve several sums. Which loads of x and of w does a"
            " tile of c channels and v vectors need for one d and one t?",
            "A local tile counts as registers only if its loops are unrolled or vectorized, and if"
            " it has at most 12 vectors.",
        ),
        section="notebook 06, sections 2 and 5",
    ),
)
