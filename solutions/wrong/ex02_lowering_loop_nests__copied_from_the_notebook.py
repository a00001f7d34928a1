"""Cells of notebook 02: a program by hand, without a sum, and a pass for divisions."""

EXPECT = {"ex02.1": ("refused", 0), "ex02.2": ("other-loops", 0)}


def lower_reduce(A, B, C, factor):
    x, y = tir.Buffer("A", A.shape, A.dtype), tir.Buffer("C", C.shape, C.dtype)
    i = tir.Var("i", 0, C.shape[0] - 1)
    (axis,) = C.op.axis
    (formula,) = C.op.body
    value = tir.rebuffer(tir.substitute(formula, {axis: i}), {A: x})
    body = tir.For(i, C.shape[0], tir.Store(y, (i,), value))
    return tir.PrimFunc("main", (x, y), body, (y,))


def simplify(s, most):
    def rule(e):
        match e:
            case tir.Binary("div", x, tir.Const(c)) if math.frexp(c)[0] == 0.5:
                return x * (1 / c)
            case _:
                return e

    return tir.rewrite(s, expr=rule)
