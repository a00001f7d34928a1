"""The library's instruction and its schedule; and the answer to the question before."""

from minitvm import topi
from minitvm.vta import vdla

EXPECT = {"ex08.1": ("calls", 0), "ex08.2": ("refused", 0), "ex08.3": ("too-many-bytes", 0.4)}

right = product


def gemm8x8():
    return vdla.gemm8x8


def product(A, B, A_buf, B_buf, C_buf, C, gemm):
    return topi.schedule(C)


def few_bytes(*tensors):
    return right(*tensors)
