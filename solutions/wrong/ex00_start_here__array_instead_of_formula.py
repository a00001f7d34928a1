"""The numbers of one product, computed by numpy: not a formula. And the name of the error only."""

EXPECT = {"ex00.1": "wrong-type", "ex00.2": "other-message"}


def matmul(A, B):
    import numpy as np

    return np.zeros((A.shape[0], B.shape[1]), "float32")


def refusal(A, B, C):
    return "ScheduleError"
