"""Small schedules to look at."""

from minitvm import te


def matmul(n: int = 8, split: bool = True):
    """C = A B with j split by 4: loops i, j_outer, j_inner, k."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    if split:
        s[C].split(C.op.axis[1], factor=4)
    return s, [A, B, C]


def tiled(n: int = 64):
    """A tiled matmul with parallel, unrolled and vectorized loops."""
    s, (A, B, C) = matmul(n, split=False)
    (k,) = C.op.reduce_axis
    io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 8)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    s[C].vectorize(ji)
    s[C].parallel(io)
    s[C].unroll(ki)
    return s, [A, B, C]


def blur(n: int = 10):
    """Two stages, the first computed inside a loop of the second, with a guard on the tail."""
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    return s, [A, C]
