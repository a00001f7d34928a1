"""A condition may be in a vector; reads are counted, not nodes; vectors have 16 lanes."""

EXPECT = {
    "ex90.1": ("race", 0),
    "ex90.3": ("guard", 1.2),
    "ex90.4": ("wrong-value", 0),
    "ex90.5": ("other-lanes", 2.4),
}

whole_vectors = vectorize


def tokens(steps):
    """What a step overwrites is not waited for if another unit still reads it."""
    lines, waited = [text for _, text, _, _ in steps], {}
    for n, (unit, _, reads, _) in enumerate(steps):
        needed = {}
        for m, (other, _, _, written) in enumerate(steps[:n]):
            if other != unit and {*written} & {*reads}:
                needed[other] = m
        for other, m in needed.items():
            if m > waited.get((other, unit), -1):
                waited[other, unit] = m
                lines[n] += f"   pop {other}"
                lines[m] += f"   push {unit}"
    return lines


def vectorize(func, lanes):
    def on_stmt(s):
        if not isinstance(s, tir.For):
            return s
        inside = [*tir.walk(s.body)]
        stores = [n for n in inside if isinstance(n, tir.Store)]
        fits = all(n.indices[-1] is s.var for n in stores) and s.extent >= lanes
        if not fits or any(isinstance(n, tir.For) for n in inside):
            return s
        count, left = divmod(s.extent, lanes)
        piece, lane = tir.Var("piece", 0, count - 1), tir.Var("lane", 0, lanes - 1)
        rest = tir.Var("rest", 0, max(0, left - 1))
        body = tir.substitute(s.body, {s.var: piece * lanes + lane})
        parts = [tir.For(piece, count, tir.For(lane, lanes, body, kind="vectorize"))]
        body = tir.substitute(s.body, {s.var: rest + count * lanes})
        return tir.seq(*parts, *[tir.For(rest, left, body)] * (left > 0))

    return replace(func, body=tir.rewrite(func.body, on_stmt))


def kernels(nodes):
    reads, groups = [n for _, _, inputs in nodes for n in inputs], []
    order = [name for name, _, _ in nodes]
    for name, op, inputs in nodes:
        joined = [k for k in groups if k[-1] in inputs and reads.count(k[-1]) == 1]
        if op == "dense" or (op != "input" and not joined):
            groups.append([name])
        elif op != "input":
            latest = max(joined, key=lambda k: order.index(k[-1]))
            groups.remove(latest)
            groups.append([*latest, name])
    return groups


def network(nodes, shapes):
    tensors = [formula(names, nodes, shapes) for names in kernels(nodes)]
    return [whole_vectors(loops(*ts), 16) for ts in tensors]
