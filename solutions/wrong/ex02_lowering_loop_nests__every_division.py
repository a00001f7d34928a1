"""Multiplies by 1 / 3 as well, which is another number in the last bit."""

from minitvm import tir

EXPECT = {"02.challenge": ("wrong-value", 0)}


def cheaper(s):
    def rule(e):
        match e:
            case tir.Binary("div", x, tir.Const(c)):
                return x * (1 / c)
            case _:
                return e

    return tir.rewrite(s, expr=rule)
