# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 08: an instruction declared, a product on the accelerator, the same with few bytes."""

import math
from dataclasses import replace

import numpy as np

from minitvm import accel, te, viz, vta
from minitvm.base import TVMError
from minitvm.driver import lower
from minitvm.edu import (
    MAX_COMPUTED,
    PASSED,
    Answer,
    AnswerError,
    Challenge,
    Exercise,
    Item,
    Outcome,
    Part,
    Puzzle,
    Rng,
    at_most,
    bytes_moved,
    computed_elements,
    equal,
    failed,
    on_machine,
    problem,
    results_of,
    runs_on_accelerator,
    wrong_element,
    wrong_results,
)
from minitvm.tensor import TensorIntrin, evaluate
from minitvm.tir import Call, Stmt, interpret, is_opaque, text, walk

# --- an instruction ------------------------------------------------------------------------------

STATEMENTS = "8 terms take compute, more of them reset and then update: see the parts above"
CONVERT = "the products wrap at 8 bits: convert both factors to int32 in the rule, too"
SWAPPED = "the indices: rows times rows in the rule, too, w[i, k] * x[j, k]"
START = "it adds to what z held before: start from zero"
GO_ON = "it starts over: the sum so far is in z"
ONE_BUILDER = (
    "one builder wrote several statements, and get() returns all that it has written: call"
    " tir.ir_builder.create() for each of the three"
)
PLACE = (
    "reset knows of no terms, only of z; and the rows of a tile are as far apart as those of the"
    " matrix around it"
)


def numbers(shape, rng: Rng, dtype: str = "int8"):
    return rng.integers(-128, 128, shape).astype(dtype)


def sums(w, x):
    """Return w @ x.T in 32 bits."""
    return w.astype("int32") @ x.astype("int32").T


def declared(answer: Answer, *needed: str) -> TensorIntrin:
    """Return the student's intrinsic. Raises AnswerError if it is not made of loops.

    needed   the statements that it must have: "reset", "update"
    """
    got = answer()
    if not isinstance(got, TensorIntrin):
        what = f"a {type(got).__name__} was returned, and a tensor intrinsic is asked for"
        raise AnswerError("wrong-type", what)
    for name in needed:
        if getattr(got, name) is None:
            raise AnswerError("missing", f"there is no {name}: return compute, reset, update")
    for part in statements(got):
        calls = [e for e in walk(part) if isinstance(e, Call) and is_opaque(e)]
        if calls:
            what = f"{text(calls[0])}: the grader cannot know what a call does; use loops"
            raise AnswerError("calls", what)
    return got


def statements(intrin: TensorIntrin) -> list[Stmt]:
    """Return the statements compute, reset and update of an intrinsic, without missing ones."""
    found = (intrin.body, intrin.reset, intrin.update)
    return [s for s in found if s is not None]


def repeated(intrin: TensorIntrin) -> bool:
    """Return whether one builder wrote several statements, so that one begins with another."""
    adding = [text(s) for s in (intrin.body, intrin.update) if s is not None]
    every = [text(s) for s in statements(intrin)]
    return any(s.startswith(f"{first}\n") for first in adding for s in every)


def usual_products(w, x):
    """Return the products that common mistakes give, as (numbers, why)."""
    wide, other = w.astype("int32"), x.astype("int32")
    narrow = (w[:, None] * x[None]).sum(2, "int32")
    return (
        (narrow, CONVERT),
        (narrow.astype("int8").astype("int32"), CONVERT),
        (wide @ other, SWAPPED),
        (wide.T @ other.T, SWAPPED),
        (wide.T @ other, SWAPPED),
        (other @ wide.T, "the rows of z are those of w: z[i, j] adds w[i, k] * x[j, k]"),
    )


def usual_fault(intrin: TensorIntrin, z, got, expected, w, x) -> str:
    """Return the common mistake that leaves `got` in place of expected(z, product), or ""."""
    if repeated(intrin):
        return ONE_BUILDER
    for product, why in usual_products(w, x):
        if np.array_equal(got, expected(z, product)):
            return why
    product = sums(w, x)
    for left, why in ((z + product, START), (product, GO_ON)):
        if np.array_equal(got, left):
            return why
    return ""


def right_formula(answer: Answer, rng: Rng) -> Outcome:
    """Check the formula z[i, j] = sum of w[i, k] * x[j, k], int8 to int32."""
    op = declared(answer).op
    tensors = (*op.input_tensors, op.output(0))
    got = ", ".join(f"{t.dtype}{list(t.shape)}" for t in tensors)
    wanted = "int8[8, 8], int8[8, 8], int32[8, 8]"
    if got != wanted:
        why = "w and x have 8 bits; both factors become int32 before they are multiplied"
        return failed("wrong-shape", expected=wanted, got=got, why=why)
    if computed_elements(tensors[2]) > MAX_COMPUTED:
        return failed("too-large", expected="8 terms", got="far more", why="k runs over 8 terms")
    w, x = numbers((8, 8), rng), numbers((8, 8), rng)
    z = evaluate([tensors[2]], {tensors[0]: w, tensors[1]: x})[0]
    why = "rows times rows, the rows of w first: w[i, k] * x[j, k]"
    return wrong_element(z, sums(w, x), 0, 0, "the formula", why) or PASSED


def tiles(rows, columns, depth):
    """Schedule A @ B.T in tiles of 8 x 8 x 8; return (schedule, loop to tensorize, tensors)."""
    A = te.placeholder((rows, depth), "int8", name="A")
    B = te.placeholder((columns, depth), "int8", name="B")
    k = te.reduce_axis((0, depth), name="k")

    def product(y, x):
        return te.sum(A(y, k).astype("int32") * B(x, k).astype("int32"), axis=k)

    C = te.compute((rows, columns), product, name="C")
    s = te.create_schedule(C.op)
    yi = s[C].tile(*C.op.axis, k, 8, 8, 8)[3]
    return s, yi, [A, B, C]


def statement(name: str, title: str, expected, why: str) -> Part:
    """Make a part that checks one of the three statements alone, on a tile of random numbers.

    expected(z, product)   what the tile must hold afterwards
    """
    field = "body" if name == "compute" else name

    def check(answer: Answer, rng: Rng) -> Outcome:
        intrin = declared(answer, field)
        alone = replace(intrin, body=getattr(intrin, field))
        s, yi, args = tiles(8, 8, 8)
        s[args[-1]].tensorize(yi, alone)
        w, x, z = numbers((8, 8), rng), numbers((8, 8), rng), numbers((8, 8), rng, "int32")
        want, got = expected(z, sums(w, x)), z.copy()
        interpret(lower(s, args, until="nest"), w, x, got)
        reason = usual_fault(intrin, z, got, expected, w, x) or why
        wrong = wrong_element(got, want, 0, 0, f"z after {name}", reason)
        return replace(wrong, message=f"wrong-{name}") if wrong else PASSED

    return Part("property", title, 0.2, check)


def anywhere(answer: Answer, rng: Rng) -> Outcome:
    """Check the instruction inside larger matrices, for products of one and of several steps."""
    intrin = declared(answer, "reset", "update")
    place, parts = (ONE_BUILDER,) * 2 if repeated(intrin) else (PLACE, STATEMENTS)
    for depth in (8, 24):
        s, yi, tensors = tiles(16, 8 * int(rng.integers(2, 4)), depth)
        s[tensors[-1]].tensorize(yi, intrin)
        inputs = {t: numbers(t.shape, rng) for t in tensors[:2]}
        try:
            results = results_of(s, tensors, inputs, "interpreter")
        except TVMError as e:
            return failed("refused", expected="loops in tiles", got=str(e), why=place)
        if wrong := wrong_results(results, tensors, inputs, 0, 0, "", parts):
            return wrong
    return PASSED


# --- a product on the accelerator ----------------------------------------------------------------

# capacities: 256 elements of ACC, 256 of INP, and 32 of WGT
SMALL = vta.Config(name="small", inp_bytes=4 << 10, wgt_bytes=8 << 10, acc_bytes=16 << 10)
# the same ACC, but 512 elements of INP, and 16 of WGT
OTHER = vta.Config(name="other", inp_bytes=8 << 10, wgt_bytes=4 << 10, acc_bytes=16 << 10)


def layer(simple, rows, columns, depth):
    """Return a product, so many steps of a quantised layer, and C, with copies of all operands."""
    A = te.placeholder((rows, depth, 1, 16), name="A", dtype="int8")
    B = te.placeholder((columns, depth, 16, 16), name="B", dtype="int8")
    bias = te.placeholder((columns, 1, 16), name="bias", dtype="int32")
    copies = [te.compute(t.shape, t, name=f"{t.name}_buf") for t in (A, B, bias)]
    ko, ki = te.reduce_axis((0, depth), name="ko"), te.reduce_axis((0, 16), name="ki")

    def product(y, x, yi, xi):
        a, b = copies[0][y, ko, yi, ki].astype("int32"), copies[1][x, ko, xi, ki].astype("int32")
        return te.sum(a * b, axis=[ko, ki])

    def step(at, last):
        kinds = (
            lambda y, x, yi, xi: last(y, x, yi, xi) + copies[2](x, yi, xi),
            lambda *i: last(*i) >> 5,
            lambda *i: te.max(last(*i), 0),
            lambda *i: te.min(last(*i), 127),
        )
        return kinds[at]

    shape = (rows, columns, 1, 16)
    stages = [te.compute(shape, product, name="P")]
    for at in range(simple):
        stages.append(te.compute(shape, step(at, stages[-1]), name=f"S{at}"))
    C = te.compute(shape, lambda *i: stages[-1](*i).astype("int8"), name="C")
    return vta.get_env().gemm, A, B, bias, *copies, *stages, C


def layers(rng: Rng):
    """Draw a layer of 128 x 128 with one to four steps after the product."""
    return (problem(layer, int(rng.integers(1, 5)), 128, 8, 8),)


def packed_product(rows, columns, depth):
    """Return C = A @ B.T with copies of all operands; columns and depth in blocks of 16."""
    A = te.placeholder((rows, depth, 1, 16), name="A", dtype="int8")
    B = te.placeholder((columns, depth, 16, 16), name="B", dtype="int8")
    A_buf, B_buf = te.compute(A.shape, A, name="A_buf"), te.compute(B.shape, B, name="B_buf")
    ko, ki = te.reduce_axis((0, depth), name="ko"), te.reduce_axis((0, 16), name="ki")

    def product(y, x, yi, xi):
        a, b = A_buf[y, ko, yi, ki].astype("int32"), B_buf[x, ko, xi, ki].astype("int32")
        return te.sum(a * b, axis=[ko, ki])

    C_buf = te.compute((rows, columns, 1, 16), product, name="C_buf")
    C = te.compute(C_buf.shape, lambda *i: C_buf(*i).astype("int8"), name="C")
    return A, B, A_buf, B_buf, C_buf, C, vta.get_env().gemm


def matrices(inp, wgt):
    """Return a function that draws a product of 128 x 128 matrices for a machine of that size."""

    def arguments(rng: Rng):
        del rng
        return inp, wgt, problem(packed_product, 128, 8, 8)

    return arguments


def keep_half(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    """Return the reference schedule: half of B stays on the chip while all of A comes by.

    Where WGT has no room for it, half of A stays while all of B comes by.
    """
    del A, B, inp
    order, keep = ("columns", "B") if wgt >= 32 else ("rows", "A")
    return scheduled(A_buf, B_buf, C_buf, C, gemm, 64, 4, order=order, keep=keep)


def scheduled(A_buf, B_buf, C_buf, C, gemm, tile_rows, tile_columns, order="rows", keep=""):
    """Schedule the product in tiles.

    order   what the outer loop over tiles runs over: "rows" or "columns"
    keep    the matrix loaded in that loop, not for each step of the sum: "A", "B" or ""
    """
    env = vta.get_env()
    s = te.create_schedule(C.op)
    y, x, _, _ = C.op.axis
    yo, y = s[C].split(y, factor=tile_rows)
    xo, x = s[C].split(x, factor=tile_columns)
    outer, inner = (yo, xo) if order == "rows" else (xo, yo)
    s[C].reorder(outer, inner, y, x)
    s[C].pragma(y, env.dma_copy)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].compute_at(s[C], inner)
    cy, cx, cyi, cxi = C_buf.op.axis
    ko, ki = C_buf.op.reduce_axis
    s[C_buf].reorder(ko, cy, cx, cyi, cxi, ki)
    s[C_buf].tensorize(cyi, gemm)
    for name, t, scope in (("A", A_buf, env.inp_scope), ("B", B_buf, env.wgt_scope)):
        s[t].set_scope(scope)
        s[t].pragma(t.op.axis[0], env.dma_copy)
        if keep == name:
            s[t].compute_at(s[C], outer)
            s[C].pragma(y, env.coproc_sync)  # the load directly follows a store
        else:
            s[t].compute_at(s[C_buf], ko)
    return s


STEPS = (
    "copies need a scope and dma_copy, the product needs acc_scope and tensorize, with the loops of"
    " the instruction innermost"
)
ROOM = (
    "what is fetched, and the sums, have to fit: split the axes of C, compute C_buf at a loop over"
    " tiles, and A_buf and B_buf at a loop over steps of the sum"
)
SHAPE = (
    "A comes once for each tile of columns, B once for each tile of rows: tiles that are large in"
    " both fetch least, and 256 sums fit"
)
FETCHED = (
    "a tile fetches its rows of A and its columns of B again, unless they stay on the chip: count"
    " how often each number comes, for each order of the two loops over tiles"
)


ROOMS = {"small": matrices(256, 32), "other": matrices(512, 16)}


def few(
    machine: vta.Config, factor: float, worst: float, title: str, weight: float, why: str
) -> Part:
    """Make a part that allows `factor` times the bytes of the reference on one machine."""
    part = at_most(
        bytes_moved, keep_half, ROOMS[machine.name], factor=factor, worst=worst, unit="bytes",
        message="too-many-bytes", title=title, weight=weight, why=why, target="vta",
    )  # fmt: skip
    return on_machine(machine, part)


def on_both(name: str, weight: float, machine: vta.Config) -> tuple[Part, ...]:
    """Make the parts of ex08.3 for one machine."""
    right = runs_on_accelerator(
        ROOMS[machine.name], machine, title=f"right on {name}", weight=0.1 * weight,
        kind="property", why=f"{STEPS}; {ROOM}",
    )  # fmt: skip
    title = f"bytes of the best tiles on {name}"
    return (
        right,
        few(machine, 1.25, 1.499, f"at most 1.25 times the {title}", 0.3 * weight, SHAPE),
        few(machine, 1.1, 1.249, f"at most 1.1 times the {title}", 0.6 * weight, FETCHED),
    )


# --- puzzles -------------------------------------------------------------------------------------


def one_step(rows, columns, line):
    """Return a program that multiplies one step of ko by `line`, and stores the sums."""
    lines = [f"area A inp {rows}", f"area B wgt {columns}", f"area C out {rows} {columns}"]
    lines += ["uop 0 0 0", "ex  uop[0] = uops[0] x=1"]
    lines += [f"ex  reset u[0:1] outer={rows} inner={columns} dst={columns},1"]
    lines += [f"ld  inp[0] = A[0] x={rows}", f"ld  wgt[0] = B[0] x={columns}   push ex"]
    lines += [f"{line}   pop ld   push st"]
    lines += [f"st  C[0] = acc[0] x={rows * columns}   pop ex   push ex", "ex  nop   pop st"]
    return accel.parse("\n".join([*lines, "ex  finish"]))


def columns_first(rows, columns):
    strides = f"dst=1,{columns} src=0,1 wgt=1,0"
    return f"ex  gemm u[0:1] outer={columns} inner={rows} {strides}"


def all_sums(answer: Answer, rng: Rng) -> Outcome:
    for rows, columns in ((2, 4), (int(rng.integers(3, 9)), int(rng.integers(3, 9)))):
        line, case = answer(rows, columns), f"columns_first({rows}, {columns})"
        if not isinstance(line, str) or f"outer={columns} inner={rows} " not in line:
            wanted = "a line whose outer loop runs over the columns"
            return failed("wrong-type", expected=wanted, got=f"{line!r:.80}", case=case)
        a, b = numbers((rows, 1, 16), rng), numbers((columns, 16, 16), rng)
        want = sums(a[:, 0], b.reshape(-1, 16)).astype("int8")
        try:
            run = accel.simulate(one_step(rows, columns, line), vta.vta_pynq, {"A": a, "B": b})
        except TVMError as error:
            return failed("no-program", expected="a program", got=str(error), case=case)
        wrong = np.argwhere(run.outputs["C"].reshape(want.shape) != want)
        if len(wrong):
            at, why = wrong[0].tolist(), "how far apart are two sums of a column, two of a row?"
            got = f"the sum of row {at[0]}, block {at[1] // 16} is wrong"
            return failed("wrong-value", expected="all sums", got=got, case=case, why=why)
    return PASSED


def stream_of_line(line, arguments):
    """Draw the accelerator while it runs a line, in the third step from the end."""
    rows, columns = arguments
    return viz.AcceleratorView(one_step(rows, columns, line))


def step_cycles(rows, columns):
    """Return the cycles of the load unit and of the compute unit in a step of ko."""
    return 72 + 3 * rows + 33 * columns, 12 + rows * columns


def balanced(columns):
    return math.ceil((60 + 33 * columns) / (columns - 3))


def first_balanced(columns):
    """Return by trial how many rows keep the compute unit busy as long as the load unit."""
    return next(
        n for n in range(1, 10_000) if step_cycles(n, columns)[1] >= step_cycles(n, columns)[0]
    )


def step_bars(rows, arguments):
    """Draw the cycles of both units in a step with this number of rows."""
    load, compute = step_cycles(rows, *arguments)
    return viz.ScoreBars({"load": load, "compute": compute}, f"cycles of a step, {rows} rows")


PUZZLES = (
    Puzzle(
        "08.strides",
        "the loops of a gemm, exchanged",
        "columns_first",
        (Part("property", "all sums are right", 1, all_sums),),
        lambda rng: (2, 4),
        columns_first,
        (
            "dst=a,b: a elements further with each round of the outer loop, b with each round of"
            " the inner one. The inner loop goes from row to row: `columns` sums further.",
            "Each round of the outer loop takes the next matrix of WGT, the inner one takes none.",
        ),
        "notebook 08, section 5",
        of="value",
        picture=stream_of_line,
    ),
    Puzzle(
        "08.balance",
        "as much to compute as to load",
        "balanced",
        (
            equal(
                first_balanced, lambda rng: (int(rng.integers(4, 33)),), cases=12,
                title="the least number of rows", why="both transfers have their fixed costs",
            ),
        ),
        lambda rng: (16,),
        balanced,
        (
            "load: 36 + rows * (1 + 16 / 8) + 36 + columns * (1 + 256 / 8). compute: 12 +"
            " rows * columns. Solve for rows, and round up.",
        ),
        "notebook 08, section 7",
        of="value",
        picture=step_bars,
        cost=lambda rows, _: float(rows),
        unit="rows",
    ),
)  # fmt: skip


# --- the challenge -------------------------------------------------------------------------------

WINDOWS, MOST_STEPS = 4, 128


def moving_sums(elements, window, steps, at):
    """Return a program that runs the steps on A and on as many zeros, and stores the sums."""
    m = elements + window - 1
    lines = [f"area A acc {m}", f"area C out {elements}", f"uop {m} 0 0"]
    lines += [f"uop {d} {s} 0" for d, s, _ in steps]
    lines += [f"ex  acc[0] = A[0] x={m}", f"ex  uop[0] = uops[0] x={len(steps) + 1}"]
    lines += [f"ex  reset u[0:1] outer={m} dst=1,0"]
    lines += [
        f"ex  add u[{k}:{k + 1}] outer={count} dst=1,0 src=1,0"
        for k, (_, _, count) in enumerate(steps, 1)
    ]
    lines += ["ex  nop   push st", f"st  C[0] = acc[{at}] x={elements}   pop ex   push ex"]
    return accel.parse("\n".join([*lines, "ex  nop   pop st", "ex  finish"]))


def no_steps(made, elements, window):
    """Describe what is wrong with what the answer returned; "" if nothing is."""
    whole = 2 * (elements + window - 1)
    if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[0], list):
        return f"{made!r:.80}, not (steps, at)"
    steps, at = made
    if len(steps) > MOST_STEPS:
        return f"{len(steps)} steps, at most {MOST_STEPS} are allowed"
    for step in (*steps, (at, 0, elements)):
        if not isinstance(step, list | tuple) or [type(x) for x in step] != [int] * 3:
            return f"{step!r:.80}, not three whole numbers"
        d, s, count = step
        if count < 1 or min(d, s) < 0 or max(d, s) + count > whole:
            return f"{step} leaves acc[0:{whole}]"
    return ""


def cycles_of_sums(answer: Answer, rng: Rng) -> float | Outcome:
    """Add up the cycles of moving sums of WINDOWS drawn lengths, after checking their results."""
    total = 0
    for _ in range(WINDOWS):
        elements, window = int(rng.integers(100, 400)), int(rng.integers(20, 120))
        made, case = answer(elements, window), f"moving_sum({elements}, {window})"
        if wrong := no_steps(made, elements, window):
            return failed("wrong-type", expected="steps", got=wrong, case=case)
        program = moving_sums(elements, window, *made)
        verdict = accel.verify(program, vta.vta_pynq)
        if not verdict.ok:
            got, why = (
                accel.explain(program, verdict).split("\n")[0],
                "a sum can be read three elements after it was written",
            )
            return failed("hazard", expected="ok", got=got[:200], case=case, why=why)
        a = rng.integers(-99, 99, (elements + window - 1, 1, 16)).astype("int32")
        run = accel.simulate(program, vta.vta_pynq, {"A": a})
        want = np.lib.stride_tricks.sliding_window_view(a, window, axis=0).sum(axis=-1)
        wrong_at = np.argwhere(run.outputs["C"].reshape(want.shape) != want.astype("int8"))
        if len(wrong_at):
            got = f"the sum of element {wrong_at[0][0]} is wrong"
            return failed("wrong-value", expected="all sums", got=got, case=case)
        total += run.cycles
    return float(total)


def term_by_term(elements, window):
    """Return the stub: add all terms, one after the other, to the zeros."""
    m = elements + window - 1
    return [(m, w, elements) for w in range(window)], m


def in_eights(elements, window):
    """Return the reference: single terms, then sums of eight terms, made by three doublings."""
    m, single = elements + window - 1, window % 8
    steps = [(m, w, elements) for w in range(single)]
    steps += [(0, size, m - 2 * size + 1) for size in (1, 2, 4)]
    return [*steps, *((m, w, elements) for w in range(single, window, 8))], m


EXERCISE = Exercise(
    "ex08",
    "tensorize_and_vta",
    (
        Item(
            "ex08.1",
            "declare gemm8x8",
            5,
            "gemm8x8",
            (
                Part("correctness", "the formula: w times x transposed", 0.2, right_formula),
                statement(
                    "compute",
                    "compute: z = the product",
                    lambda z, product: product,
                    "z[i, j] begins with 0, then w[i, k] * x[j, k] is added for each of the 8 k",
                ),
                statement(
                    "reset",
                    "reset: z = 0",
                    lambda z, product: 0 * z,
                    "all 64 numbers become 0, and nothing is added",
                ),
                statement(
                    "update",
                    "update: z = z + the product",
                    lambda z, product: z + product,
                    "w[i, k] * x[j, k] is added to z[i, j], for each of the 8 k",
                ),
                Part("property", "anywhere in larger matrices", 0.2, anywhere),
            ),
            (
                "Begin with the formula: 8 x 8 sums over k. Both factors are int8: convert each of"
                " them with .astype('int32') before they are multiplied.",
                "One function of your own can write the loops of all three statements, with two"
                " flags: whether to store 0 first, and whether to add the products.",
                "for i, for j: z[i, j] = 0 with the first flag; with the second, for k: z[i, j] ="
                " z[i, j] + w[i, k].astype('int32') * x[j, k].astype('int32'). compute needs both"
                " flags, reset the first, update the second.",
            ),
            "notebook 08, section 4",
        ),
        Item(
            "ex08.2",
            "a layer on the accelerator",
            5,
            "product",
            (
                runs_on_accelerator(
                    layers,
                    title="right to the last bit, and nothing found by the verifier",
                    weight=0.4,
                    why=STEPS,
                ),
                runs_on_accelerator(
                    layers,
                    SMALL,
                    title="the same on a small machine, where it does not fit all at once",
                    kind="property",
                    weight=0.6,
                    why=ROOM,
                ),
            ),
            (
                "Write it for the large machine first: `multiply` of notebook 08 for the product,"
                " and `with_bias` for what comes after it. All steps and the bias live in ACC.",
                "In the small one the sums do not fit. Split both axes of C by factors that divide"
                " them, reorder, and compute the product, the steps and the bias at the inner loop"
                " over tiles. The bias needs elements of ACC, too: 256 sums do not fit beside it.",
                "A tile of 16 rows and 8 columns has 128 sums and 8 numbers of the bias. For each"
                " step: set_scope(env.acc_scope), compute_at(s[C], xo), pragma(its first axis,"
                " env.alu); the bias is copied instead, with env.dma_copy. The product is reordered"
                " to ko, y, x, yi, xi, ki, and the copies of A and B are computed at its ko.",
            ),
            "notebook 08, sections 5 and 6",
        ),
        Item(
            "ex08.3",
            "few bytes",
            4,
            "few_bytes",
            (*on_both("the small machine", 0.5, SMALL), *on_both("the other machine", 0.5, OTHER)),
            (
                "With tiles of 64 rows and 4 blocks of columns, A is fetched twice and B twice."
                " Which of the two could be fetched only once?",
                "A copy at the outer one of the loops over tiles stays there for all tiles inside."
                " Half of the columns of B are 32 matrices, half of the rows of A are 512 elements:"
                " which of them fits?",
                "Where half of B fits: the loop over tiles of columns outside, over tiles of rows"
                " inside, B_buf at the outer one. Otherwise the other way round, with A_buf. What"
                " stays is loaded right after a store, hence s[C].pragma(y, env.coproc_sync)"
                " beside the other pragma of C.",
            ),
            "notebook 08, sections 6 and 7",
        ),
    ),
    puzzles=PUZZLES,
    challenge=Challenge(
        "08.challenge",
        "moving sums",
        "moving_sum",
        "cycles",
        cycles_of_sums,
        term_by_term,
        in_eights,
        minutes=45,
        best_known=43_733,  # a search over pairs of lengths, one in each half of ACC
        hints=(
            "A sum of 8 terms is two sums of 4 terms, 4 elements apart. An `add` may read the"
            " elements that it is about to write: ahead of it they still have their old values.",
            "Two lengths can be kept, one in the upper half and one in the lower one. Which pairs"
            " of lengths lead to `window` in the fewest steps?",
        ),
        section="notebook 08, sections 2 and 7",
    ),
)
