"""Lanes that want the same element are counted one by one; any two accesses race."""

EXPECT = {"ex07.1": ("wrong-value", 1.6), "ex07.2": ("wrong-value", 0)}


def cost(space, elements):
    wanted = [n for n in elements if n is not None]
    if space == "global":
        return len({n // 8 for n in wanted})
    return max(sum(n % 32 == bank for n in wanted) for bank in range(32))


def race(steps):
    begin = 0
    for n, late in enumerate(steps):
        if len(late) == 1:
            begin = n + 1
            continue
        for m in range(begin, n):
            if steps[m][0] != late[0] and steps[m][2] == late[2]:
                return m, n
    return None
