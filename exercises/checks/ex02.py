# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 02: a sum becomes loops, and a pass over loops."""

from itertools import product
from math import copysign

import numpy as np

from minitvm import te, tir
from minitvm.driver import lower
from minitvm.edu import (
    PASSED,
    Answer,
    Exercise,
    Item,
    Outcome,
    Part,
    Rng,
    failed,
    problem,
    same_text,
    wrong_element,
    wrong_type,
)
from minitvm.testing import difference

TAIL = (
    "where the factor does not divide the number of terms, the last piece is shorter: the outer "
    "loop needs one more iteration, and a condition keeps the terms out that do not exist"
)
LINES = "the loops in the text of the exercise are the model, with their names and order"
ORDER = (
    "the sum runs from the last term to the first: a term that is large swallows what was added"
    " before it, so another order gives another sum"
)
UNSET = (
    "nan is what C held before: each of its elements is set to 0 before the first term is added,"
    " and no element is left out"
)
EXACT = (
    "x * 0 is not 0 where x is infinite or no number, -0.0 + 0.0 is 0.0, and x - -0.0 is x + 0.0: "
    "what looks like the same in mathematics may be something else in floating point"
)
LEFT = "each rule holds everywhere: on both sides, inside other expressions, in every loop"

# --- lower_reduce --------------------------------------------------------------------------------


def summed(kind, sizes, terms):
    """Return A, B and a sum over k of `terms` terms, with one to three data axes."""
    k = te.reduce_axis((0, terms), name="k")
    if kind == "matrix times vector":
        A = te.placeholder((sizes[0], terms), name="A")
        B = te.placeholder((terms,), name="B")
        C = te.compute(sizes, lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
    elif kind == "differences":
        A = te.placeholder((sizes[0], terms), name="A")
        B = te.placeholder((sizes[1], terms), name="B")
        C = te.compute(sizes, lambda i, j: te.sum(A[i, k] - B[j, k], axis=k), name="C")
    else:
        A = te.placeholder((sizes[0], sizes[1], terms), name="A")
        B = te.placeholder((sizes[0], terms, sizes[2]), name="B")
        C = te.compute(sizes, lambda b, i, j: te.sum(A[b, i, k] * B[b, k, j], axis=k), name="C")
    return A, B, C


def sums(*, divides):
    """Return a function that draws a sum and a factor that divides its terms, or does not."""

    def arguments(rng):
        dims = int(rng.integers(1, 4))
        kind = ("matrix times vector", "differences", "batch of products")[dims - 1]
        sizes = [int(n) for n in rng.integers(2, 4, dims)]
        factor, pieces = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        terms = factor * pieces - (0 if divides else int(rng.integers(1, factor)))
        return problem(summed, kind, sizes, terms), factor

    return arguments


def lower_reduce(A, B, C, factor):
    """Return the reference answer: loops that add the terms from the last to the first."""
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in (A, B, C)}
    loops = {a: tir.Var(a.name, 0, a.extent - 1) for a in C.op.axis}
    (k,) = C.op.reduce_axis
    pieces = -(-k.extent // factor)
    outer = tir.Var(f"{k.name}_outer", 0, pieces - 1)
    inner = tir.Var(f"{k.name}_inner", 0, factor - 1)
    done = outer * factor + inner
    c, at = memory[C], tuple(loops.values())
    term = tir.substitute(C.op.body[0].sources[0], {**loops, k: k.extent - 1 - done})
    update = tir.Store(c, at, tir.Load(c, at, c.dtype) + tir.rebuffer(term, memory))
    if k.extent % factor:
        update = tir.If(done < k.extent, update, likely=True)
    init = tir.Store(c, at, tir.const(0.0, c.dtype))
    body = tir.seq(init, tir.For(outer, pieces, tir.For(inner, factor, update)))
    for axis, var in reversed(loops.items()):
        body = tir.For(var, axis.extent, body)
    return tir.PrimFunc("main", tuple(memory.values()), body, (c,))


def numbers(A, B, C, rng):
    """Draw small integers for A and B, and two large ones of A that cancel out.

    Small numbers that are added to a large one are lost, so the sum depends on the order of terms.
    """
    a, b = (rng.integers(1, 4, t.shape).astype("float32") for t in (A, B))
    at = int(rng.integers(1, A.shape[-1] - 1))
    a[..., at - 1], a[..., at] = 2.0**33, -(2.0**33)
    if len(C.shape) == 2:  # A - B
        b[..., at - 1 : at + 1] = 0
    else:
        b[..., at - 1 : at + 1, *[slice(None)] * (len(b.shape) > 1)] = 1
    return a, b


def right_sums(title: str, cases: int, why: str, *, divides: bool) -> Part:
    """Make a part that checks sums to the last bit, because they reveal the order of the terms."""

    def check(answer: Answer, rng: Rng) -> Outcome:
        for n in range(cases):
            args = sums(divides=divides)(rng)
            A, B, C = args[0].values
            made, factor = answer(*args), args[1]
            if not isinstance(made, tir.PrimFunc):
                return wrong_type("a loop program", made)
            a, b = numbers(A, B, C, rng)
            got, want, forwards = (np.full(C.shape, np.nan, "float32") for _ in range(3))
            tir.interpret(lower_reduce(A, B, C, factor), a, b, want)
            tir.interpret(lower(te.create_schedule(C.op), [A, B, C], until="nest"), a, b, forwards)
            tir.interpret(made, a, b, got)
            usual = ORDER if np.array_equal(got, forwards) else why
            usual = UNSET if np.isnan(got).any() else usual
            case = f"case {n + 1}: {args[0].name}{args[0].arguments}, factor {factor}"
            if wrong := wrong_element(got, want, 0, 0, case, usual):
                return wrong
        return PASSED

    return Part("correctness", title, 0.1, check)


# --- simplify ------------------------------------------------------------------------------------


def wordy(n, once, floats, ints):
    """Return loops for Y = X and M = N with redundant operations.

    once     where to add a loop with one iteration: "around" the loop, "inside" it, or both
    floats   the operations on an element of X before it is stored in Y; `ints`: on N, for M
    """
    made = []
    for source, target, dtype, steps in (("X", "Y", "float32", floats), ("N", "M", "int32", ints)):
        kind = tir.const(0, dtype).dtype
        i, u, v = tir.Var("i", 0, n - 1), tir.Var("u", 0, 0), tir.Var("v", 0, 0)
        at = i + (u if "around" in once else 0) + (v if "inside" in once else 0)
        x = tir.Load(tir.Buffer(source, (n,), kind), (at,), kind)
        for step in steps:
            x = {
                "x * 1": x * 1, "1 * x": 1 * x, "x - 0": x - 0, "x + 0": x + 0, "0 + x": 0 + x,
                "x - -0.0": x - tir.const(-0.0 if dtype == "float32" else 3, dtype),
                "0 - x": 0 - x, "x * 0": x * 0, "x + 1": x + 1, "x - 1": x - 1, "2 * x": 2 * x,
            }[step]  # fmt: skip
        s = tir.Store(tir.Buffer(target, (n,), kind), (at,), x)
        s = tir.For(i, n, tir.For(v, 1, s) if "inside" in once else s)
        made.append(tir.For(u, 1, s) if "around" in once else s)
    return tir.seq(*made)


NEUTRAL = ("x * 1", "1 * x", "x - 0")  # for every type
ZERO = ("x + 0", "0 + x")  # only for integers: -0.0 + 0.0 is 0.0
OTHER = ("x - -0.0", "0 - x", "x * 0", "x + 1", "x - 1", "2 * x")
STEPS = NEUTRAL + ZERO + OTHER
ONCE = (["around"], ["inside"], ["around", "inside"])
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0)


def words(floats, ints, once=((),)):
    """Return a function that draws arguments of simplify: each given step once, in random order."""

    def arguments(rng):
        loops = once[int(rng.integers(len(once)))]
        shuffled = [[str(x) for x in rng.permutation(steps)] for steps in (floats, ints)]
        return (problem(wordy, len(SPECIAL), list(loops), *shuffled),)

    return arguments


def simplify(s):
    """Return the reference answer: `s` without redundant operations and loops."""

    def on_expr(e):
        match e:
            case tir.Binary("mul", x, tir.Const(1)) | tir.Binary("mul", tir.Const(1), x):
                return x
            case tir.Binary("sub", x, tir.Const(0 as zero)) if copysign(1, zero) > 0:
                return x  # x - -0.0 is x + 0.0
            case tir.Binary("add", x, tir.Const(0)) | tir.Binary("add", tir.Const(0), x):
                return e if e.dtype.is_float else x
            case _:
                return e

    def on_stmt(s):
        match s:
            case tir.For(var, 1, body):
                return tir.substitute(body, {var: 0})
            case _:
                return s

    return tir.rewrite(s, on_stmt, on_expr)


def buffers(s):
    """Return name -> buffer for all buffers that `s` loads or stores."""
    return {n.buffer.name: n.buffer for n in tir.walk(s) if isinstance(n, tir.Load | tir.Store)}


def results(s, like):
    """Run the statement `s` with the buffers of the program `like`; return Y and M."""
    params = tuple((buffers(like) | buffers(s))[name] for name in ("X", "Y", "N", "M"))
    x, n = np.array(SPECIAL, "float32"), np.arange(-3, 4, dtype="int32")
    y, m = np.full_like(x, 77), np.full_like(n, 77)
    tir.interpret(tir.PrimFunc("main", params, s, (params[1], params[3])), x, y, n, m)
    return y, m


def unchanged(answer: Answer, rng: Rng) -> Outcome:
    """Check that Y and M stay the same to the last bit, for each step alone and with others."""
    for step, others in product(STEPS, (0, 2)):
        steps = [[step, *map(str, rng.permutation(STEPS)[:others])] for _ in "XN"]
        loops = list(ONCE[int(rng.integers(len(ONCE)))])
        given = problem(wordy, len(SPECIAL), loops, *steps)
        (s,), made = given.values, answer(given)
        if not isinstance(made, tir.Stmt):
            return wrong_type("a statement, as s is", made)
        if where := difference_of(results(made, s), results(s, s)):
            return failed(
                "wrong-value",
                expected="what the program computed before",
                got="other values",
                where=where,
                case=f"before:\n{tir.text(s)}\nafter:\n{tir.text(made)}",
                why=EXACT,
            )
    return PASSED


def difference_of(got, want):
    """Describe where two results (Y, M) differ; "" if they are equal."""
    with np.errstate(divide="ignore"):  # 1 / -0.0 is -inf: a difference that == does not see
        names = {"Y": (got[0], want[0]), "1 / Y": (1 / got[0], 1 / want[0]), "M": (got[1], want[1])}
    found = ((name, difference(*pair)) for name, pair in names.items())
    return next((f"{name}{where}" for name, where in found if where), "")


# --- the items -----------------------------------------------------------------------------------

EXERCISE = Exercise(
    "ex02",
    "lowering_loop_nests",
    (
        Item(
            "ex02.1",
            "a sum becomes loops",
            4,
            "lower_reduce",
            (
                right_sums(
                    "the right sums where the factor divides the number of terms",
                    2,
                    "first 0, outside of the loops over terms; then one term after another",
                    divides=True,
                ),
                right_sums("the right sums where it does not", 3, TAIL, divides=False),
                same_text(
                    lower_reduce,
                    sums(divides=True),
                    title="line by line the loops that are asked for, no condition",
                    weight=0.4,
                    why=LINES,
                ),
                same_text(
                    lower_reduce,
                    sums(divides=False),
                    title="line by line the loops that are asked for, with the condition",
                    weight=0.4,
                    why=LINES,
                ),
            ),
            (
                "Write down what the loops look like for a sum of 10 terms and a factor of 4, then"
                " build them from the inside out: the update, its condition, the loops, the init.",
                "The term is C.op.body[0].sources[0], with variables in place of axes"
                " (tir.substitute) and buffers in place of tensors (tir.rebuffer). There are"
                " -(-terms // factor) pieces. After k_outer * factor + k_inner terms, which one is"
                " next, counted from the end?",
                "k is terms - 1 - (k_outer * factor + k_inner) in the term. update = tir.Store(c,"
                " at, tir.Load(c, at, c.dtype) + term); where terms % factor is not 0,"
                " tir.If(k_outer * factor + k_inner < terms, update, likely=True). Then"
                " tir.seq(init, tir.For(k_outer, pieces, tir.For(k_inner, factor, update))), and"
                " a tir.For around it for each data axis, the last one first.",
            ),
            "notebook 02, sections 1 and 2",
        ),
        Item(
            "ex02.2",
            "a pass that says it shorter",
            4,
            "simplify",
            (
                Part("correctness", "the results stay the same to the last bit", 0.0, unchanged),
                same_text(
                    simplify,
                    words((), (), ONCE),
                    title="loops that run once are gone",
                    weight=0.25,
                    why="the body stays; and what is its variable then?",
                ),
                same_text(
                    simplify,
                    words((*NEUTRAL, *OTHER), (*NEUTRAL, *OTHER)),
                    title="x * 1, 1 * x and x - 0 are gone, and nothing else (x - -0.0 stays)",
                    weight=0.25,
                    why=LEFT,
                ),
                same_text(
                    simplify,
                    words((*ZERO, *OTHER), (*ZERO, *OTHER)),
                    title="x + 0 and 0 + x are gone for integers, and kept for floats",
                    weight=0.25,
                    why=LEFT,
                ),
                same_text(
                    simplify,
                    words(STEPS, STEPS, ONCE),
                    title="all of it at once",
                    weight=0.25,
                    why=LEFT,
                ),
            ),
            (
                "tir.rewrite(s, on_stmt, on_expr) goes through the whole program, from the inside"
                " out; each of the two functions looks at one node and returns it, or another one,"
                " but never nothing: a function without `return` returns None.",
                "tir.Binary has an op ('mul', 'add', 'sub'), a and b; tir.Const has a value; and"
                " e.dtype.is_float tells floats. With `match` a rule is a line:"
                " case tir.Binary('mul', x, tir.Const(1)): return x. Which of the two zeros does"
                " tir.Const(0) match?",
                "case tir.For(var, 1, body): return tir.substitute(body, {var: 0}) is the rule for"
                " loops. Rules for *: x * 1 and 1 * x; for -: x - 0 only; for +: x + 0 and 0 + x,"
                " unless e.dtype.is_float.",
            ),
            "notebook 02, section 6",
        ),
    ),
)
