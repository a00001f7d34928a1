"""How many times as fast it is, instead of whether it is."""

EXPECT = {"ex06.1": ("wrong-type", 0)}


def faster(before, after):
    return float(min(before) / min(after))
