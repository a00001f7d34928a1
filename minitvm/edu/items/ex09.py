# pyright: basic
# (problems are sent to students' processes as they stand, without types)

"""Exercise 09: tokens placed by hand, tiles for two threads, and a stream that stands still."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np

from minitvm import te, vta
from minitvm.accel import Program, explain, parse, simulate, strip_tokens, text
from minitvm.base import TVMError

from ..item import PASSED, Answer, Exercise, Item, Outcome, Part, Rng, failed

# --- tokens by hand ------------------------------------------------------------------------------

# a load takes 10 cycles, a gemm of one micro-operation 10
TEN = replace(vta.Config(name="ten", issue=0, dma_row=0, token_latency=0), dma_latency=8, fill=9)
TOKENS = re.compile(r"(\s+(pop|push) (ld|ex|st))*\s*$")


def head(steps, threads):
    """What is there before the first load, without tokens."""
    return [
        f"area A inp {steps} {threads}",
        "area W wgt 1",
        f"area C out {threads}",
        *(f"uop {t} {t} 0" for t in range(threads)),
        f"ex  uop[0] = uops[0] x={threads}",
        f"ex  reset u[0:{threads}]",
        "ld  wgt[0] = W[0] x=1",
    ]


def stream(steps, threads):
    """The instructions that are asked for, with tokens."""
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    lines += ["ld  nop   pop ex"] * threads
    lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
    return [*lines, "ex  nop   pop st"]


def bodies(lines):
    """How often each instruction occurs, tokens and nops left out."""
    found = Counter(" ".join(TOKENS.sub("", line).split()) for line in lines)
    return Counter({body: n for body, n in found.items() if not body.endswith("nop")})


def assembled(lines: list[str], steps: int, threads: int) -> Program:
    return parse("\n".join([*head(steps, threads), *lines, "ex  finish"]))


def drawn(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(2, 7)), int(rng.integers(2, 4))


def fault(program: Program) -> tuple[str, str]:
    """What the verifier finds first: a message id and a sentence; empty if nothing."""
    verdict = vta.verify(program, TEN)
    if verdict.ok:
        return "", ""
    found = (
        "deadlock" if verdict.deadlock else "leak" if verdict.leaks else
        "race" if verdict.races else "hazard"
    )  # fmt: skip
    lines = explain(program, verdict).split("\n")
    return found, next((line for line in lines if line.startswith(found)), lines[0])


WHY = {
    "deadlock": "some pop has no push: the first load of each thread, too, waits for a free place",
    "leak": "some push has no pop: what the last gemms push has to be taken before the end",
    "race": "a gemm waits for its load, the next load into the same place for that gemm, the store"
    " for the last gemm, and the end for the store",
    "hazard": "an accumulator is read again too soon",
}


def same_numbers(program: Program, steps: int, threads: int, rng: Rng) -> str:
    """The first wrong sum in words; empty if all are right."""
    a = rng.integers(-4, 5, (steps, threads, 1, 16)).astype("int8")
    w = rng.integers(-1, 2, (1, 16, 16)).astype("int8")
    got = simulate(program, TEN, {"A": a, "W": w}).outputs["C"]
    want = (a.astype("int32").sum(0) @ w[0].T.astype("int32")).astype("int8")
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return ""
    at = tuple(wrong[0].tolist())
    return f"C{list(at)}: got {got[at]}, want {want[at]}"


def right_tokens(answer: Answer, rng: Rng) -> Outcome:
    """The instructions that were asked for, each once, ordered by tokens, with the right sums."""
    for _ in range(4):
        steps, threads = drawn(rng)
        lines, where = answer(steps, threads), f"lower({steps}, {threads})"
        if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
            return failed("wrong-type", expected="a list of lines", got=repr(lines)[:80])
        if longest := max((x for x in lines if len(x) > 100), default=""):
            return failed("wrong-type", expected="short lines", got=longest[:80])
        wanted, given = bodies(stream(steps, threads)), bodies(lines)
        if wanted != given or len(lines) > 20 * (steps + 1) * threads:
            odd = next(iter((wanted - given) + (given - wanted)), "nop")
            return failed(
                "other-instructions", expected=f"{wanted[odd]} times `{odd}`",
                got=f"{given[odd]} times", where=where, why="tokens only, and nops that carry them",
            )  # fmt: skip
        program = assembled(lines, steps, threads)
        found, said = fault(program)
        if found:
            return failed(found, expected="ok", got=said, where=where, why=WHY[found])
        if wrong := same_numbers(program, steps, threads, rng):
            why = "an instruction of some thread comes too early or too late"
            return failed(
                "wrong-value", expected="the sums of numpy", got=wrong, where=where, why=why
            )
    return PASSED


def few_cycles(answer: Answer, rng: Rng) -> Outcome:
    """At most 1.05 times the cycles of the reference."""
    for steps, threads in ((16, 2), (8, 3)):
        cycles, best = (
            simulate(assembled(lines, steps, threads), TEN).cycles
            for lines in (answer(steps, threads), stream(steps, threads))
        )
        if cycles > 1.05 * best:
            score = best / cycles if cycles < 1.3 * best else 0.0
            return failed(
                "too-many-cycles",
                expected=f"at most {1.05 * best:.0f} cycles",
                got=f"{cycles} cycles",
                where=f"lower({steps}, {threads}), load and gemm of 10 cycles",
                why="somebody waits without need: a load has to wait for the gemm that read its own"
                " place, and for no other",
                score=score,
            )
    return PASSED


# --- tiles for two threads -----------------------------------------------------------------------

LEAST = {(256, 32, 32): 0.9, (128, 16, 64): 0.92, (2, 16, 16): 0.048}


def multiply(rows, columns, depth, tile_rows, tile_columns, threads, along):
    """C = A @ B.T on the accelerator; sizes of columns and depth in blocks of 16."""
    env = vta.get_env()
    A = te.placeholder((rows, depth, 1, 16), name="A", dtype="int8")
    B = te.placeholder((columns, depth, 16, 16), name="B", dtype="int8")
    A_buf, B_buf = te.compute(A.shape, A, name="A_buf"), te.compute(B.shape, B, name="B_buf")
    ko, ki = te.reduce_axis((0, depth), name="ko"), te.reduce_axis((0, 16), name="ki")

    def product(y, x, yi, xi):
        a, b = A_buf[y, ko, yi, ki].astype("int32"), B_buf[x, ko, xi, ki].astype("int32")
        return te.sum(a * b, axis=[ko, ki])

    C_buf = te.compute((rows, columns, 1, 16), product, name="C_buf")
    C = te.compute(C_buf.shape, lambda *i: C_buf(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].leaf_iter_vars
    yo, y = s[C].split(y, factor=tile_rows)
    xo, x = s[C].split(x, factor=tile_columns)
    s[C].reorder(yo, xo, y, x)
    if threads > 1:
        if along == "rows":
            yo, thread = s[C].split(yo, factor=threads)
        else:
            xo, thread = s[C].split(xo, factor=threads)
        s[C].reorder(thread, yo, xo)
        s[C].bind(thread, te.thread_axis("cthread"))
    s[C].pragma(y, env.dma_copy)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].compute_at(s[C], xo)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[stage].set_scope(scope)
        s[stage].compute_at(s[C_buf], ko)
        s[stage].pragma(s[stage].leaf_iter_vars[0], env.dma_copy)
    y, x, yi, xi, *_ = s[C_buf].leaf_iter_vars
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, env.gemm)
    return vta.build(s, [A, B, C])


def well_used(sizes: tuple[int, int, int], why: str) -> Part:
    """A tiling that uses the matrix unit as much as LEAST says."""
    rows, columns, _ = sizes

    def check(answer: Answer, rng: Rng) -> Outcome:
        got = answer(*sizes)
        if not is_tiling(got, rows, columns):
            wanted = (
                "(tile_rows, tile_columns, threads, 'rows' or 'columns'), and all of it divides"
            )
            return failed("wrong-type", expected=wanted, got=repr(got)[:80])
        where = f"choose{sizes} = {got}"
        try:
            share = multiply(*sizes, *got).run().utilisation
        except TVMError as error:
            said = str(error).split("\n")[0]
            return failed("refused", expected="a tiling that fits", got=said, where=where, why=why)
        if share >= LEAST[sizes]:
            return PASSED
        score = share / LEAST[sizes] if share > 0.8 * LEAST[sizes] else 0.0
        expected, found = f"at least {LEAST[sizes]:.1%}", f"{share:.1%}"
        return failed(
            "too-little-use", expected=expected, got=found, where=where, why=why, score=score
        )

    return Part("property", f"{sizes}: the matrix unit is used {LEAST[sizes]:.1%}", 1 / 3, check)


def is_tiling(got, rows: int, columns: int) -> bool:
    """Does it divide, and are there at most 8 threads?"""
    if not isinstance(got, list | tuple) or len(got) != 4:
        return False
    tile_rows, tile_columns, threads, along = got
    if along not in ("rows", "columns") or not all(
        type(n) is int and n > 0 for n in (tile_rows, tile_columns, threads)
    ):
        return False
    tiles = rows // tile_rows if along == "rows" else columns // tile_columns
    divides = rows % tile_rows == 0 and columns % tile_columns == 0
    return divides and threads <= 8 and tiles >= 1 and tiles % threads == 0


# --- a stream that stands still ------------------------------------------------------------------


def one_push_less(rng: Rng) -> str:
    """A good stream that has lost one push."""
    steps, threads = drawn(rng)
    lines = [*head(steps, threads), *stream(steps, threads), "ex  finish"]
    pushing = [n for n, line in enumerate(lines) if "push" in line]
    n = pushing[int(rng.integers(0, len(pushing)))]
    lines[n] = re.sub(r"\s+push \w+", "", lines[n])
    return "\n".join(lines)


def tokens(program: Program) -> set[tuple[int, str]]:
    """Who pops and who pushes: (5, "push_prev") for the instruction with number 5."""
    return {
        (n, flag)
        for n, instruction in enumerate(program.instructions)
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
        if getattr(instruction.flags, flag)
    }


def repaired(answer: Answer, rng: Rng) -> Outcome:
    """The same program with one push more, and the verifier has nothing to say."""
    for n in range(4):
        given = one_push_less(rng)
        got, where = answer(given), f"case {n + 1}"
        if not isinstance(got, str) or len(got) > 2 * len(given):
            return failed("wrong-type", expected="the text of a program", got=repr(got)[:80])
        program, before = parse(got), parse(given)
        if text(strip_tokens(program)) != text(strip_tokens(before)):
            expected, why = "the same instructions", "only a push is missing"
            return failed(
                "other-instructions", expected=expected, got="others", where=where, why=why
            )
        more, less = tokens(program) - tokens(before), tokens(before) - tokens(program)
        if less or len(more) > 1:
            told = f"{len(more)} more, {len(less)} less"
            why = "all that is there is needed, and there is one push too few"
            return failed("other-tokens", expected="1 more", got=told, where=where, why=why)
        found, said = fault(program)
        if found:
            return failed(found, expected="ok", got=said, where=where, why=WHY[found])
    return PASSED


EXERCISE = Exercise(
    "ex09",
    "latency_hiding",
    (
        Item(
            "ex09.1",
            "tokens for threads",
            6,
            "lower",
            (
                Part(
                    "correctness",
                    "no deadlock, no race, no leak, the right sums",
                    0.5,
                    right_tokens,
                ),
                Part(
                    "property",
                    "loads are hidden: at most 1.05 times the best cycles",
                    0.5,
                    few_cycles,
                ),
            ),
            (
                "Write the program of one thread first: who waits for whom? Then let each line"
                " stand once for each thread.",
                "For each thread one `ex  nop   push ld` before the loop and one `ld  nop   pop ex`"
                " after it. Each load pops from ex and pushes to it, each gemm pops from ld and"
                " pushes to it.",
                "In each step first the loads of all threads, then the gemms of all threads. The"
                " store needs a push from ex after the last gemm, and at the end"
                " `ex  nop   pop st` waits for it.",
            ),
            "notebook 09, sections 1 to 3",
        ),
        Item(
            "ex09.2",
            "tiles and threads",
            6,
            "choose",
            (
                well_used(
                    (256, 32, 32),
                    "two threads, and tiles as large as fit twice: each of them may have 1024"
                    " accumulators",
                ),
                well_used(
                    (128, 16, 64),
                    "one of two threads gets half of the rows, or half of the columns; a long and"
                    " narrow tile uses what it has fetched less often",
                ),
                well_used(
                    (2, 16, 16),
                    "main memory is the limit here; a second thread only loads more",
                ),
            ),
            (
                "`use` answers within a second. Begin with one thread and the largest tile, then"
                " halve the tile for two.",
                "The accumulators of all threads together, tile_rows * tile_columns * threads, are"
                " at most 2048. Try halving the rows, then halving the columns.",
                "64 rows by 16 blocks is the best tile for two threads, in both large products. 2"
                " rows: one thread, and all of it in one tile.",
            ),
            "notebook 09, section 5",
        ),
        Item(
            "ex09.3",
            "a stream that stands still",
            3,
            "repair",
            (Part("correctness", "four streams, each without one push", 1.0, repaired),),
            (
                "The verifier is quick. You need not understand each stream: try.",
                "For each line, and for each of `push ld`, `push ex` and `push st`: add it to that"
                " line, parse, verify.",
                "accel.parse raises tvm.TVMError for a push that no queue carries: go on with the"
                " next. Return the text as soon as vta.verify(program).ok.",
            ),
            "notebook 09, section 4",
        ),
    ),
)
