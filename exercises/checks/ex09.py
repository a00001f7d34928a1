# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 09: tokens placed by hand, tiles for two threads, and a stream that stands still."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np

from minitvm import te, viz, vta
from minitvm.accel import Program, parse, simulate, strip_tokens, text
from minitvm.base import TVMError
from minitvm.edu import (
    PASSED,
    Answer,
    Challenge,
    Exercise,
    Item,
    Outcome,
    Part,
    Puzzle,
    Rng,
    equal,
    failed,
    flagged_tokens,
    numbered_listing,
    stream_fault,
)

# --- tokens by hand ------------------------------------------------------------------------------

# a load of one element takes 10 cycles, a gemm of one micro-operation 20
QUIET = vta.Config(name="ten", issue=0, dma_row=0, token_latency=0, port_bytes=256)
TEN = replace(QUIET, dma_latency=9, fill=19)
TOKENS = re.compile(r"(\s+(pop|push) (ld|ex|st))*\s*$")
NEEDLESS = (
    "a unit waits without need: a pair of loads has to wait for the gemm that read its own"
    " places, and for no other"
)
OURS = ", with our store in place of yours"
OF_STORE = re.compile(r"\s+(pop|push) st\b")


def head(steps, threads):
    """Return the lines before the first load, without tokens."""
    return [
        f"area A inp {steps} {threads}",
        f"area W wgt {steps} {threads}",
        f"area C out {threads}",
        *(f"uop {t} {t} {t}" for t in range(threads)),
        f"ex  uop[0] = uops[0] x={threads}",
        f"ex  reset u[0:{threads}]",
    ]


def loop(steps, threads):
    """Return all loads and gemms, with tokens."""
    lines = ["ex  nop   push ld"] * threads
    for k in range(steps):
        for t in range(threads):
            lines.append(f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex")
            lines.append(f"ld  wgt[{t}] = W[{k * threads + t}] x=1   push ex")
        for t in range(threads):
            lines.append(f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld")
    return lines + ["ld  nop   pop ex"] * threads


def store(threads):
    """Return the store, with tokens."""
    line = f"st  C[0] = acc[0] x={threads}   pop ex   push ex"
    return ["ex  nop   push st", line, "ex  nop   pop st"]


def with_our_store(lines, threads):
    """Replace the store in the lines by ours, so that the loop is judged alone."""
    kept = [OF_STORE.sub("", line) for line in lines if line.split()[:1] != ["st"]]
    return [*kept, *store(threads)]


def bodies(lines):
    """Count how often each instruction occurs, ignoring tokens and nops."""
    found = Counter(" ".join(TOKENS.sub("", line).split()) for line in lines)
    return Counter({body: n for body, n in found.items() if body and not body.endswith("nop")})


def assembled(lines: list[str], steps: int, threads: int) -> Program:
    return parse("\n".join([*head(steps, threads), *lines, "ex  finish"]))


def cases(rng: Rng) -> list[tuple[int, int]]:
    """Draw (steps, threads): a small case that can be shown, and three others."""
    return [(2, 2), *((int(rng.integers(2, 7)), int(rng.integers(2, 4))) for _ in range(3))]


def no_program(lines: object, steps: int, threads: int, ours: bool) -> Outcome | None:
    """Return the outcome for lines that are another program, or None. ours: ignore their store."""
    case = f"lower({steps}, {threads})"
    if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
        return failed("wrong-type", expected="a list of lines", got=repr(lines)[:80])
    if odd := next((x for x in lines if len(x) > 100 or "\n" in x), ""):
        return failed("wrong-type", expected="one instruction a line", got=repr(odd[:80]))
    try:
        assembled(lines, steps, threads)
    except TVMError as error:
        why = "tokens are pop or push, and ld, ex or st: the unit that is given or waited for"
        return failed(
            "no-program", expected="lines as in the notebook", got=str(error), case=case, why=why
        )
    seen = with_our_store(lines, threads) if ours else lines
    wanted, given = bodies([*loop(steps, threads), *store(threads)]), bodies(seen)
    if wanted != given or len(lines) > 20 * (steps + 1) * threads:
        odd = next(iter((wanted - given) + (given - wanted)), "nop")
        return failed(
            "other-instructions", expected=f"{wanted[odd]} times `{odd}`",
            got=f"{given[odd]} times", case=case, why="tokens only, and nops that carry them",
        )  # fmt: skip
    return None


def same_numbers(program: Program, steps: int, threads: int, rng: Rng) -> str:
    """Describe the first wrong sum; "" if all are right."""
    a = rng.integers(-4, 5, (steps, threads, 1, 16)).astype("int8")
    w = rng.integers(-1, 2, (steps, threads, 16, 16)).astype("int8")
    got = simulate(program, TEN, {"A": a, "W": w}).outputs["C"]
    want = np.einsum("ktbi,ktoi->tbo", a.astype("int32"), w.astype("int32")).astype("int8")
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return ""
    at = tuple(wrong[0].tolist())
    return f"C{list(at)}: got {got[at]}, want {want[at]}"


def judged(lines: list[str], steps: int, threads: int, rng: Rng, ours: bool) -> Outcome:
    """Check the sums and the tokens. ours: ignore tokens that are still queued at the end."""
    program = assembled(lines, steps, threads)
    case = f"lower({steps}, {threads}){OURS if ours else ''}"
    found, said, why = stream_fault(program, TEN, left_over=not ours)
    if found:
        case += numbered_listing(program)
        return failed(found, expected="ok", got=said, case=case, why=why)
    if wrong := same_numbers(program, steps, threads, rng):
        why = "an instruction of some thread comes too early or too late"
        return failed("wrong-value", expected="the sums of numpy", got=wrong, case=case, why=why)
    return PASSED


def right_tokens(ours: bool):
    """Return a check of instructions, tokens and sums. ours: replace the store by our own."""

    def check(answer: Answer, rng: Rng) -> Outcome:
        for steps, threads in cases(rng):
            lines = answer(steps, threads)
            if wrong := no_program(lines, steps, threads, ours):
                return wrong
            if ours:
                lines = with_our_store(lines, threads)
            outcome = judged(lines, steps, threads, rng, ours)
            if outcome is not PASSED:
                return outcome
        return PASSED

    return check


def few_cycles(answer: Answer, rng: Rng) -> Outcome:
    """Check for at most 1.05 times the cycles of the reference, both with our store."""
    for steps, threads in ((16, 2), (8, 3)):
        given, reference = answer(steps, threads), [*loop(steps, threads), *store(threads)]
        if wrong := no_program(given, steps, threads, ours=True):
            return wrong
        lines = with_our_store(given, threads)
        if (outcome := judged(lines, steps, threads, rng, ours=True)) is not PASSED:
            return outcome
        cycles = simulate(assembled(lines, steps, threads), TEN).cycles
        best = simulate(assembled(reference, steps, threads), TEN).cycles
        if cycles > 1.05 * best:
            return failed(
                "too-many-cycles", expected=f"at most {1.05 * best:.0f} cycles",
                got=f"{cycles} cycles", why=NEEDLESS,
                case=f"lower({steps}, {threads}), loads of 10 cycles, gemms of 20",
                score=best / cycles if cycles < 1.3 * best else 0.0,
            )  # fmt: skip
    return PASSED


# --- tiles for two threads -----------------------------------------------------------------------

LEAST = {(256, 32, 32): 0.9, (128, 16, 64): 0.92, (2, 16, 16): 0.048}
ONE = {(256, 32, 32): 0.632, (128, 16, 64): 0.652, (2, 16, 16): 0.048}  # the best of one thread
SHARES = {(256, 32, 32): 1 / 2, (128, 16, 64): 1 / 3, (2, 16, 16): 1 / 6}  # of the points


def multiply(rows, columns, depth, tile_rows, tile_columns, threads, along):
    """Return C = A @ B.T on the accelerator; columns and depth in blocks of 16."""
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
    """Make a part that requires the utilisation LEAST of a tiling; points begin above ONE."""
    rows, columns, _ = sizes
    least, one = LEAST[sizes], ONE[sizes]

    def check(answer: Answer, rng: Rng) -> Outcome:
        got = answer(*sizes)
        if wrong := no_tiling(got, rows, columns):
            wanted = "(tile_rows, tile_columns, threads, 'rows' or 'columns'): all of it divides"
            case = f"choose{sizes}"
            return failed("wrong-type", expected=wanted, got=f"{got!r:.80}", case=case, why=wrong)
        case = f"choose{sizes} = {got}"
        try:
            share = multiply(*sizes, *got).run().utilisation
        except TVMError as error:
            said = str(error).split("\n")[0]
            return failed("refused", expected="a tiling that fits", got=said, case=case, why=why)
        if share >= least:
            return PASSED
        score = max(0.0, (share - one) / (least - one)) if least > one else 0.0
        expected, found = f"at least {least:.1%}", f"{share:.1%}"
        return failed(
            "too-little-use", expected=expected, got=found, case=case, why=why, score=score
        )

    return Part("property", f"{sizes}: the matrix unit is used {least:.1%}", SHARES[sizes], check)


def no_tiling(got, rows: int, columns: int) -> str:
    """Describe the first value of a tiling that is not allowed; "" if all are allowed."""
    if not isinstance(got, list | tuple) or len(got) != 4:
        return "four values are asked for"
    tile_rows, tile_columns, threads, along = got
    if along not in ("rows", "columns"):
        return f"{along!r:.20} is neither 'rows' nor 'columns'"
    sizes = ("tile_rows", tile_rows, rows), ("tile_columns", tile_columns, columns)
    for name, n, most in (*sizes, ("threads", threads, 8)):
        if type(n) is not int or not 0 < n <= most:
            return f"{name} = {n!r:.20}, and it is an int from 1 to {most}"
    for name, n, all_ in (("rows", tile_rows, rows), ("columns", tile_columns, columns)):
        if all_ % n:
            return f"tile_{name} = {n} does not divide {all_} {name}"
    tiles = rows // tile_rows if along == "rows" else columns // tile_columns
    return f"{threads} threads do not divide {tiles} tiles of {along}" if tiles % threads else ""


# --- a stream that stands still ------------------------------------------------------------------


JOINED = (("ld", "ex"), ("ex", "ld"), ("ex", "st"), ("st", "ex"))  # by queues
LOST = 2  # pushes


def products(rng: Rng) -> list[Program]:
    """Return programs of four small products: a short one, others with threads or more steps."""
    drawn = [[int(rng.integers(low, low + 2)) for low in (1, 2, 1)] for _ in range(3)]
    return [
        multiply(rows, 2, depth, rows, 2 // threads, threads, "columns").program
        for rows, depth, threads in ([2, 2, 1], *drawn)
    ]


def with_lost_pushes(program: Program, rng: Rng) -> str:
    """Remove LOST pushes, into different queues, from a program; return its text."""
    lines = text(program).split("\n")
    for queue in rng.choice(len(JOINED), LOST, replace=False):
        unit, other = JOINED[queue]
        pushing = [n for n, x in enumerate(lines) if x.startswith(unit) and f"push {other}" in x]
        n = pushing[int(rng.integers(0, len(pushing)))]
        lines[n] = lines[n].replace(f"   push {other}", "")
    return "\n".join(lines)


def repaired(answer: Answer, rng: Rng) -> Outcome:
    """Check that at most LOST tokens were added, and that the verifier then finds no fault."""
    for n, whole in enumerate(products(rng)):
        given = with_lost_pushes(whole, rng)
        got, before = answer(given), parse(given)
        case = f"case {n + 1}{numbered_listing(before)}"
        if not isinstance(got, str) or len(got) > 20 * len(given):
            return failed("wrong-type", expected="the text of a program", got=f"{got!r:.80}")
        try:
            program = parse(got)
        except TVMError as error:
            wanted = "the text of a program"
            return failed("no-program", expected=wanted, got=str(error), case=case)
        if text(strip_tokens(program)) != text(strip_tokens(before)):
            expected, why = "the same instructions", "only pushes are missing"
            return failed("other-instructions", expected=expected, got="others", case=case, why=why)
        given, now = flagged_tokens(before), flagged_tokens(program)
        more, less = now - given, given - now
        if less or len(more) > LOST:
            told, expected = f"{len(more)} more, {len(less)} less", f"{LOST} tokens more"
            why = f"all that is there is needed, and {LOST} pushes are missing"
            return failed("other-tokens", expected=expected, got=told, case=case, why=why)
        found, said, why = stream_fault(program, vta.vta_pynq)
        if found:
            case = f"case {n + 1}, repaired{numbered_listing(program)}"
            return failed(found, expected="ok", got=said, case=case, why=why)
    return PASSED


# --- the challenge -------------------------------------------------------------------------------

# a load of n pieces in a row takes 19 + n cycles, a gemm of one micro-operation 10
NARROW = replace(
    QUIET, name="narrow", dma_latency=19, fill=9, inp_bytes=4 * 16, wgt_bytes=4 * 256,
    acc_bytes=8 * 64,
)  # fmt: skip
MOST_LINES = 5_000


def gemm(acc, inp, wgt, what="gemm"):
    """Return the instruction that adds inp[inp] times wgt[wgt] to acc[acc]."""
    uop = 16 * acc + 4 * inp + wgt
    return f"ex  {what} u[{uop}:{uop + 1}]"


def narrow_head(rows, columns, depth):
    """Return the lines before the answer: a micro-operation for each choice of three places."""
    areas = (f"A inp {rows} {depth}", f"W wgt {columns} {depth}", f"C out {rows} {columns}")
    places = [(a, i, w) for a in range(8) for i in range(4) for w in range(4)]
    uops = (f"uop {a} {i} {w}" for a, i, w in places)
    return [*(f"area {area}" for area in areas), *uops, "ex  uop[0] = uops[0] x=128"]


def one_at_a_time(rows, columns, depth):
    """Return the stub of the challenge: one result after the other, each load waits."""
    lines = ["ex  nop   push ld"]
    for n in range(rows * columns):
        lines.append(gemm(0, 0, 0, "reset") + ("   pop st" if n else ""))
        for k in range(depth):
            last = "   push st" if k == depth - 1 else ""
            lines.append(f"ld  inp[0] = A[{n // columns * depth + k}] x=1   pop ex")
            lines.append(f"ld  wgt[0] = W[{n % columns * depth + k}] x=1   push ex")
            lines.append(f"{gemm(0, 0, 0)}   pop ld   push ld{last}")
        lines.append(f"st  C[{n}] = acc[0] x=1   pop ex   push ex")
    return [*lines, "ld  nop   pop ex", "ex  nop   pop st"]


def two_halves(rows, columns, depth):
    """Return the reference: tiles of 2 x 2 results, and two halves of each memory in turn."""
    lines = ["ex  nop   push ld"] * 2
    tiles = [(r, c) for r in range(0, rows, 2) for c in range(0, columns, 2)]
    for tile, (r, c) in enumerate(tiles):
        acc = 4 * (tile % 2)
        lines += [gemm(acc + n, 0, 0, "reset") for n in range(4)]
        lines[-4] += "   pop st" if tile > 1 else ""
        for k in range(depth):
            half = 2 * ((tile * depth + k) % 2)
            for n in range(2):
                lines.append(f"ld  inp[{half + n}] = A[{(r + n) * depth + k}] x=1")
                lines[-1] += "" if n else "   pop ex"
            for n in range(2):
                lines.append(f"ld  wgt[{half + n}] = W[{(c + n) * depth + k}] x=1")
            lines[-1] += "   push ex"
            lines += [gemm(acc + n, half + n // 2, half + n % 2) for n in range(4)]
            lines[-4] += "   pop ld"
            lines[-1] += "   push ld" + "   push st" * (k == depth - 1)
        lines.append(f"st  C[{r * columns + c}] = acc[{acc}] x=2   pop ex")
        lines.append(f"st  C[{(r + 1) * columns + c}] = acc[{acc + 2}] x=2   push ex")
    return lines + ["ld  nop   pop ex"] * 2 + ["ex  nop   pop st"] * min(2, len(tiles))


def stream_cycles(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the cycles of the stream on the machine `narrow`, after checking it and its sums."""
    rows, columns = (2 * int(n) for n in rng.integers(2, 5, 2))
    depth = int(rng.integers(3, 7))
    lines, case = answer(rows, columns, depth), f"stream({rows}, {columns}, {depth})"
    if not isinstance(lines, list) or not all(isinstance(x, str) for x in lines):
        return failed("wrong-type", expected="a list of lines", got=repr(lines)[:80], case=case)
    odd = [x for x in lines if x[:3] not in ("ld ", "ex ", "st ") or "\n" in x]
    if odd or len(lines) > MOST_LINES:
        told = repr(odd[0][:80]) if odd else f"{len(lines)} lines"
        expected = f"lines of ld, ex and st, at most {MOST_LINES}"
        return failed("wrong-type", expected=expected, got=told, case=case)
    try:
        program = parse("\n".join([*narrow_head(rows, columns, depth), *lines, "ex  finish"]))
    except TVMError as error:
        return failed("no-program", expected="a program", got=str(error), case=case)
    found, said, why = stream_fault(program, NARROW)
    if found:
        return failed(found, expected="ok", got=said, case=case, why=why)
    a = rng.integers(-4, 5, (rows, depth, 1, 16)).astype("int8")
    w = rng.integers(-1, 2, (columns, depth, 16, 16)).astype("int8")
    run = simulate(program, NARROW, {"A": a, "W": w})
    want = np.einsum("rkbi,ckoi->rcbo", a.astype("int32"), w.astype("int32")).astype("int8")
    wrong = np.argwhere(run.outputs["C"].reshape(want.shape) != want)
    if len(wrong):
        at = f"C{wrong[0].tolist()} is wrong"
        return failed("wrong-value", expected="the sums of numpy", got=at, case=case)
    return float(run.cycles)


# --- puzzles -------------------------------------------------------------------------------------

TEN_TEN = replace(QUIET, name="ten and ten", port_bytes=8, dma_latency=8, fill=9)


def small_stream(steps, threads):
    """Return the stream of the notebook as text: each thread loads a piece and adds it up."""
    lines = [f"area A inp {max(1, steps)} {threads}", "area W wgt 1"]
    lines += [f"uop {t} {t} 0" for t in range(threads)]
    lines += [f"ex  uop[0] = uops[0] x={threads}", f"ex  reset u[0:{threads}]"]
    lines += ["ld  wgt[0] = W[0] x=1", *["ex  nop   push ld"] * threads]
    for k in range(steps):
        loads = (f"ld  inp[{t}] = A[{k * threads + t}] x=1" for t in range(threads))
        lines += [f"{load}   pop ex   push ex" for load in loads]
        lines += [f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld" for t in range(threads)]
    return "\n".join([*lines, *["ld  nop   pop ex"] * threads, "ex  finish"])


def pieces_used_twice(steps, tokens):
    """Return a program in which two gemms use each piece; tokens: of the load and of both."""
    load, first, second = tokens
    lines = ["area A inp 8", "area W wgt 2", "uop 0 0 0", "uop 1 0 1", "ex  uop[0] = uops[0] x=2"]
    lines += ["ex  reset u[0:2]", "ld  wgt[0] = W[0] x=2", "ex  nop   push ld"]
    for k in range(steps):
        lines += [f"ld  inp[0] = A[{k}] x=1   {load}"]
        lines += [f"ex  gemm u[0:1]   {first}", f"ex  gemm u[1:2]   {second}"]
    return parse("\n".join([*lines, "ld  nop   pop ex", "ex  finish"]))


def used_twice():
    return "pop ex   push ex", "pop ld", "push ld"


def orders_two_gemms(answer: Answer, rng: Rng) -> Outcome:
    tokens = answer()
    if not isinstance(tokens, tuple) or [type(x) for x in tokens] != [str] * 3:
        return failed("wrong-type", expected="three strings", got=repr(tokens)[:80])
    if odd := [x for x in tokens if not TOKENS.fullmatch(f" {x}")]:
        why = "tokens look like `pop ld   push ld`, or are empty"
        return failed("wrong-value", expected="tokens", got=repr(odd[0])[:80], why=why)
    try:
        program = pieces_used_twice(int(rng.integers(3, 7)), tokens)
    except TVMError as error:
        return failed("no-program", expected="a program", got=str(error))
    found, said, why = stream_fault(program, TEN_TEN)
    return failed(found, expected="ok", got=said, why=why) if found else PASSED


def some_times(rng):
    load, gemm = (10 * int(n) for n in rng.integers(1, 6, 2))
    return load, gemm, int(rng.integers(2, 9))


def gain(load, gemm, steps):
    """Return how much faster two threads do the work of one thread with twice the steps."""
    return 2 * steps * (load + gemm) / (2 * steps * max(load, gemm) + min(load, gemm))


def stream_time(load, gemm, steps, threads):
    """Count the cycles of the small stream, without its start."""
    config = replace(TEN_TEN, dma_latency=load - 2, fill=gemm - 1)
    whole, start = (simulate(parse(small_stream(n, threads)), config).cycles for n in (steps, 0))
    return whole - start


def measured_gain(load, gemm, steps):
    return stream_time(load, gemm, 2 * steps, 1) / stream_time(load, gemm, steps, 2)


def gain_bars(value, arguments):
    """Draw the answer beside the gain that the simulator measures."""
    bars = {"formula": float(value), "measured": measured_gain(*arguments)}
    return viz.ScoreBars({name: round(x, 3) for name, x in bars.items()}, "times as fast")


def needless(steps, threads):
    """Return the tokens without which the small stream is still right."""
    ends = (*range(threads), *range(threads * steps, threads * (steps + 1)))
    return [f"k:g2l:{n}" for n in ends]


def number_of(name):
    return int(name.split(":")[2])


def without(names, steps, threads):
    """Return the picture of the small stream after clicks on the tokens of these names."""
    gantt = viz.TokenGantt(parse(small_stream(steps, threads)), TEN_TEN)
    for name in sorted(names, key=number_of, reverse=True):  # a click renumbers the tokens after it
        gantt.event("click", name, None)
    return gantt


def pushes(names, arguments):
    return float(text(without(names, *arguments).program).count("push"))


def as_few_tokens(answer: Answer, rng: Rng) -> Outcome:
    for steps, threads in ((3, 2), (int(rng.integers(2, 5)), int(rng.integers(1, 4)))):
        names, case = answer(steps, threads), f"needless({steps}, {threads})"
        if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
            return failed("wrong-type", expected="a list of names", got=repr(names)[:80], case=case)
        all_names = {f"k:l2g:{n}" for n in range(steps * threads)}
        all_names |= {f"k:g2l:{n}" for n in range((steps + 1) * threads)}
        if odd := [x for x in names if x not in all_names] or len(set(names)) < len(names):
            return failed("wrong-value", expected="tokens, each once", got=repr(odd), case=case)
        found, said, why = stream_fault(without(names, steps, threads).program, TEN_TEN)
        if found:
            return failed(found, expected="ok", got=said, case=case, why=why)
        if len(names) < (most := len(needless(steps, threads))):
            why = "look at both ends of the stream"
            expected, got = f"{most} tokens", f"{len(names)} tokens"
            return failed("wrong-value", expected=expected, got=got, case=case, why=why)
    return PASSED


def some_product(rng):
    rows, columns, depth = 8 * int(rng.integers(1, 5)), 4 * int(rng.integers(1, 4)), 4
    return rows, columns, depth, int(rng.choice([1, 2, 4]))


def fetched(rows, columns, depth, threads):
    """Return the bytes of A and B that a product fetches, if its threads share the columns."""
    return 16 * rows * depth * threads + 256 * columns * depth


def fetched_by_simulation(rows, columns, depth, threads):
    f = multiply(rows, columns, depth, rows, columns // threads, threads, "columns")
    counts = f.run().counters
    return counts.inp_load_nbytes + counts.wgt_load_nbytes


def fetched_bars(value, arguments):
    """Draw the answer beside the bytes that the simulator counts."""
    bars = {"formula": float(value), "simulated": float(fetched_by_simulation(*arguments))}
    return viz.ScoreBars(bars, "bytes fetched")


def some_speed(rng):
    share = float(rng.integers(50, 96)) / 100
    return share, 1 + float(rng.uniform(0.1, 0.9)) * share / (1 - share)


def speed_needed(share, factor):
    """Return the speed at which `share` of the work makes all of it `factor` times as fast."""
    return share / (1 / factor - (1 - share))


def times_of_the_whole(value, arguments):
    """Draw the time of the whole before and after, as shares of the time before."""
    share, factor = arguments
    bars = {"with this accelerator": 1 - share + share / value, "wanted": 1 / factor, "before": 1.0}
    return viz.ScoreBars({n: round(x, 3) for n, x in bars.items()}, "time of the whole network")


PUZZLES = (
    Puzzle(
        "09.twice",
        "one load, two gemms",
        "used_twice",
        (Part("property", "no deadlock, no race, nothing left over", 1, orders_two_gemms),),
        lambda rng: (),
        used_twice,
        (
            "A unit runs its instructions in order: if the first gemm has waited for the data, the"
            " second one has, too. Which of the two is the last to read the piece?",
        ),
        "notebook 09, section 1",
        of="value",
        picture=lambda tokens, _: viz.TokenGantt(pieces_used_twice(3, tokens), TEN_TEN),
        cost=lambda tokens, _: float(simulate(pieces_used_twice(3, tokens), TEN_TEN).cycles),
        unit="cycles",
    ),
    Puzzle(
        "09.gain",
        "what a second thread gains",
        "gain",
        (
            equal(
                measured_gain, some_times, title="what the simulator measures", cases=6,
                rtol=1e-6, why="two threads of K steps do the work of one thread of 2 K steps",
            ),
        ),
        lambda rng: (10, 30, 8),
        gain,
        ("Divide the first formula, with 2 * K steps, by the second one, with n = 2.",),
        "notebook 09, section 2",
        of="value",
        picture=gain_bars,
    ),
    Puzzle(
        "09.needless",
        "tokens that nothing needs",
        "needless",
        (Part("property", "right, and no token could be taken away", 1, as_few_tokens),),
        lambda rng: (3, 2),
        needless,
        (
            "The first load of a thread finds its place free. And at the other end?",
            "The queue g2l carries threads * (steps + 1) tokens: threads before the first step, and"
            " threads in each step.",
        ),
        "notebook 09, section 4",
        of="value",
        picture=lambda names, arguments: without(names, *arguments),
        cost=pushes,
        unit="tokens",
    ),
    Puzzle(
        "09.fetched",
        "what threads fetch",
        "fetched",
        (equal(fetched_by_simulation, some_product, title="what the simulator counts", cases=4),),
        lambda rng: (32, 8, 4, 2),
        fetched,
        ("An element of A has 16 bytes, one of B 16 x 16. Which of the two do all threads need?",),
        "notebook 09b, section 1",
        of="value",
        picture=fetched_bars,
    ),
    Puzzle(
        "09.speed",
        "how fast must it be?",
        "speed_needed",
        (equal(speed_needed, some_speed, rtol=1e-6, why="the rest, 1 - share, stays as it is"),),
        lambda rng: (0.9, 5.0),
        speed_needed,
        ("1 / factor is the new time of the whole: (1 - share) + share / speed. Solve for speed.",),
        "notebook 09b, section 2",
        of="value",
        picture=times_of_the_whole,
    ),
)  # fmt: skip


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
                Part("correctness", "the loop: its tokens and its sums", 1 / 4, right_tokens(True)),
                Part(
                    "property", "the store, and nothing is left over", 1 / 12, right_tokens(False)
                ),
                Part("property", "loads are hidden: at most 1.05 x the best", 2 / 3, few_cycles),
            ),
            (
                "Write the program of one thread first: which unit waits for which? Then repeat"
                " each line for each thread.",
                "For each thread one `ex  nop   push ld` before the loop and one `ld  nop   pop ex`"
                " after it. Each gemm pops one token from ld and pushes one to it. Two loads belong"
                " to it: which of them has to wait for the place, and which one is the last?",
                "The load of A pops from ex, the load of W pushes to it. One way is to put, in each"
                " step, the loads of all threads before the gemms of all threads. The store needs a"
                " push from ex after the last gemm; at the end `ex  nop   pop st` waits for it.",
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
                "Search with `use` in a cell of its own: `choose` has 10 seconds and returns what"
                " you have found. Begin with one thread and the largest tile, then halve the tile"
                " for two.",
                "The accumulators of all threads together, tile_rows * tile_columns * threads, are"
                " at most 2048. Try halving the rows, then halving the columns.",
                "64 rows by 16 blocks is the best tile for two threads, in both large products. 2"
                " rows: one thread, and all of it in one tile.",
            ),
            "notebook 09b, section 1",
        ),
        Item(
            "ex09.3",
            "a stream that stands still",
            3,
            "repair",
            (Part("correctness", "four streams, each without two pushes", 1.0, repaired),),
            (
                "The last line of accel.listing(accel.parse(text)) says which queues end below 0:"
                " these are the two that a push is missing from. What kind of line pushes there?",
                "Count in the text: `ld` lines with `push ex` against `ex` lines with `pop ld`, and"
                " so on for all four queues. Then only lines of two units are left to try, those"
                " that do not push there yet.",
                "For each line n that could push into the first queue and each line m for the"
                " second (itertools.product; not `ex  finish`, which takes no token): add both"
                " pushes, parse, and return the text as soon as vta.verify(program).ok.",
            ),
            "notebook 09, section 4",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "09.challenge",
        "a product with room for four pieces",
        "stream",
        "cycles",
        stream_cycles,
        one_at_a_time,
        two_halves,
        minutes=90,
        best_known=1532,  # the solution: one gemm for all results of a tile
        hints=(
            "Each piece that is loaded should be used more than once: which block of C has eight"
            " results and few rows and columns?",
            "A load of two pieces takes 21 cycles, two loads take 40; a gemm of four products"
            " (outer=2 inner=2) takes 13, four of one take 40.",
        ),
        section="notebook 09, sections 1 to 4",
    ),
)
