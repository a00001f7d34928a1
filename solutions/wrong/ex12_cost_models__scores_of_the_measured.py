"""The scores of the measured rows instead of the others."""

EXPECT = {"12.challenge": ("wrong-value", 0)}


def scores(measured, seconds, others):
    return [-s for s in seconds]
