"""The sum is set to zero at every term, so that only the last one is left.

And a pass that believes in mathematics: x + 0 is x, x * 0 is 0.
"""

EXPECT = {"ex02.1": ("wrong-value", 0), "ex02.2": ("wrong-value", 0)}


def lower_reduce(A, B, C, factor):
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in (A, B, C)}
    loops = {a: tir.Var(a.name, 0, a.extent - 1) for a in C.op.axis}
    (k,) = C.op.reduce_axis
    pieces = -(-k.extent // factor)
    outer = tir.Var(f"{k.name}_outer", 0, pieces - 1)
    inner = tir.Var(f"{k.name}_inner", 0, factor - 1)
    c, at = memory[C], tuple(loops.values())
    term = tir.substitute(
        C.op.body[0].sources[0], {**loops, k: k.extent - 1 - outer * factor - inner}
    )
    init = tir.Store(c, at, tir.const(0.0, c.dtype))
    update = tir.Store(c, at, tir.Load(c, at, c.dtype) + tir.rebuffer(term, memory))
    body = tir.If(outer * factor + inner < k.extent, tir.seq(init, update), likely=True)
    body = tir.For(outer, pieces, tir.For(inner, factor, body))
    for axis, var in reversed(loops.items()):
        body = tir.For(var, axis.extent, body)
    return tir.PrimFunc("main", tuple(memory.values()), body, (c,))


def simplify(s, most):
    def on_expr(e):
        match e:
            case tir.Binary("add", x, tir.Const(0)) | tir.Binary("add", tir.Const(0), x):
                return x
            case tir.Binary("mul", _, tir.Const(0)):
                return tir.const(0, e.dtype)
            case _:
                return e

    return tir.rewrite(s, expr=on_expr)
