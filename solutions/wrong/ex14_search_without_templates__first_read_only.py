"""Axes of one iteration count; the last stage is inlined; one seed; only the first read counts."""

EXPECT = {
    "ex14.1": ("wrong-value", 0),
    "ex14.2": ("wrong-value", 0),
    "ex14.3": ("wrong-value", 1.5),
    "ex14.4": ("wrong-value", 1.2),
    "ex14.5": ("too-many-misses", 0),
}


def has_reuse(axes, sums, reads):
    """Whether tiles pay: has_reuse({"i": 8, "j": 8}, {}, [["A", ["i", "j"]]]) = False."""
    seen = {}
    for name, used in reads:
        seen.setdefault(name, set()).update(used)
    reused = sum(bool(set(axes) - used) for used in seen.values())
    return reused >= 2 or (reused == 1 and bool(sums))


def derive(stages):
    """All sketches: derive([["S0", "product"], ["S1", "window"]]) = [[["tile", "S0"]]]."""

    def from_here(at, steps):
        if at < 0:
            return [steps]
        name, kind = stages[at]
        if kind == "elementwise":
            return from_here(at - 1, [*steps, ["inline", name]])
        if kind != "product":
            return from_here(at - 1, steps)
        return from_here(at - 1, [*steps, ["tile", name]])

    return from_here(len(stages) - 1, [])


def mutated(sizes, seed):
    """A neighbour of the sizes: mutated([2, 3], 0) = [1, 6] or [6, 1]."""
    new = list(sizes)
    for a, size in enumerate(sizes):
        for p in range(2, size + 1):
            if size % p == 0 and len(sizes) > 1:
                new[a] //= p
                new[a - 1] *= p
                return new
    return new


def blocked(name, stages):
    """Why a stage is not fused: "output", "readers", "sum", "shape", "index" or ""."""
    readers = [s for s in stages.values() if any(read == name for read, _ in s["reads"])]
    if len(readers) != 1:
        return "readers" if readers else "output"
    (reader,) = readers
    if reader["sums"]:
        return "sum"
    if reader["shape"] != stages[name]["shape"]:
        return "shape"
    places = [place for read, place in reader["reads"] if read == name]
    return "" if places[0] == reader["axes"] else "index"


def best(A, C):
    """The axes are exchanged, so that A is read along memory, and C is written across it."""
    s = te.create_schedule(C.op)
    (load,) = tensor.loads(C.op)
    s[C].reorder(C.op.axis[-1], load.indices[-1])
    return s
