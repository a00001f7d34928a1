# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 08: an instruction declared, a product on the accelerator, the same with few bytes."""

from dataclasses import replace

import numpy as np

from minitvm import te, vta
from minitvm.base import TVMError
from minitvm.driver import lower
from minitvm.edu import (
    MAX_COMPUTED,
    PASSED,
    Answer,
    AnswerError,
    Exercise,
    Item,
    Outcome,
    Part,
    Rng,
    at_most,
    bytes_moved,
    computed_elements,
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


def matrices(rng: Rng):
    """Return the arguments: a product of two 128 x 128 matrices."""
    return (problem(packed_product, 128, 8, 8),)


def keep_weights(A, B, A_buf, B_buf, C_buf, C, gemm):
    """Return the reference schedule: keep half of B on the chip for all rows of A, 64 at a time."""
    return scheduled(A_buf, B_buf, C_buf, C, gemm, 64, 4, order="columns", keep="B")


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


def few(factor: float, worst: float, title: str, weight: float, why: str) -> Part:
    """Make a part that allows `factor` times the bytes of the reference on the small machine."""
    part = at_most(
        bytes_moved, keep_weights, matrices, factor=factor, worst=worst, unit="bytes",
        message="too-many-bytes", title=title, weight=weight, why=why, target="vta",
    )  # fmt: skip
    return on_machine(SMALL, part)


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
                " questions: shall it store 0 first? shall it add the products?",
                "for i, for j: z[i, j] = 0 if asked to; then if asked to, for k: z[i, j] = z[i, j]"
                " + w[i, k].astype('int32') * x[j, k].astype('int32'). compute asks for both,"
                " reset for the first, update for the second.",
            ),
            "notebook 08, section 4",
        ),
        Item(
            "ex08.2",
            "a product on the accelerator",
            5,
            "product",
            (
                runs_on_accelerator(
                    matrices,
                    title="right to the last bit, and nothing found by the verifier",
                    weight=0.4,
                    why=STEPS,
                ),
                runs_on_accelerator(
                    matrices,
                    SMALL,
                    title="the same on a small machine, where it does not fit all at once",
                    kind="property",
                    weight=0.6,
                    why=ROOM,
                ),
            ),
            (
                "Write it for the large machine first, as `multiply` in notebook 08: scopes, three"
                " transfers, the order of the loops of C_buf, the instruction.",
                "In the small one the sums do not fit. Split the first axis of C by 32 and the"
                " second by 8, reorder, and compute C_buf at the inner loop over tiles.",
                "Of C: y, x, _, _ = s[C].op.axis; yo, y = s[C].split(y, factor=32);"
                " xo, x = s[C].split(x, factor=8); s[C].reorder(yo, xo, y, x);"
                " s[C].pragma(y, env.dma_copy). s[C_buf].compute_at(s[C], xo). Of C_buf, with"
                " y, x, yi, xi = s[C_buf].op.axis and ko, ki = s[C_buf].op.reduce_axis:"
                " s[C_buf].reorder(ko, y, x, yi, xi, ki). s[A_buf] and s[B_buf]"
                " .compute_at(s[C_buf], ko).",
            ),
            "notebook 08, sections 5 and 6",
        ),
        Item(
            "ex08.3",
            "few bytes",
            4,
            "few_bytes",
            (
                runs_on_accelerator(
                    matrices,
                    SMALL,
                    title="right on the small machine",
                    weight=0.1,
                    why=f"{STEPS}; {ROOM}",
                ),
                few(1.25, 1.499, "at most 1.25 times the bytes of the best tiles", 0.3, SHAPE),
                few(1.1, 1.249, "at most 1.1 times the bytes of the best tiles", 0.6, FETCHED),
            ),
            (
                "With tiles of 64 rows and 4 blocks of columns, A is fetched twice and B twice."
                " Which of the two could come only once?",
                "B_buf at the outer one of the loops over tiles stays there for all tiles inside."
                " Half of the columns of B are 32 matrices: they just fit.",
                "Loop over tiles of columns outside, over tiles of rows inside, B_buf at the outer"
                " one. It is then loaded right after a store, hence s[C].pragma(y,"
                " env.coproc_sync) beside the other pragma of C.",
            ),
            "notebook 08, sections 6 and 7",
        ),
    ),
)
