"""Element 0 counts as no element, a warp without lanes fails, and two writes do not race."""

EXPECT = {"ex07.1": ("wrong-value", 0), "ex07.2": ("wrong-value", 0)}


def cost(space, elements):
    wanted = {n for n in elements if n}
    if space == "global":
        return len({n // 8 for n in wanted})
    return max(sum(n % 32 == bank for n in wanted) for bank in range(32))


def race(steps):
    for n, late in enumerate(steps):
        for m, early in enumerate(steps[:n]):
            if len(early) == 1 or len(late) == 1 or ("barrier",) in steps[m:n]:
                continue
            if early[0] != late[0] and early[2] == late[2] and early[1] != late[1]:
                return m, n
    return None
