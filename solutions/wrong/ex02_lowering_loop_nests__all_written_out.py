"""Writes out every loop, so the program is longer than allowed."""

from minitvm import tir

EXPECT = {"02.challenge": ("too-long", 0)}


def cheaper(s):
    def rule(s):
        match s:
            case tir.For(var, extent, body):
                return tir.seq(*(tir.substitute(body, {var: n}) for n in range(extent)))
            case _:
                return s

    return tir.rewrite(s, stmt=rule)
