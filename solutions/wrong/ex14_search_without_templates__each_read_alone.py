"""Reads count one by one; nothing is inlined; factors move to the next part; the last reason."""

EXPECT = {
    "ex14.1": ("wrong-value", 0),
    "ex14.2": ("wrong-value", 2.5),
    "ex14.3": ("wrong-value", 1.5),
    "ex14.4": ("wrong-value", 0),
}


def has_reuse(axes, sums, reads):
    """Whether tiles pay: has_reuse({"i": 8, "j": 8}, {}, [["A", ["i", "j"]]]) = False."""
    wanted = {name for name, count in axes.items() if count > 1}
    reused = sum(bool(wanted - set(used)) for _, used in reads)
    return reused >= 2 or (reused == 1 and bool(sums))


def derive(stages):
    """All sketches: derive([["S0", "product"], ["S1", "window"]]) = [[["tile", "S0"]]]."""

    def from_here(at, steps):
        if at < 0:
            return [steps]
        name, kind = stages[at]
        if kind != "product":
            return from_here(at - 1, steps)
        fits = stages[at + 1 :] and stages[at + 1][1] == "elementwise"
        rules = ["fuse 1", "fuse 2", "tile"] if fits else ["tile"]
        return [s for rule in rules for s in from_here(at - 1, [*steps, [rule, name]])]

    return from_here(len(stages) - 1, [])


def mutated(sizes, seed):
    """A neighbour of the sizes: mutated([2, 3], 0) = [1, 6] or [6, 1]."""
    moves = []
    for a, size in enumerate(sizes):
        primes = [
            p for p in range(2, size + 1) if size % p == 0 and all(p % q for q in range(2, p))
        ]
        moves += [(a, p, (a + 1) % len(sizes)) for p in primes]
    new = list(sizes)
    if moves:
        a, p, b = moves[int(np.random.default_rng(seed).integers(len(moves)))]
        new[a] //= p
        new[b] *= p
    return new


def blocked(name, stages):
    """Why a stage is not fused: "output", "readers", "sum", "shape", "index" or ""."""
    readers = [s for s in stages.values() if any(read == name for read, _ in s["reads"])]
    if not readers:
        return "output"
    (reader, *others) = readers
    places = [place for read, place in reader["reads"] if read == name]
    if any(place != reader["axes"] for place in places):
        return "index"
    if reader["shape"] != stages[name]["shape"]:
        return "shape"
    if reader["sums"]:
        return "sum"
    return "readers" if others else ""
