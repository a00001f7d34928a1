"""The library's own schedules, one of them for a machine with vectors of four; a single run."""

from minitvm import topi

EXPECT = {
    "ex06.1": ("false-alarm", 0.6),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:partial", 0),
}


def faster(before, after):
    return after[0] < 0.96 * before[0]


def product(kind, registers, lanes, A, B, bias, C, D):
    return topi.schedule(D)


def sums(M, v, y):
    return topi.schedule(y, "llvm -mattr=-avx,-avx2,-avx512f -num-cores=1")
