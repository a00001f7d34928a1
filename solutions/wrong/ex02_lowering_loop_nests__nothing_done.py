"""Loops that only set the sums to zero; and the program handed back as it is."""

EXPECT = {"ex02.1": ("wrong-value", 0), "ex02.2": ("other-loops", 0)}


def lower_reduce(A, B, C, factor):
    memory = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in (A, B, C)}
    loops = {a: tir.Var(a.name, 0, a.extent - 1) for a in C.op.axis}
    body = tir.Store(memory[C], tuple(loops.values()), tir.const(0.0, C.dtype))
    for axis, var in reversed(loops.items()):
        body = tir.For(var, axis.extent, body)
    return tir.PrimFunc("main", tuple(memory.values()), body, (memory[C],))


def simplify(s, most):
    return s
