"""relu(relu(x)) becomes x; the weights are summed; anchors take movers; blocks in order."""

EXPECT = {
    "ex10.1": ("wrong-value", 0),
    "ex10.2": ("wrong-value", 2.25),
    "ex10.3": ("wrong-value", 0),
    "ex10.4": ("too-large", 2),
}


def simplify(nodes, output):
    made, place = {}, {}
    for name, op, inputs in nodes:
        given = [place[n] for n in inputs]
        place[name] = name
        if op in ("relu", "negative", "transpose") and made[given[0]][0] == op:
            place[name] = made[given[0]][1][0]
        made[name] = op, given
    output = place[output]
    needed = {output}
    for name, (_, given) in reversed(made.items()):
        if name in needed:
            needed.update(given)
    return [[name, op, given] for name, (op, given) in made.items() if name in needed], output


def fold(w, bias, gamma, beta, mean, variance, epsilon):
    factor = gamma / np.sqrt(variance + epsilon)
    return np.sum(w, axis=0) * factor[:, None, None, None], (bias - mean) * factor + beta


def kernels(ops):
    found = []
    for op in ops:
        inside = {KIND[each] for each in found[-1]} if found else {"anchor", "reduction"}
        match KIND[op]:
            case "anchor":
                joins = False
            case "element":
                joins = "reduction" not in inside
            case _:
                joins = "reduction" not in inside
        if joins:
            found[-1].append(op)
        else:
            found.append([op])
    return found


def offsets(lives):
    placed = {}
    for k in range(len(lives)):
        first, last, size = lives[k]
        beside = [
            (at, lives[m][2])
            for m, at in placed.items()
            if first <= lives[m][1] and lives[m][0] <= last
        ]
        place = 0
        for at, other in sorted(beside):
            if place + size <= at:
                break
            place = max(place, at + other)
        placed[k] = place
    return [placed[k] for k in range(len(lives))]
