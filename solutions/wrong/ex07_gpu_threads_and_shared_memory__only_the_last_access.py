"""Only the last access of an element is looked at; lanes that take no part read element 0."""

EXPECT = {"ex07.1": ("wrong-value", 0), "ex07.2": ("wrong-value", 0)}


def cost(space, elements):
    wanted = {n or 0 for n in elements}
    if space == "global":
        return len({n // 8 for n in wanted})
    return max(sum(n % 32 == bank for n in wanted) for bank in range(32))


def race(steps):
    last = {}
    for n, step in enumerate(steps):
        if len(step) == 1:
            last = {}
            continue
        thread, verb, element = step
        if element in last:
            m = last[element]
            if steps[m][0] != thread and "write" in (verb, steps[m][1]):
                return m, n
        last[element] = n
    return None
