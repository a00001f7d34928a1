"""exp(exp(x)) goes, too; the mean is not scaled; reductions take elements; no last call."""

EXPECT = {
    "ex10.1": ("wrong-value", 0),
    "ex10.2": ("wrong-value", 0.75),
    "ex10.3": ("wrong-value", 0),
    "ex10.4": ("overlap", 0),
}


def simplify(nodes, output):
    made, place = {}, {}
    for name, op, inputs in nodes:
        given = [place[n] for n in inputs]
        place[name] = name
        if op not in ("input", "add") and made[given[0]][0] == op:
            place[name] = given[0] if op == "relu" else made[given[0]][1][0]
        made[name] = op, given
    output = place[output]
    needed = {output}
    for name, (_, given) in reversed(made.items()):
        if name in needed:
            needed.update(given)
    return [[name, op, given] for name, (op, given) in made.items() if name in needed], output


def fold(w, bias, gamma, beta, mean, variance, epsilon):
    factor = gamma / np.sqrt(variance + epsilon)
    return w * factor[:, None, None, None], bias * factor - mean + beta


def kernels(ops):
    found = []
    for op in ops:
        inside = {KIND[each] for each in found[-1]} if found else {"anchor", "reduction"}
        match KIND[op]:
            case "anchor":
                joins = False
            case "element":
                joins = bool(found)
            case _:
                joins = inside <= {"element", "mover"}
        if joins:
            found[-1].append(op)
        else:
            found.append([op])
    return found


def offsets(lives):
    placed = {}
    for k in sorted(range(len(lives)), key=lambda k: -lives[k][2]):
        first, last, size = lives[k]
        beside = [
            (at, lives[m][2])
            for m, at in placed.items()
            if first < lives[m][1] and lives[m][0] < last
        ]
        place = 0
        for at, other in sorted(beside):
            if place + size <= at:
                break
            place = max(place, at + other)
        placed[k] = place
    return [placed[k] for k in range(len(lives))]
