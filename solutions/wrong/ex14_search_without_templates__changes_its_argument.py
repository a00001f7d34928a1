"""The neighbour is written into the list that was given."""

EXPECT = {
    "ex14.3": ("changed-argument", 0),
}


def mutated(sizes, seed):
    """A neighbour of the sizes: mutated([2, 3], 0) = [1, 6] or [6, 1]."""
    moves = []
    for a, size in enumerate(sizes):
        divisors = [p for p in range(2, size + 1) if size % p == 0]
        primes = [p for p in divisors if all(p % q for q in range(2, p))]
        moves += [(a, p, b) for p in primes for b in range(len(sizes)) if a != b]
    new = sizes
    if moves:
        a, p, b = moves[int(np.random.default_rng(seed).integers(len(moves)))]
        new[a] //= p
        new[b] *= p
    return new
