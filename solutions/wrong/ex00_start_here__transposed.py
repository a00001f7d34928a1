"""The factors change places: right for square matrices only."""

EXPECT = {"ex00.1": ("wrong-shape", 0)}


def matmul(A, B):
    k = te.reduce_axis((0, A.shape[0]), name="k")
    shape = (B.shape[0], A.shape[1])
    return te.compute(shape, lambda i, j: te.sum(A[k, j] * B[i, k], axis=k), name="C")
