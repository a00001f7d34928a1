"""Nothing sets the sum to zero: it starts with what the memory held before."""

EXPECT = {"ex02.1": ("wrong-value", 0)}


def lower_reduce(A, B, C, factor):
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
    body = tir.For(outer, pieces, tir.For(inner, factor, update))
    for axis, var in reversed(loops.items()):
        body = tir.For(var, axis.extent, body)
    return tir.PrimFunc("main", tuple(memory.values()), body, (c,))
