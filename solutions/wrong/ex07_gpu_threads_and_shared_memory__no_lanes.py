"""A warp in which no lane takes part is forgotten."""

EXPECT = {"ex07.1": ("raises", 1.6)}


def cost(space, elements):
    wanted = [n for n in elements if n is not None]
    if space == "global":
        return len({n // 8 for n in wanted})
    banks = {}
    for n in set(wanted):
        banks.setdefault(n % 32, []).append(n)
    return max(len(words) for words in banks.values())
