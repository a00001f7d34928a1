"""Questions about loop nests: the order of visits, the init of a sum, guards."""

from __future__ import annotations

import math

from minitvm import accesses, driver, lowering, tir

from ..item import Rng
from ..schedules import visits
from .question import Question, divisor, joined, pick, run, shuffled


def order(rng: Rng) -> Question:
    """Ask which element a tiled loop nest stores n-th, and when it stores another one."""
    rows, columns = pick(rng, (4, 6, 8)), pick(rng, (6, 8, 9, 12))
    loops = shuffled(rng, ("i_outer", "i_inner", "j_outer", "j_inner"))
    code = f"""\
A = te.placeholder(({rows}, {columns}), name="A")
Y = te.compute(({rows}, {columns}), lambda i, j: A[i, j] + 1.0, name="Y")

s = te.create_schedule(Y.op)
i, j = s[Y].op.axis
i_outer, i_inner = s[Y].split(i, factor={divisor(rng, rows)})
j_outer, j_inner = s[Y].split(j, factor={divisor(rng, columns)})
s[Y].reorder({", ".join(loops)})"""
    scope = run(code)
    elements = visits(scope["s"], [scope["A"], scope["Y"]])
    first, second = (int(n) for n in rng.choice(len(elements), 2, replace=False))
    row, column = elements[second]
    extents = {p.name: p.extent for p in scope["s"].explain()["Y"].loops}
    sizes = [extents[loop] for loop in loops]
    counters = [math.prod(sizes[n + 1 :]) for n in range(4)]
    at = [first // counters[n] % sizes[n] for n in range(4)]
    values = ", ".join(f"{loop} = {n}" for loop, n in zip(loops, at, strict=True))
    return Question(
        "The order of visits",
        "This schedule stores each element of Y once. Count the stores from 1, in the order in"
        " which the loops run.",
        code,
        (f"Which element is stored by store number {first + 1}?",
         f"What is the number of the store to Y[{row}, {column}]?"),
        ("Y[{}, {}]".format(*elements[first]), str(second + 1)),
        f"The loops run {joined(sizes)} times. {first} stores come before number {first + 1}, which"
        f" has {values}.",
        "notebook 03, sections 1 and 5",
        4,
    )  # fmt: skip


def sums(rng: Rng) -> Question:
    """Ask where the init of a sum is, and how often a reordered product stores."""
    rows, columns, terms = (pick(rng, (4, 6, 8)), pick(rng, (4, 6, 10)), pick(rng, (3, 4, 5)))
    axis, n = pick(rng, (("i", rows), ("j", columns)))
    loops = shuffled(rng, [x for x in "ijk" if x != axis] + [f"{axis}_outer", f"{axis}_inner"])
    code = f"""\
A = te.placeholder(({rows}, {terms}), name="A")
B = te.placeholder(({terms}, {columns}), name="B")
k = te.reduce_axis((0, {terms}), name="k")
C = te.compute(({rows}, {columns}), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

s = te.create_schedule(C.op)
i, j = s[C].op.axis
{axis}_outer, {axis}_inner = s[C].split({axis}, factor={divisor(rng, n)})
s[C].reorder({", ".join(loops)})"""
    scope = run(code)
    tensors = [scope[name] for name in "ABC"]
    nest = driver.lower(scope["s"], tensors, until="nest")
    trace = accesses.record(scope["s"], tensors)
    first_load = int((~trace.write).argmax())
    inner_text = ", ".join(loops[loops.index("k") + 1 :]) or "no loop"
    stores = int(trace.write.sum())
    return Question(
        "Init and update",
        "This schedule is lowered. The init sets an element of C to 0, the update adds one"
        " product to it.",
        code,
        ("How many `for` loops does the lowered program have, those of the init included?",
         "How many elements of C are set to 0 before the first product is added?",
         "How many stores to C are executed in all?"),
        (str(sum(isinstance(node, tir.For) for node in tir.walk(nest.body))),
         str(first_load), str(stores)),
        f"The init comes before the loop over k, with loops of its own for the data loops inside"
        f" it ({inner_text}). It stores {rows} x {columns} times, and the update"
        f" {joined((rows, columns, terms))} times.",
        "notebook 02, section 2",
        4,
    )  # fmt: skip


def guards(rng: Rng) -> Question:
    """Ask how often the guard of a split is evaluated, fails and is certain to hold."""
    rows, columns = pick(rng, (3, 4, 5, 6)), int(rng.integers(13, 40))
    factor = pick(rng, [f for f in range(4, columns // 2) if columns % f])
    loops = pick(rng, (("i", "j_outer", "j_inner"), ("j_outer", "i", "j_inner"),
                       ("j_outer", "j_inner", "i")))  # fmt: skip
    schedule = f"""\
A = te.placeholder(({rows}, {columns}), name="A")
Y = te.compute(({rows}, {columns}), lambda i, j: A[i, j] * 2.0, name="Y")

s = te.create_schedule(Y.op)
i, j = s[Y].op.axis
j_outer, j_inner = s[Y].split(j, factor={factor})
s[Y].reorder({", ".join(loops)})"""
    scope = run(schedule)
    nest = driver.lower(scope["s"], [scope["A"], scope["Y"]], until="nest")
    (store,) = lowering.runs(nest.body)
    outer_extents, inner_extents = _at_guard(nest.body)
    evaluations = math.prod(outer_extents)
    executions = (lowering.times(store) or 0) // math.prod(inner_extents)
    parts = driver.lower(scope["s"], [scope["A"], scope["Y"]], until="partition")
    loops_over_j = [n.extent for n in tir.walk(parts.body)
                    if isinstance(n, tir.For) and n.var.name == "j.outer"]  # fmt: skip
    pieces = -(-columns // factor)
    return Question(
        "Guards",
        "A loop is split by a factor that does not divide it. These are the loops before any pass.",
        str(nest),
        ("How often is the condition evaluated?",
         "How often is it false?",
         "For how many iterations of j_outer is it certain, whatever the other loops do?"),
        (str(evaluations), str(evaluations - executions), str(loops_over_j[0])),
        f"The loops around the condition run {joined(outer_extents)} times; the last of {pieces}"
        f" pieces holds {columns - factor * (pieces - 1)} of {factor} elements.",
        "notebook 02, section 4",
        3,
    )  # fmt: skip


def _at_guard(body: tir.Stmt) -> tuple[list[int], list[int]]:
    """Return the extents of the loops around the guard, and of those inside of it."""
    outer_extents: list[int] = []
    inner_extents: list[int] = []
    extents = outer_extents
    for node in tir.walk(body):
        if isinstance(node, tir.For) and isinstance(node.extent, int):
            extents.append(node.extent)
        elif isinstance(node, tir.If):
            extents = inner_extents
    return outer_extents, inner_extents
