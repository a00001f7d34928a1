"""Cells of notebooks: a sum alone, a guarded split, a chain, one queue, a program for each node."""

import minitvm as tvm

EXPECT = {
    "ex90.2": ("raises", 0),
    "ex90.3": ("guard", 1.2),
    "ex90.4": ("wrong-value", 0),
    "ex90.1": ("race", 0),
    "ex90.5": ("too-many-kernels", 2.4),
}


def loops(*tensors):
    out = tensors[-1]
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in tensors}
    (k,), c = out.op.reduce_axis, memory[out]
    i, j = at = [tir.Var(a.name, 0, a.extent - 1) for a in out.op.axis]
    r = tir.Var(k.name, 0, k.extent - 1)
    term = tir.substitute(
        out.op.body[0].sources[0], {**dict(zip(out.op.axis, at, strict=True)), k: r}
    )
    total = tir.Load(c, (i, j), c.dtype) + tir.rebuffer(term, memory)
    body = tir.For(r, k.extent, tir.Store(c, (i, j), total))
    body = tir.seq(tir.Store(c, (i, j), tir.const(0.0, c.dtype)), body)
    body = tir.For(i, out.shape[0], tir.For(j, out.shape[1], body))
    return tir.PrimFunc("main", tuple(memory.values()), body, (c,))


def vectorize(func, lanes):
    def on_stmt(s):
        inner_loop = isinstance(s, tir.For) and not any(
            isinstance(n, tir.For) for n in tir.walk(s.body)
        )
        if not inner_loop:
            return s
        pieces = -(-s.extent // lanes)
        outer, inner = tir.Var("outer", 0, pieces - 1), tir.Var("inner", 0, lanes - 1)
        at = outer * lanes + inner
        body = tir.If(at < s.extent, tir.substitute(s.body, {s.var: at}), likely=True)
        return tir.For(outer, pieces, tir.For(inner, lanes, body, kind="vectorize"))

    return replace(func, body=tir.rewrite(func.body, on_stmt))


def kernels(nodes):
    found = []
    for name, op, _ in nodes:
        if op == "dense" or not found:
            found += [[name]] if op != "input" else []
        elif op != "input":
            found[-1].append(name)
    return found


def tokens(steps):
    pushes = {"ld": "   push ex", "ex": "", "st": ""}
    lines = []
    for unit, text, _, _ in steps:
        lines += ["ex  nop   pop ld"] * 2 if "gemm" in text else []
        lines.append(text + pushes[unit])
    return lines


def network(nodes, shapes):
    found = [[name] for name, op, _ in nodes if op != "input"]
    tensors = [formula(names, nodes, shapes) for names in found]
    return [tvm.lower(te.create_schedule(ts[-1].op), ts, until="nest") for ts in tensors]
