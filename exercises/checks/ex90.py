# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 90: your own compiler, from formulas and networks to loops, vectors and tokens."""

from dataclasses import replace

import numpy as np

from minitvm import te, tir, vta
from minitvm.accel import parse, simulate
from minitvm.base import TVMError
from minitvm.cachesim import Cache
from minitvm.cachesim import simulate as cache_misses
from minitvm.driver import lower
from minitvm.edu import (
    PASSED,
    Answer,
    Challenge,
    Exercise,
    Item,
    Outcome,
    Part,
    Rng,
    failed,
    numbered_listing,
    problem,
    record,
    required,
    stream_fault,
    wrong_element,
    wrong_type,
)

# --- formulas ------------------------------------------------------------------------------------


def kernel(steps, rows, columns, depth):
    """Return the inputs and the result of a kernel: a dense layer, if it is first, and more."""
    X = te.placeholder((rows, depth if "dense" in steps else columns), name="X")
    inputs, read = [X], X
    if "dense" in steps:
        W = te.placeholder((columns, depth), name="W")
        k = te.reduce_axis((0, depth), name="k")
        read = te.compute((rows, columns), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="S")
        inputs.append(W)
    rest = [step for step in steps if step != "dense"]
    more = {}
    for n, step in enumerate(rest):
        if step != "relu":
            shape = (columns,) if step == "bias" else (rows, columns)
            more[n] = te.placeholder(shape, name=f"{step}{n}")

    def formula(i, j):
        value = read[i, j]
        for n, step in enumerate(rest):
            if step == "relu":
                value = te.max(value, 0.0)
            else:
                value = value + (more[n][j] if step == "bias" else more[n][i, j])
        return value

    out = te.compute((rows, columns), formula, name="out") if rest else read
    return (*inputs, *more.values(), out)


KERNELS = (("dense",), ("dense", "bias", "relu"), ("bias", "relu"), ("dense", "add"))


def drawn_kernels(rng):
    """Draw a problem of each kind of kernel."""
    return [
        problem(kernel, steps, *(int(n) for n in rng.integers([2, 9, 2], [5, 21, 6])))
        for steps in KERNELS
    ]


def our_loops(*tensors, rowwise=True):
    """Return the loops of a kernel without an array between its steps; the first term is stored.

    rowwise   whether the innermost loops go along a row; if not, the columns are outside, and the
              sum is inside
    """
    out = tensors[-1]
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in tensors}
    c, (ai, aj) = memory[out], out.op.axis
    i, j = (tir.Var(axis.name, 0, axis.extent - 1) for axis in (ai, aj))
    sums = [t for t in (out, *out.op.input_tensors) if hasattr(t.op, "reduce_axis")]
    sums = [t for t in sums if t.op.reduce_axis]

    def along(body):
        return tir.For(j, aj.extent, body) if rowwise else body

    def stored(value):
        return tir.Store(c, (i, j), value)

    parts = []
    for total in sums:
        (k,) = total.op.reduce_axis
        more = tir.Var(k.name, 0, k.extent - 2)
        y, x = total.op.axis
        term = tir.rebuffer(total.op.body[0].sources[0], memory)
        first = tir.substitute(term, {y: i, x: j, k: 0})
        later = tir.substitute(term, {y: i, x: j, k: more + 1})
        update = stored(tir.Load(c, (i, j), c.dtype) + later)
        parts += [along(stored(first)), tir.For(more, k.extent - 1, along(update))]
    if out not in sums:
        value = tir.substitute(out.op.body[0], {ai: i, aj: j})
        parts.append(along(stored(tir.rebuffer(value, {**memory, **dict.fromkeys(sums, c)}))))
    nest = tir.For(i, ai.extent, tir.seq(*parts))
    nest = nest if rowwise else tir.For(j, aj.extent, nest)
    return tir.PrimFunc("main", tuple(memory.values()), nest, (c,))


def interpreted(func, arrays):
    """Run a loop program on arrays by name; arrays that do not exist yet are filled with nan."""
    for b in func.params:
        if b.name not in arrays:
            arrays[b.name] = np.full(tuple(int(n) for n in b.shape), np.nan, "float32")
    tir.interpret(func, *(arrays[b.name] for b in func.params))


def drawn_arrays(tensors, rng):
    return {t.name: rng.uniform(-1, 1, t.shape).astype("float32") for t in tensors[:-1]}


def wrong_result(made, tensors, rng, case):
    """Return the outcome for a loop program that computes something else than ours, or None."""
    if not isinstance(made, tir.PrimFunc):
        return wrong_type("a loop program", made)
    names = [getattr(p, "name", "") for p in made.params]
    if names != [t.name for t in tensors]:
        expected = f"the parameters {', '.join(t.name for t in tensors)}"
        return failed("wrong-parameters", expected=expected, got=", ".join(names), case=case)
    arrays = drawn_arrays(tensors, rng)
    ours = dict(arrays)
    interpreted(our_loops(*tensors), ours)
    interpreted(made, arrays)
    out = tensors[-1].name
    why = "show(...) prints your loops for a kernel: compare them with those in the text"
    if np.isnan(arrays[out]).any():
        why = "nan is what the result held before: store the first term, and add the others to it"
    return wrong_element(arrays[out], ours[out], 1e-5, 1e-5, case, why)


def right_loops(answer: Answer, rng: Rng) -> Outcome:
    """Check the numbers of a loop program for each kind of kernel."""
    for drawn in drawn_kernels(rng):
        case = f"kernel{drawn.arguments}"
        if wrong := wrong_result(answer(drawn), drawn.values, rng, case):
            return wrong
    return PASSED


def executed(s, count=1):
    """Return how many stores a statement runs, in vectorized loops and in others."""
    match s:
        case tir.For(_, extent, body, kind):
            vectors, others = executed(body, count * int(extent))
            return (vectors + others, 0) if kind == "vectorize" else (vectors, others)
        case tir.Seq(parts):
            both = [executed(part, count) for part in parts]
            return sum(v for v, _ in both), sum(o for _, o in both)
        case tir.If(_, body, orelse):
            both = [executed(part, count) for part in (body, orelse) if part is not None]
            return sum(v for v, _ in both), sum(o for _, o in both)
        case tir.Store():
            return 0, count
        case tir.Allocate(_, body) | tir.Pragma(_, _, body):
            return executed(body, count)
        case _:
            return 0, 0


def innermost(s):
    """Return the loops without another loop inside."""
    loops = [n for n in tir.walk(s) if isinstance(n, tir.For)]
    return [f for f in loops if sum(isinstance(n, tir.For) for n in tir.walk(f)) == 1]


def row_loop(f):
    """Return whether each store of a loop has the loop's variable as its last index, and no If."""
    stores = [n for n in tir.walk(f.body) if isinstance(n, tir.Store)]
    plain = not any(isinstance(n, tir.If) for n in tir.walk(f.body))
    return plain and all(s.indices and s.indices[-1] is f.var for s in stores)


def lean_loops(answer: Answer, rng: Rng) -> Outcome:
    """Check that no store and no array is needless, and that innermost loops go along rows."""
    for drawn in drawn_kernels(rng):
        made, case = answer(drawn), f"kernel{drawn.arguments}"
        if wrong := wrong_result(made, drawn.values, rng, case):
            return wrong
        wanted, given = (sum(executed(f.body)) for f in (our_loops(*drawn.values), made))
        if any(isinstance(n, tir.Allocate) for n in tir.walk(made.body)):
            why = "the result can hold the sum: the steps after it change it in place"
            return failed("array", expected="no array in between", got="one", case=case, why=why)
        if given > wanted:
            why = "store the first term instead of zeros, and all steps after the sum at once"
            expected, got = f"at most {wanted} stores", f"{given}"
            return failed("too-many-stores", expected=expected, got=got, case=case, why=why)
        if not all(row_loop(f) for f in innermost(made.body)):
            why = "the loop over the terms of the sum is outside the loop over the columns"
            expected = "innermost loops over the last index of the result"
            return failed("wrong-order", expected=expected, got="others", case=case, why=why)
    return PASSED


# --- vectors -------------------------------------------------------------------------------------


def rows_of_loops(kind, rows, columns):
    """Return a loop program: a product by rows, a transpose, or a matrix plus a row.

    kind   "row" for the last one; "some rows" and "even columns" store only these, so the loop over
           a row has a condition around it or inside
    """
    A = te.placeholder((rows, columns), name="A")
    if kind == "product":
        B = te.placeholder((columns, rows), name="B")
        k = te.reduce_axis((0, rows), name="k")
        C = te.compute((rows, columns), lambda i, j: te.sum(A[k, j] * B[j, i], axis=k), name="C")
        s = te.create_schedule(C.op)
        s[C].reorder(C.op.axis[0], k, C.op.axis[1])
        return lower(s, [A, B, C], until="nest")
    if kind == "transpose":
        C = te.compute((columns, rows), lambda i, j: A[j, i], name="C")
        s = te.create_schedule(C.op)
        s[C].reorder(*reversed(C.op.axis))
        return lower(s, [A, C], until="nest")
    B = te.placeholder((columns,), name="B")
    C = te.compute((rows, columns), lambda i, j: A[i, j] + B[j], name="C")
    s = te.create_schedule(C.op)
    if kind == "some rows":
        s[C].set_store_predicate(C.op.axis[0] < rows - 1)
    if kind == "even columns":
        s[C].set_store_predicate(C.op.axis[1] % 2 < 1)
    return lower(s, [A, B, C], until="nest")


def drawn_loops(rng):
    """Draw (loops, lanes): several that are no multiple of the lanes, one that is too short."""
    for kind in ("row", "product", "transpose", "row", "some rows", "even columns"):
        columns, lanes = int(rng.integers(9, 40)), int(rng.choice([4, 8]))
        yield problem(rows_of_loops, kind, int(rng.integers(2, 5)), columns), lanes
    yield problem(rows_of_loops, "row", 3, 3), 4
    yield problem(rows_of_loops, "row", 2, 8), 8


def right_vectors(answer: Answer, rng: Rng) -> Outcome:
    """Check that the pass changes no number."""
    for drawn, lanes in drawn_loops(rng):
        made, (func,) = answer(drawn, lanes), drawn.values
        case = f"rows_of_loops{drawn.arguments}, {lanes} lanes"
        if not isinstance(made, tir.PrimFunc):
            return wrong_type("a loop program", made)
        arrays = {b.name: rng.uniform(-1, 1, b.shape).astype("float32") for b in func.params[:-1]}
        ours, out = dict(arrays), func.params[-1].name
        interpreted(func, ours)
        interpreted(made, arrays)
        why = (
            "the last n % lanes iterations need a loop of their own, which starts after the others"
        )
        if wrong := wrong_element(arrays[out], ours[out], 0, 0, case, why):
            return wrong
    return PASSED


def all_vectors(answer: Answer, rng: Rng) -> Outcome:
    """Check that all iterations that can be in vectors are, in loops of `lanes` without a guard."""
    for drawn, lanes in drawn_loops(rng):
        made, (func,) = answer(drawn, lanes), drawn.values
        case = f"rows_of_loops{drawn.arguments}, {lanes} lanes"
        if not isinstance(made, tir.PrimFunc):
            return wrong_type("a loop program", made)
        vectors = vectorized(made)
        if any(f.extent != lanes for f in vectors):
            return failed("other-lanes", expected=f"vectorized loops of {lanes}", case=case)
        inside = [n for f in vectors for n in conditions(f)]
        if inside or len(conditions(made.body)) > len(conditions(func.body)):
            why = "a loop with a tir.If inside stays as it is, and the rest has a loop of its own"
            expected = "no new condition, and none in a vectorized loop"
            return failed("guard", expected=expected, got="an if", case=case, why=why)
        if any(f not in innermost(made.body) for f in vectors):
            return failed("wrong-loop", expected="vectorized loops without loops inside", case=case)
        ours = in_vectors(func, lanes)
        wanted, given = executed(ours.body)[0], executed(made.body)[0]
        if given != wanted:
            why = "only innermost loops whose variable is the last index of each store, all of them"
            expected, got = f"{wanted} stores in vectors", f"{given}"
            return failed("too-few-vectors", expected=expected, got=got, case=case, why=why)
        if len(vectors) > len(vectorized(ours)):
            why = "a loop of fewer iterations than lanes stays as it is"
            expected, got = f"{len(vectorized(ours))} vectorized loops", f"{len(vectors)}"
            return failed("wrong-loop", expected=expected, got=got, case=case, why=why)
    return PASSED


def conditions(s):
    return [n for n in tir.walk(s) if isinstance(n, tir.If)]


def vectorized(func):
    return [n for n in tir.walk(func.body) if isinstance(n, tir.For) and n.kind == "vectorize"]


def in_vectors(func, lanes):
    """Return the program with vectorized loops where they are possible: the reference."""

    def on_stmt(s):
        if not isinstance(s, tir.For) or s not in rows or s.extent < lanes:
            return s
        outer, inner = tir.Var("piece", 0, s.extent // lanes - 1), tir.Var("lane", 0, lanes - 1)
        piece = tir.For(inner, lanes, moved(s, outer * lanes + inner), kind="vectorize")
        done = s.extent // lanes * lanes
        rest = tir.Var("rest", 0, max(0, s.extent - done - 1))
        loops = [tir.For(outer, s.extent // lanes, piece)]
        loops += [tir.For(rest, s.extent - done, moved(s, rest + done))] * (s.extent > done)
        return tir.seq(*loops)

    def moved(s, index):
        return tir.substitute(s.body, {s.var: index})

    rows = [f for f in innermost(func.body) if row_loop(f)]
    return replace(func, body=tir.rewrite(func.body, on_stmt))


# --- networks ------------------------------------------------------------------------------------


def drawn_network(rng, blocks=2, narrow=9):
    """Return ([[name, operator, inputs], ...], shapes) of a small residual network.

    narrow   the least number of columns of a layer; the most is a little over twice as many
    """
    rows, wide = int(rng.integers(2, 5)), int(rng.integers(narrow, 2 * narrow + 2))
    nodes, shapes = [["x", "input", []]], {"x": [rows, wide]}

    def given(name, shape):
        nodes.append([name, "input", []])
        shapes[name] = shape

    def step(name, op, *inputs):
        nodes.append([name, op, list(inputs)])
        shapes[name] = [rows, shapes[inputs[1]][0]] if op == "dense" else shapes[inputs[0]]
        return name

    last = "x"
    for n in range(blocks):
        inner = int(rng.integers(narrow, 2 * narrow + 2))
        given(f"v{n}", [inner, wide])
        given(f"w{n}", [wide, inner])
        given(f"b{n}", [inner])
        hidden = step(f"d{n}", "dense", last, f"v{n}")
        hidden = step(f"p{n}", "bias", hidden, f"b{n}")
        hidden = step(f"r{n}", "relu", hidden)
        wider = step(f"e{n}", "dense", hidden, f"w{n}")
        short = step(f"s{n}", "relu", last) if rng.random() < 0.5 else last
        last = step(f"a{n}", "add", *rng.permutation([wider, short]).tolist())
        last = step(f"y{n}", "relu", last) if n or rng.random() < 0.5 else last
    return nodes, shapes


def our_kernels(nodes):
    """Return the kernels of a network as lists of names."""
    readers = {name: sum(name in inputs for _, _, inputs in nodes) for name, _, _ in nodes}
    kernels = []
    for name, op, inputs in nodes:
        if op == "input":
            continue
        joined = [k for k in kernels if k[-1] in inputs and readers[k[-1]] == 1]
        if op == "dense" or not joined:
            kernels.append([name])
            continue
        order = [node[0] for node in nodes]
        latest = max(joined, key=lambda k: order.index(k[-1]))
        kernels.remove(latest)
        kernels.append([*latest, name])
    return kernels


def right_kernels(answer: Answer, rng: Rng) -> Outcome:
    """Check the kernels of three small networks, and of drawn ones with short cuts."""
    dense = [["x", "input", []], ["w", "input", []], ["d", "dense", ["x", "w"]]]
    twice = [*dense, ["r", "relu", ["d"]], ["t", "relu", ["d"]], ["y", "add", ["r", "t"]]]
    later = [*dense, ["e", "dense", ["x", "w"]], ["r", "relu", ["d"]], ["y", "add", ["e", "r"]]]
    double = [*dense, ["y", "add", ["d", "d"]]]
    for nodes in (twice, later, double, *(drawn_network(rng, n)[0] for n in (1, 2, 2, 3))):
        got, want = answer(nodes), our_kernels(nodes)
        if got == want:
            continue
        ordered = isinstance(got, list) and len(got) == len(want) and all(k in got for k in want)
        message = "wrong-order" if ordered else "wrong-value"
        why = (
            "an operator joins a kernel if it reads its last result and no other node does; with"
            " two such kernels, the later one"
        )
        why = "a kernel runs when its last operator would" if ordered else why
        case = f"operators {' '.join(f'{n}={op}({chr(44).join(i)})' for n, op, i in nodes if i)}"
        return failed(message, expected=str(want), got=str(got)[:500], case=case, why=why)
    return PASSED


# --- tokens --------------------------------------------------------------------------------------

QUIET = vta.Config(name="ten", issue=0, dma_row=0, token_latency=0, port_bytes=256)
MACHINE = replace(QUIET, dma_latency=9, fill=9, inp_bytes=64, wgt_bytes=1024, acc_bytes=512)


def drawn_stream(rng):
    """Return (head, steps, description) of a product.

    A step is [unit, instruction, reads, writes].
    """
    rows, columns, depth = (int(n) for n in rng.integers([2, 2, 1], [4, 4, 4]))
    places = [(a, i, w) for a in range(8) for i in range(4) for w in range(4)]
    head = [
        f"area A inp {rows} {depth}", f"area W wgt {columns} {depth}",
        f"area C out {rows} {columns}", *(f"uop {a} {i} {w}" for a, i, w in places),
        "ex  uop[0] = uops[0] x=128",
    ]  # fmt: skip
    steps, slot = [], 0
    halves, accs = int(rng.integers(1, 4)), int(rng.integers(1, 8))
    together = 2 if halves > 1 and accs > 1 else 1  # results whose loads come in reverse order
    for first in range(0, rows * columns, together):
        results = range(first, min(first + together, rows * columns))
        for n in results:
            u = 16 * (n % accs)
            steps.append(["ex", f"ex  reset u[{u}:{u + 1}]", [], [f"acc {n % accs}"]])
        for k in range(depth):
            place = {}
            for n in reversed(results):
                place[n], slot = slot % halves, slot + 1
                a, w, at = n // columns * depth + k, n % columns * depth + k, place[n]
                steps.append(["ld", f"ld  inp[{at}] = A[{a}] x=1", [], [f"inp {at}"]])
                steps.append(["ld", f"ld  wgt[{at}] = W[{w}] x=1", [], [f"wgt {at}"]])
            for n in results:
                u, acc = 16 * (n % accs) + 5 * place[n], f"acc {n % accs}"
                reads = [f"inp {place[n]}", f"wgt {place[n]}", acc]
                steps.append(["ex", f"ex  gemm u[{u}:{u + 1}]", reads, [acc]])
        for n in results:
            store = f"st  C[{n}] = acc[{n % accs}] x=1"
            steps.append(["st", store, [f"acc {n % accs}"], [f"C {n}"]])
    steps.append(["ex", "ex  nop", [f"C {n}" for n in range(rows * columns)], []])
    about = (
        f"{rows} x {columns} results, sums of {depth}; places for inputs and for weights: {halves},"
        f" accumulators: {accs}"
    )
    return head, steps, about


def our_tokens(steps):
    """Return the lines of a stream with one token for each wait that an earlier one lacks."""
    lines, waited = [text for _, text, _, _ in steps], {}
    for n, (unit, _, reads, writes) in enumerate(steps):
        last = {
            other: m
            for m, (other, _, read, written) in enumerate(steps[:n])
            if other != unit and ({*written} & {*reads} or {*read} & {*writes})
        }
        for other, m in last.items():
            if m > waited.get((other, unit), -1):
                waited[other, unit] = m
                lines[n] += f"   pop {other}"
                lines[m] += f"   push {unit}"
    return lines


def program_of(head, lines):
    return parse("\n".join([*head, *lines, "ex  finish"]))


def without_tokens(line):
    """Return an instruction without its tokens; "" for a nop."""
    words = line.split()
    while len(words) >= 2 and words[-2] in ("pop", "push"):
        words = words[:-2]
    return "" if words[1:2] == ["nop"] else " ".join(words)


def checked_stream(answer, rng):
    """Return (the answer's program, ours, a description), or the outcome of a fault."""
    head, steps, about = drawn_stream(rng)
    lines = answer([list(step) for step in steps])
    if not isinstance(lines, list) or not all(isinstance(x, str) and "\n" not in x for x in lines):
        wanted = "a list of lines"
        return failed("wrong-type", expected=wanted, got=repr(lines)[:80], case=about)
    for unit in ("ld", "ex", "st"):
        given = [t for x in lines if x.startswith(unit) and (t := without_tokens(x))]
        wanted = [t for s in steps if s[0] == unit and (t := without_tokens(s[1]))]
        if given != wanted:
            expected = "the instructions of each unit in their order"
            got = f"{len(given)} of {unit}"
            return failed("other-instructions", expected=expected, got=got, case=about)
    try:
        return program_of(head, lines), program_of(head, our_tokens(steps)), about
    except TVMError as error:
        why = "a line pops at most one token from each unit, and pushes at most one to each unit"
        return failed("no-program", expected="lines", got=str(error), why=why, case=about)


MISSING = {
    "(RAW)": "a step has to wait for an earlier write of what it reads",
    "(WAR)": "a step has to wait for an earlier read of what it writes",
}


def right_tokens(answer: Answer, rng: Rng) -> Outcome:
    """Check that the streams have no deadlock and no race, and leave no token."""
    for _ in range(5):
        checked = checked_stream(answer, rng)
        if isinstance(checked, Outcome):
            return checked
        program, _, about = checked
        found, said, why = stream_fault(program, MACHINE)
        if found:
            missing = [text for kind, text in MISSING.items() if kind in said.split("\n")[0]]
            why = ": ".join([*missing, why])
            case, expected = about + numbered_listing(program), "no race, deadlock or left token"
            return failed(found, expected=expected, got=said, case=case, why=why)
    return PASSED


def quick_tokens(answer: Answer, rng: Rng) -> Outcome:
    """Check that the streams take at most 1.05 times the cycles of the reference."""
    cycles = np.zeros(2)
    for _ in range(6):
        checked = checked_stream(answer, rng)
        if isinstance(checked, Outcome):
            return checked
        *programs, _ = checked
        zeros = {a.name: np.zeros(shape_of(a), "int8") for a in programs[1].areas[:2]}
        cycles += [simulate(program, MACHINE, zeros).cycles for program in programs]
    share = cycles[0] / cycles[1]
    if share <= 1.05:
        return PASSED
    why = "a step waits only for steps that touch the same places"
    expected, got = "at most 1.05 times our cycles", f"{share:.2f} times"
    score, case = max(0.0, (1.4 - share) / 0.35), "six streams together"
    return failed("too-many-cycles", expected=expected, got=got, why=why, score=score, case=case)


def shape_of(area):
    """Return the shape of the array for an area of inputs or of weights."""
    return (*area.shape, *MACHINE.element_shape(area.memory))


# --- the whole -----------------------------------------------------------------------------------


def formula(names, nodes, shapes):
    """Return the inputs and the result of a kernel of a network as tensors of the same names."""
    read, known = {name: (op, inputs) for name, op, inputs in nodes}, {}

    def tensor(name):
        if name not in known:
            known[name] = te.placeholder(tuple(shapes[name]), name=name)
        return known[name]

    def value(name, i, j):
        """Return element [i, j] of an operator of this kernel, or of an input."""
        if name not in names or name in known:
            return tensor(name)[i, j]
        op, inputs = read[name]
        if op == "relu":
            return te.max(value(inputs[0], i, j), 0.0)
        other = tensor(inputs[1])[j] if op == "bias" else value(inputs[1], i, j)
        return value(inputs[0], i, j) + other

    op, inputs = read[names[0]]
    if op == "dense":
        x, w = map(tensor, inputs)
        k = te.reduce_axis((0, w.shape[1]), name="k")
        known[names[0]] = te.compute(
            (x.shape[0], w.shape[0]), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name=names[0]
        )
    last = names[-1]
    if last not in known:
        made = te.compute(tuple(shapes[last]), lambda i, j: value(last, i, j), name=last)
        known[last] = made
    inputs = [t for name, t in known.items() if name not in names]
    return [*inputs, known[last]]


def our_network(nodes, shapes, rowwise=True):
    """Return the loop programs of a network: the reference."""
    made = [our_loops(*formula(k, nodes, shapes), rowwise=rowwise) for k in our_kernels(nodes)]
    return [in_vectors(func, 8) for func in made]


def numpy_value(nodes, arrays):
    """Return the result of a network, by numpy."""
    known = dict(arrays)
    for name, op, inputs in nodes:
        given = [known[n] for n in inputs]
        match op:
            case "dense":
                known[name] = given[0] @ given[1].T
            case "bias" | "add":
                known[name] = given[0] + given[1]
            case "relu":
                known[name] = np.maximum(given[0], 0)
            case _:
                pass
    return known[nodes[-1][0]]


def programs_of(answer, rng, blocks=2, narrow=9):
    """Return (programs, nodes, shapes, None) of a network that is right, or (.., its outcome)."""
    nodes, shapes = drawn_network(rng, blocks, narrow)
    got = answer([list(node) for node in nodes], dict(shapes))
    if not isinstance(got, list | tuple) or not all(isinstance(f, tir.PrimFunc) for f in got):
        return [], nodes, shapes, wrong_type("a list of loop programs", got)
    arrays = {
        name: rng.uniform(-1, 1, shapes[name]).astype("float32")
        for name, op, _ in nodes
        if op == "input"
    }
    want, out = numpy_value(nodes, arrays), nodes[-1][0]
    case = f"a network of {len(nodes)} nodes, {len(got)} programs"
    for func in got:
        wrong = [b.name for b in func.params if list(b.shape) != list(shapes.get(b.name, ()))]
        if wrong:
            expected, said = f"{wrong[0]} with the shape of its node", "another one"
            bad = failed("wrong-parameters", expected=expected, got=said, case=case)
            return [], nodes, shapes, bad
        interpreted(func, arrays)
    if out not in arrays:
        bad = failed("wrong-value", expected=f"a program that computes {out}", case=case)
        return [], nodes, shapes, bad
    why = "the programs run in the order of the list; a buffer has the name of its node"
    return got, nodes, shapes, wrong_element(arrays[out], want, 1e-4, 1e-4, case, why)


def right_network(answer: Answer, rng: Rng) -> Outcome:
    """Check the numbers of networks of one to three blocks."""
    for blocks in (1, 2, 3):
        if wrong := programs_of(answer, rng, blocks)[-1]:
            return wrong
    return PASSED


def lean_network(answer: Answer, rng: Rng) -> Outcome:
    """Check the number of kernels, of stores, and of stores in vectors of 8."""
    for blocks in (2, 3):
        got, nodes, shapes, wrong = programs_of(answer, rng, blocks)
        if wrong:
            return wrong
        ours = our_network(nodes, shapes)
        if len(got) > len(ours):
            why = "your kernels() says which operators share a kernel"
            expected, said = f"{len(ours)} kernels", f"{len(got)}"
            return failed("too-many-kernels", expected=expected, got=said, why=why)
        if any(f.extent != 8 for func in got for f in vectorized(func)):
            why = "vectors of 8, as in the text"
            return failed("other-lanes", expected="vectorized loops of 8", got="others", why=why)
        wanted, given = (
            [sum(n) for n in zip(*(executed(f.body) for f in fs), strict=True)]
            for fs in (ours, got)
        )
        if sum(given) > sum(wanted):
            expected, said = f"at most {sum(wanted)} stores", f"{sum(given)}"
            why = (
                "each kernel needs the loops of ex90.2: no zeros, and one store for all last steps"
            )
            return failed("too-many-stores", expected=expected, got=said, why=why)
        if given[0] < wanted[0]:
            why = "vectors of 8, as in the text: apply your vectorize() to each kernel"
            expected, said = f"{wanted[0]} stores in vectors", f"{given[0]}"
            return failed("too-few-vectors", expected=expected, got=said, why=why)
    return PASSED


# --- the challenge -------------------------------------------------------------------------------

SMALL = Cache(2048, 64, 4)


def network_misses(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the misses of all programs of a network, each in a cache that is empty before it."""
    got, _, _, wrong = programs_of(answer, rng, 2, 32)
    if wrong:
        return wrong
    return float(sum(cache_misses(SMALL, record(f)).misses for f in got))


def by_columns(nodes, shapes):
    return our_network(nodes, shapes, rowwise=False)


EXERCISE = Exercise(
    "ex90",
    "your_own_compiler",
    (
        Item(
            "ex90.1",
            "tokens for any stream",
            5,
            "tokens",
            (
                required(Part("property", "no race, deadlock or left token", 0.4, right_tokens)),
                Part("property", "at most 1.05 times our cycles", 0.6, quick_tokens),
            ),
            (
                "For each step find the last step of each *other* unit that it has to wait for: one"
                " that wrote what it reads, or read what it writes.",
                "A step that has waited for the n-th push has waited for all before it: add a token"
                " only for a later one, and push it only there.",
                "What one step of a unit has waited for, all later steps of that unit have waited"
                " for, too. So remember the last such step for each queue; each token then has one"
                " push and one pop, and none is left.",
            ),
            "notebook 09, sections 1 to 4",
        ),
        Item(
            "ex90.2",
            "from a formula to loops",
            6,
            "loops",
            (
                Part("correctness", "the numbers of four kinds of kernels", 0.3, right_loops),
                Part("property", "no zeros, no array in between, rows", 0.7, lean_loops),
            ),
            (
                "Write the loops of a sum first (exercise 02), then those of a formula without one."
                " A kernel with both is the first, followed by the second.",
                "The sum S is among out.op.input_tensors. In the formula of `out`, reads of S are"
                " reads of the buffer of `out`: tir.rebuffer(value, {**memory, S: c}).",
                "A row is finished before the next one begins. Its first term has a loop of its"
                " own, so the loop over the sum begins one term later.",
            ),
            "notebook 02, sections 1 and 2; notebook 05",
        ),
        Item(
            "ex90.3",
            "loops in vectors",
            4,
            "vectorize",
            (
                Part("correctness", "the same numbers, to the last bit", 0.3, right_vectors),
                Part("property", "all that can be in vectors is, without guards", 0.7, all_vectors),
            ),
            (
                "A loop of n iterations becomes two: n // lanes vectors, and a rest.",
                "tir.rewrite shows the loops from the inside out. tir.walk(loop.body) shows whether"
                " there is a tir.For or a tir.If inside; the last index is store.indices[-1].",
                "All new loops have the old body, with another index in place of the variable:"
                ' tir.substitute. kind="vectorize" is an argument of tir.For.',
            ),
            "notebook 03, section 3; notebook 05",
        ),
        Item(
            "ex90.4",
            "which operators share a kernel",
            3,
            "kernels",
            (Part("correctness", "the kernels of networks with short cuts", 1.0, right_kernels),),
            (
                "Count first by how many nodes each result is read: add(d, d) is one node.",
                "Keep a list of kernels. An operator looks for those whose last name is among its"
                " inputs and is read by one node.",
                "The later of two such kernels is the one whose last operator comes later in"
                " `nodes`. Move it to the end of the list when it grows: it runs then.",
            ),
            "notebook 10, section 3",
        ),
        Item(
            "ex90.5",
            "a network through your compiler",
            6,
            "network",
            (
                Part("correctness", "the numbers of numpy", 0.4, right_network),
                Part("property", "few kernels and stores, and vectors", 0.6, lean_network),
            ),
            (
                "For each kernel of kernels(nodes): a formula, its loops, its vectors.",
                "formula(names, nodes, shapes) is given; loops(*tensors) takes what it returns.",
                "Nothing else is needed: one call inside the other, for vectors of 8.",
            ),
            "ex90.2 to ex90.4",
        ),
    ),
    challenge=Challenge(
        "90.challenge",
        "a network with few misses",
        "tuned",
        "cache misses",
        network_misses,
        our_network,
        by_columns,
        minutes=90,
        best_known=1274,  # the solution: all results of a column at a time, in own memory
        hints=(
            "Along which index are the weights stored, and which loop is the innermost one?",
            "Each line of weights has to be loaded once. How many results does a column have, and"
            " how many lines does a column of `out` touch?",
        ),
        section="notebook 04, section 5",
    ),
)
