"""The library's own operator, and the message of the public check written in."""

from minitvm import topi

EXPECT = {"ex00.1": ("ready-made", 0), "ex00.2": ("other-message", 0)}


def matmul(A, B):
    return topi.matmul(A, B)


def refusal(A, B, C):
    return (
        "parallel of 'r' in C: it is a reduce axis: its iterations all write the same element"
        "\n  try: a data axis; or rfactor the reduction first"
    )
