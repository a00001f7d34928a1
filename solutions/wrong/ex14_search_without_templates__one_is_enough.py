"""One reused input is enough; fusion replaces tiling; composite factors; reads are readers."""

EXPECT = {
    "ex14.1": ("wrong-value", 1.5),
    "ex14.2": ("wrong-value", 0),
    "ex14.3": ("wrong-value", 0),
    "ex14.4": ("wrong-value", 0),
    "ex14.5": ("too-many-misses", 0),
}


def has_reuse(axes, sums, reads):
    """Whether tiles pay: has_reuse({"i": 8, "j": 8}, {}, [["A", ["i", "j"]]]) = False."""
    wanted = {name for name, count in axes.items() if count > 1}
    seen = {}
    for name, used in reads:
        seen.setdefault(name, set()).update(used)
    return any(wanted - used for used in seen.values())


def derive(stages):
    """All sketches: derive([["S0", "product"], ["S1", "window"]]) = [[["tile", "S0"]]]."""

    def from_here(at, steps):
        if at < 0:
            return [steps]
        name, kind = stages[at]
        if kind == "elementwise" and at < len(stages) - 1:
            return from_here(at - 1, [*steps, ["inline", name]])
        if kind != "product":
            return from_here(at - 1, steps)
        inlined = [stage for rule, stage in steps if rule == "inline"]
        later = [kind for stage, kind in stages[at + 1 :] if stage not in inlined]
        rules = ["fuse 1", "fuse 2"] if later[:1] == ["elementwise"] else ["tile"]
        return [s for rule in rules for s in from_here(at - 1, [*steps, [rule, name]])]

    return from_here(len(stages) - 1, [])


def mutated(sizes, seed):
    """A neighbour of the sizes: mutated([2, 3], 0) = [1, 6] or [6, 1]."""
    moves = []
    for a, size in enumerate(sizes):
        factors = [p for p in range(2, size + 1) if size % p == 0]
        moves += [(a, p, b) for p in factors for b in range(len(sizes)) if a != b]
    new = list(sizes)
    if moves:
        a, p, b = moves[int(np.random.default_rng(seed).integers(len(moves)))]
        new[a] //= p
        new[b] *= p
    return new


def blocked(name, stages):
    """Why a stage is not fused: "output", "readers", "sum", "shape", "index" or ""."""
    readers = [s for s in stages.values() for read, _ in s["reads"] if read == name]
    if len(readers) != 1:
        return "readers" if readers else "output"
    (reader,) = readers
    if reader["sums"]:
        return "sum"
    if reader["shape"] != stages[name]["shape"]:
        return "shape"
    places = [place for read, place in reader["reads"] if read == name]
    return "" if all(place == reader["axes"] for place in places) else "index"


def best(A, C):
    """The wrong two axes are tiled: the first two."""
    s = te.create_schedule(C.op)
    i, j, _ = C.op.axis
    s[C].tile(i, j, 4, 4)
    return s
