"""The numbers of one product, computed by numpy: not a formula. And the name of the error only."""

EXPECT = {"ex00.1": ("wrong-type", 0), "ex00.2": ("other-message", 0)}


def matmul(A, B):
    import numpy as np

    return np.zeros((A.shape[0], B.shape[1]), "float32")


def refusal(A, B, C):
    return "ScheduleError"
