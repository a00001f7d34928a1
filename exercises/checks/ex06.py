# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 06: is it really faster, a packed product on the clock, and vectors in LLVM's text."""

import json
import re
from pathlib import Path

import numpy as np

from minitvm import te
from minitvm.base import Target
from minitvm.codegen import emit_llvm
from minitvm.edu import (
    PASSED,
    Exercise,
    Fact,
    Item,
    Part,
    facts,
    failed,
    problem,
    required,
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
                why="where other programs disturb, the middle of the times says more about them"
                " than about yours; which runs were disturbed least?",
                score=max(0.0, (found - 0.2) / 0.6),
            )
    return PASSED


# --- a packed product ----------------------------------------------------------------------------


def product(n, depth, m):
    A = te.placeholder((n, depth), name="A")
    B = te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def products(rng):
    return (problem(product, *(64 * int(n) for n in rng.integers(1, 4, 3))),)


def large_products(rng):
    return (problem(product, 512, 512, 64 * int(rng.integers(7, 10))),)


def packed(A, B, C):
    """Return the reference schedule: step 4 of notebook 00, with A packed into panels, too."""
    target = Target()
    rows = 4
    columns = target.vector_registers // 2 // rows * target.lanes(C.dtype)
    s = te.create_schedule(C.op)
    C_local = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].leaf_iter_vars, rows, columns)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C_local].compute_at(s[C], io)
    i, j, k = s[C_local].leaf_iter_vars
    s[C_local].reorder(k, i, j)
    s[C_local].unroll(i)
    s[C_local].vectorize(j)
    strip = s.cache_read(B, "global", [C_local])
    s[strip].transform_layout(lambda k, j: (j // columns, k, j % columns))
    s[strip].compute_at(s[C], jo)
    s[strip].vectorize(s[strip].leaf_iter_vars[1])
    panel = s.cache_read(A, "global", [C_local])
    s[panel].transform_layout(lambda i, k: (i // rows, k, i % rows))
    s[panel].compute_at(s[C], io)
    return s


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


def sums_in_registers(loops):
    """Check that multiply-adds update a small local buffer."""
    sums = multiply_adds(loops)
    return bool(sums) and all(
        n.buffer.scope == "local" and elements(n.buffer) * n.buffer.dtype.bytes <= 4096
        for n in sums
    )


# --- vectors in LLVM's text ----------------------------------------------------------------------

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
                Part("correctness", "right where it is plain to see", 0.1, clear_cases),
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
            "a packed product, on the clock",
            6,
            "product",
            (
                schedule_correct(
                    products, weight=0.0, rtol=1e-3, atol=1e-3, why="sizes are multiples of 64"
                ),
                required(
                    facts(
                        products,
                        (
                            Fact(
                                "packed",
                                "multiply-adds read copies of A and of B, in which the factors of"
                                " a tile are neighbours",
                                reads_packed_copies,
                                "notebook 00 packs B alone, and so does topi.schedule. A needs"
                                " cache_read and transform_layout, too: for one k, the rows of a"
                                " tile follow each other",
                            ),
                        ),
                        of="loops",
                        until="nest",
                        title="both factors are packed",
                        weight=0.25,
                    )
                ),
                facts(
                    products,
                    (
                        Fact(
                            "registers",
                            "multiply-adds add to a local tile of 4096 bytes at most",
                            sums_in_registers,
                            'cache_write(C, "local") gives the sums a place of their own, and'
                            " compute_at makes it a tile",
                        ),
                    ),
                    of="loops",
                    until="nest",
                    title="the sums stay in registers",
                    weight=0.25,
                ),
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
                "It is steps 3 and 4 of notebook 00, and the same packing for A. Which sizes does"
                " your machine want?",
                "Four rows; as many columns as fit into half of the registers:"
                " target.vector_registers // 2 // 4 * target.lanes(C.dtype). Panels of A hold the"
                " four rows of a tile: which index of A has to be the last one in their layout?",
                "register_tile(columns) and packed(columns) of notebook 00, in one function, with"
                " those columns; then panel = s.cache_read(A, 'global', [tile]) with the layout"
                " lambda i, k: (i // 4, k, i % 4), computed at io.",
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
                                f" {LANES} partial sums are asked for, whatever a machine likes",
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
                            "LLVM's text multiplies vectors, and no single numbers",
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
                    title="vectors in the text that LLVM gets",
                    weight=0.7,
                ),
            ),
            (
                "Which index of M has its neighbours in memory? It is summed over.",
                "Notebook 05, section 5: rfactor makes a data axis of a piece of the sum. Which of"
                " the two reduce axes is to be cut?",
                f"Split k, the second reduce axis, by {LANES}, rfactor the inner part with"
                " factor_axis=1, and in the new stage reorder its two reduce axes outside and"
                " vectorize its axis 1.",
            ),
            "notebook 06, section 2",
        ),
    ),
)
