# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 02: a sum becomes loops, and a pass over loops."""

from dataclasses import replace
from itertools import product
from math import copysign

import numpy as np

from minitvm import lowering, te, tir, viz
from minitvm.accesses import record
from minitvm.base import VerifyError
from minitvm.driver import lower
from minitvm.edu import (
    PASSED,
    Answer,
    Challenge,
    Exercise,
    Item,
    NumberGrid,
    Outcome,
    Part,
    Puzzle,
    Rng,
    at_most,
    equal,
    failed,
    on_schedule,
    problem,
    same_text,
    schedule_correct,
    wrong_element,
    wrong_type,
)
from minitvm.testing import difference

TAIL = (
    "where the factor does not divide the number of terms, the last piece is shorter: the outer "
    "loop needs one more iteration, and a condition skips the terms that do not exist"
)
LINES = "write the loops as in the text of the exercise, with the same names and order"
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
    "what is equal in mathematics may differ in floating point"
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


def wordy(counts, floats, ints):
    """Return loops for Y = X and M = N with redundant operations, around and inside one of 7.

    counts   the iterations of the loop around that one and of the loop inside it
    floats   the operations on an element of X before it is stored in Y; `ints`: on N, for M
    """
    around, inside = counts
    made = []
    for source, target, dtype, steps in (("X", "Y", "float32", floats), ("N", "M", "int32", ints)):
        kind, size = tir.const(0, dtype).dtype, around * 7 * inside
        u, i, v = tir.Var("u", 0, around - 1), tir.Var("i", 0, 6), tir.Var("v", 0, inside - 1)
        at = (u * 7 + i) * inside + v
        x = tir.Load(tir.Buffer(source, (size,), kind), (at,), kind)
        for step in steps:
            x = {
                "x * 1": x * 1, "1 * x": 1 * x, "x - 0": x - 0, "x + 0": x + 0, "0 + x": 0 + x,
                "x - -0.0": x - tir.const(-0.0 if dtype == "float32" else 3, dtype),
                "0 - x": 0 - x, "x * 0": x * 0, "x + 1": x + 1, "x - 1": x - 1, "2 * x": 2 * x,
            }[step]  # fmt: skip
        s = tir.Store(tir.Buffer(target, (size,), kind), (at,), x)
        made.append(tir.For(u, around, tir.For(i, 7, tir.For(v, inside, s))))
    return tir.seq(*made)


NEUTRAL = ("x * 1", "1 * x", "x - 0")  # for every type
ZERO = ("x + 0", "0 + x")  # only for integers: -0.0 + 0.0 is 0.0
OTHER = ("x - -0.0", "0 - x", "x * 0", "x + 1", "x - 1", "2 * x")
STEPS = NEUTRAL + ZERO + OTHER
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0)


def words(floats, ints, *, loops=False):
    """Return a function that draws arguments of simplify: each given step once, in random order.

    loops   whether one of the two loops is short enough to be replaced, and the other just not
    """

    def arguments(rng):
        most = int(rng.integers(2, 4))
        counts = [most, most + 1] if loops else [most + 2, most + 3]
        shuffled = [[str(x) for x in rng.permutation(steps)] for steps in (floats, ints)]
        return problem(wordy, [int(n) for n in rng.permutation(counts)], *shuffled), most

    return arguments


def simplify(s, most):
    """Return the reference answer: `s` without redundant operations and short loops."""

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
            case tir.For(var, extent, body) if extent <= most:
                copies = [tir.substitute(body, {var: n}) for n in range(extent)]
                return tir.seq(*copies)
            case _:
                return s

    return tir.rewrite(s, on_stmt, on_expr)


def buffers(s):
    """Return name -> buffer for all buffers that `s` loads or stores."""
    return {n.buffer.name: n.buffer for n in tir.walk(s) if isinstance(n, tir.Load | tir.Store)}


def results(s, like):
    """Run the statement `s` with the buffers of the program `like`; return Y and M."""
    params = tuple((buffers(like) | buffers(s))[name] for name in ("X", "Y", "N", "M"))
    x = np.resize(np.array(SPECIAL, "float32"), params[0].shape)
    n = np.arange(len(x), dtype="int32") - 3
    y, m = np.full_like(x, 77), np.full_like(n, 77)
    tir.interpret(tir.PrimFunc("main", params, s, (params[1], params[3])), x, y, n, m)
    return y, m


def unchanged(answer: Answer, rng: Rng) -> Outcome:
    """Check that Y and M stay the same to the last bit, for each step alone and with others."""
    for step, others in product(STEPS, (0, 2)):
        steps = [[step, *map(str, rng.permutation(STEPS)[:others])] for _ in "XN"]
        counts = [int(n) for n in rng.integers(1, 4, 2)]
        most = int(rng.integers(1, 3))
        given = problem(wordy, counts, *steps)
        (s,), made = given.values, answer(given, most)
        if not isinstance(made, tir.Stmt):
            return wrong_type("a statement, as s is", made)
        if where := difference_of(results(made, s), results(s, s)):
            return failed(
                "wrong-value",
                expected="what the program computed before",
                got="other values",
                where=where,
                case=f"most = {most}, before:\n{tir.text(s)}\nafter:\n{tir.text(made)}",
                why=EXACT,
            )
    return PASSED


def difference_of(got, want):
    """Describe where two results (Y, M) differ; "" if they are equal."""
    with np.errstate(
        divide="ignore", over="ignore"
    ):  # 1 / -0.0 is -inf: a difference that == does not see
        names = {"Y": (got[0], want[0]), "1 / Y": (1 / got[0], 1 / want[0]), "M": (got[1], want[1])}
    found = ((name, difference(*pair)) for name, pair in names.items())
    return next((f"{name}{where}" for name, where in found if where), "")


# --- the items -----------------------------------------------------------------------------------

# --- puzzles -------------------------------------------------------------------------------------


def product_of(n, m, terms):
    A, B = te.placeholder((n, terms), name="A"), te.placeholder((terms, m), name="B")
    r = te.reduce_axis((0, terms), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return A, B, C


def some_product(rng):
    return (problem(product_of, *(int(n) for n in rng.integers(3, 8, 3))),)


def a_column_at_a_time(s, C):
    (i, j), (r,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(j, r, i)


def growing(s, tensors):
    """Draw which elements of C are being added up at the same time as C[0, 0]."""
    C = tensors[-1]
    leaves = s[C].leaf_iter_vars
    first = min(n for n, leaf in enumerate(leaves) if leaf.kind == "reduce")
    grid = np.full(C.shape, -1)
    inside = set(leaves[first:])
    grid[tuple(slice(None) if axis in inside else 0 for axis in C.op.axis)] = 1
    return NumberGrid("the elements of C that grow together with C[0, 0]", grid)


def sums_at_once(s, tensors):
    return float(np.sum(growing(s, tensors).numbers > 0))


def blurred(rows, columns):
    image = te.placeholder((rows + 2, columns + 2), name="image")
    blur_x = te.compute(
        (rows + 2, columns),
        lambda y, x: (image[y, x] + image[y, x + 1] + image[y, x + 2]) / 3,
        name="blur_x",
    )
    blur = te.compute(
        (rows, columns),
        lambda y, x: (blur_x[y, x] + blur_x[y + 1, x] + blur_x[y + 2, x]) / 3,
        name="blur",
    )
    return image, blur_x, blur


def some_image(rng):
    return (problem(blurred, 4 * int(rng.integers(2, 5)), int(rng.integers(6, 12))),)


def strips(s, blur_x, blur):
    y, _x = s[blur].op.axis
    outer, _inner = s[blur].split(y, factor=4)
    s[blur_x].compute_at(s[blur], outer)


def memory(s, tensors):
    """Count the elements of memory for blur_x."""
    loops = lower(s, tensors, until="nest")
    shapes = [n.buffer.shape for n in tir.walk(loops.body) if isinstance(n, tir.Allocate)]
    return float(sum(np.prod(np.array(shape, int)) for shape in shapes))


def computed(s, tensors):
    """Count the elements of blur_x that are computed."""
    trace = record(s, tensors)
    (n,) = (n for n, b in enumerate(trace.buffers) if b.name == "blur_x")
    return float(np.sum(trace.write & (trace.buffer == n)))


def memory_and_work(s, tensors):
    scores = {"memory": memory(s, tensors), "computed": computed(s, tensors)}
    return viz.ScoreBars(scores, "elements of blur_x")


def some_split(rng):
    return int(rng.integers(1, 100)), int(rng.integers(1, 20))


def idle(n, factor):
    return -n % factor


def work_and_rest(count, arguments):
    n, _factor = arguments
    return viz.ScoreBars({"idle": float(count), "with an element": float(n)}, "iterations")


# --- the challenge -------------------------------------------------------------------------------

MOST_STORES = 12


def thirds(rows, columns):
    """Return a program that stores V[i, j] / 4 + V[i, j] / 3 - V[i, j] * 2, in pieces of four."""
    V = te.placeholder((rows, columns), name="V")
    W = te.compute((rows, columns), lambda i, j: V[i, j] / 4 + V[i, j] / 3 - V[i, j] * 2, name="W")
    s = te.create_schedule(W.op)
    s[W].split(W.op.axis[1], factor=4)
    return lower(s, [V, W], until="nest").body


def operations(node):
    """Count the operations of one node, for each lane of a vector; indices are free."""
    match node:
        case tir.Binary("div", _, _):
            return 3 * tir.lanes(node)
        case tir.Call():
            return 10 * tir.lanes(node)
        case tir.Binary() | tir.Compare() | tir.Load() | tir.Select() | tir.IfThenElse():
            return tir.lanes(node)
        case _:
            return 0


def counted(s, counter):
    """Return `s` with stores that add operations to counter[0]; an iteration counts 4."""

    def tick(count):
        return tir.Store(counter, (0,), tir.Load(counter, (0,), counter.dtype) + count)

    def rule(s):
        match s:
            case tir.Store(_, _, value):
                count = tir.lanes(value) + sum(operations(e) for e in tir.walk(value))
                return tir.seq(tick(count), s)
            case tir.If(condition, _, _, _):
                return tir.seq(tick(1 + sum(operations(e) for e in tir.walk(condition))), s)
            case tir.For(body=body):
                return replace(s, body=tir.seq(tick(4), body))
            case _:
                return s

    return tir.rewrite(s, stmt=rule)


def done(s, like, v):
    """Run `s`, which reads V and stores W as `like` does; return W and the count of operations."""
    memory = buffers(like) | buffers(s)
    counter = tir.Buffer("operations", (1,), tir.const(0, "int64").dtype)
    params = (memory["V"], memory["W"], counter)
    w, count = np.full_like(v, 77), np.zeros(1, "int64")
    tir.interpret(tir.PrimFunc("main", params, counted(s, counter), params[1:]), v, w, count)
    return w, count[0]


def operations_done(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the operations that the program of an answer does, if its results are right."""
    rows, columns = int(rng.integers(16, 24)), 4 * int(rng.integers(5, 9)) + int(rng.integers(1, 4))
    given = problem(thirds, rows, columns)
    (s,), made = given.values, answer(given)
    if not isinstance(made, tir.Stmt):
        return wrong_type("a statement, as s is", made)
    stores = sum(isinstance(n, tir.Store) for n in tir.walk(made))
    if stores > MOST_STORES:
        return failed("too-long", f"at most {MOST_STORES} stores", f"{stores} stores")
    v = rng.choice(np.array([*SPECIAL, 1e-45, 7.0, -3e38], "float32"), (rows, columns))
    want, _ = done(s, s, v)
    try:
        w, count = done(made, s, v)
    except VerifyError as error:
        return failed("wrong-value", "a program that runs", str(error))
    if where := difference_of((w, w), (want, want)):
        return failed("wrong-value", "the same bits as before", "other values", where=where)
    return float(count)


def unchanged_program(s):
    return s


def without_divisions_guards_and_short_loops(s):
    def rule(e):
        match e:
            case tir.Binary("div", x, tir.Const(4)):
                return x * 0.25
            case _:
                return e

    passes = {run.__name__: run for run in lowering.PASSES["llvm"]}
    return simplify(passes["tighten"](passes["partition"](tir.rewrite(s, expr=rule))), 4)


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
            "a pass that writes loops out",
            4,
            "simplify",
            (
                Part("correctness", "the results stay the same to the last bit", 0.0, unchanged),
                same_text(
                    simplify,
                    words((), (), loops=True),
                    title="loops of `most` iterations are written out, longer ones stay",
                    weight=0.25,
                    why="one copy of the body for each iteration, in order; and what is the"
                    " variable of the loop in each of them?",
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
                    words(STEPS, STEPS, loops=True),
                    title="all of it at once",
                    weight=0.25,
                    why=LEFT,
                ),
            ),
            (
                "tir.rewrite(s, stmt=..., expr=...) goes through the whole program, from the inside"
                " out; each of the two functions gets a node and returns it, or another one. A"
                " function without `return` returns None, which is not a node.",
                "tir.Binary has an op ('mul', 'add', 'sub'), a and b; tir.Const has a value; and"
                " e.dtype.is_float tells floats. With `match` a rule is a line:"
                " case tir.Binary('mul', x, tir.Const(1)): return x. Which of the two zeros does"
                " tir.Const(0) match?",
                "case tir.For(var, extent, body) if extent <= most is the rule for loops: copy n"
                " is tir.substitute(body, {var: n}), and tir.seq(*copies) puts them in order. Rules"
                " for *: x * 1 and 1 * x; for -: x - 0 only; for +: x + 0 and 0 + x, unless"
                " e.dtype.is_float.",
            ),
            "notebook 02, section 6",
        ),
    ),
    puzzles=(
        Puzzle(
            "02.column",
            "a column at a time",
            "a_column_at_a_time",
            (
                same_text(
                    on_schedule(a_column_at_a_time),
                    some_product,
                    why="what lies inside the outermost loop over terms is added up at the same"
                    " time: all of a column, and nothing else",
                ),
            ),
            lambda rng: (problem(product_of, 4, 6, 5),),
            a_column_at_a_time,
            (
                "One column at a time: which loop is the outermost one?",
                "The loop over terms comes next, and the rows are inside of it.",
            ),
            "notebook 02, section 2",
            picture=growing,
            cost=sums_at_once,
            unit="sums at the same time",
        ),
        Puzzle(
            "02.strips",
            "a blur in strips of four rows",
            "strips",
            (
                schedule_correct(some_image),
                at_most(
                    memory,
                    on_schedule(strips),
                    some_image,
                    unit="elements of memory",
                    message="too-much-memory",
                    why="four rows of blur need six rows of blur_x",
                ),
                at_most(
                    computed,
                    on_schedule(strips),
                    some_image,
                    unit="elements of blur_x",
                    message="too-much-work",
                    why="within a strip each row of blur_x should be computed once",
                ),
            ),
            lambda rng: (problem(blurred, 8, 10),),
            strips,
            (
                "compute_at names the loop inside of which blur_x is computed.",
                "In one iteration of `outer`, four rows of blur are computed.",
            ),
            "notebook 02, section 3",
            picture=memory_and_work,
            cost=computed,
            unit="elements of blur_x computed",
        ),
        Puzzle(
            "02.idle",
            "iterations without an element",
            "idle",
            (
                equal(
                    idle,
                    some_split,
                    cases=20,
                    why="if factor divides n, there are none: 12 elements in pieces of 4",
                ),
            ),
            lambda rng: (10, 4),
            idle,
            (
                "There are -(-n // factor) pieces, each with factor iterations.",
                "10 elements in pieces of 4 leave 2 places: what is missing from 10 to 12?",
            ),
            "notebook 02, section 4",
            of="value",
            picture=work_and_rest,
            cost=lambda count, arguments: float(count),
            unit="idle iterations",
        ),
    ),
    challenge=Challenge(
        "02.challenge",
        "a pass that saves operations",
        "cheaper",
        "operations",
        operations_done,
        unchanged_program,
        without_divisions_guards_and_short_loops,
        best_known=5060,  # eight vectors of up to 64 elements, no loop: 11 for each element
        hints=(
            "Which division can be a multiplication without a change in any bit? And what do"
            " `partition` and `tighten` do with the condition?",
            "Each iteration of a loop counts, too. How many copies of the body may there be?",
        ),
        section="notebook 02, section 6",
    ),
)
