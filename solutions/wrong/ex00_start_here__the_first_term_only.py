"""The formula without its sum; and another step is refused than the one that is asked for."""

EXPECT = {"ex00.1": ("wrong-value", 0), "ex00.2": ("other-message", 0)}


def matmul(A, B):
    return te.compute((A.shape[0], B.shape[1]), lambda i, j: A[i, 0] * B[0, j], name="C")


def refusal(A, B, C):
    s = te.create_schedule(C.op)
    try:
        s[C].vectorize(C.op.reduce_axis[0])
    except tvm.ScheduleError as error:
        return str(error)
