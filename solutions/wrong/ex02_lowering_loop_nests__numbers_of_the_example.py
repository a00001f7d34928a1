"""Pieces of 4 in 10 terms, whatever was asked for; and only its loop is replaced."""

EXPECT = {"ex02.1": ("refused", 0), "ex02.2": ("other-loops", 0)}


def lower_reduce(A, B, C, factor):
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in (A, B, C)}
    loops = {a: tir.Var(a.name, 0, a.extent - 1) for a in C.op.axis}
    (k,) = C.op.reduce_axis
    outer, inner = tir.Var("k_outer", 0, 2), tir.Var("k_inner", 0, 3)
    c, at = memory[C], tuple(loops.values())
    term = tir.substitute(C.op.body[0].sources[0], {**loops, k: 9 - outer * 4 - inner})
    update = tir.Store(c, at, tir.Load(c, at, c.dtype) + tir.rebuffer(term, memory))
    update = tir.If(outer * 4 + inner < k.extent, update, likely=True)
    init = tir.Store(c, at, tir.const(0.0, c.dtype))
    body = tir.seq(init, tir.For(outer, 3, tir.For(inner, 4, update)))
    for axis, var in reversed(loops.items()):
        body = tir.For(var, axis.extent, body)
    return tir.PrimFunc("main", tuple(memory.values()), body, (c,))


def simplify(s, most):
    def on_stmt(s):
        match s:
            case tir.For(tir.Var("once"), 1, body):
                return tir.substitute(body, {s.var: 0})
            case _:
                return s

    return tir.rewrite(s, on_stmt)
