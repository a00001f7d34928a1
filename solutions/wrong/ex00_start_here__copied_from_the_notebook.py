"""Cells of notebook 00 as they are: a square formula, and the message of another axis."""

EXPECT = {"ex00.1": ("wrong-shape", 0), "ex00.2": ("other-message", 0)}


def matmul(A, B):
    N = A.shape[1]
    k = te.reduce_axis((0, N), name="k")
    return te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def refusal(A, B, C):
    s = te.create_schedule(C.op)
    k = C.op.reduce_axis[0]
    *_, ki = s[C].tile(*s[C].op.axis, k, 32, 256, 64)
    try:
        s[C].parallel(ki)
    except tvm.ScheduleError as error:
        return str(error)
