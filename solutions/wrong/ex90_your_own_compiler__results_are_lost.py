"""The last kernel does not run; what a step overwrites is not waited for."""

EXPECT = {"ex90.1": ("race", 0), "ex90.5": ("wrong-value", 0), "90.challenge": ("wrong-value", 0)}


def tokens(steps):
    lines, written, count, popped = [], {}, {}, {}
    for unit, text, reads, writes in steps:
        line = text
        for other in {written[p][0] for p in reads if p in written} - {unit}:
            last = max(written[p][1] for p in reads if written.get(p, ("", 0))[0] == other)
            waits = last - popped.get((other, unit), 0)
            lines += [f"{unit}  nop   pop {other}"] * max(0, waits)
            popped[other, unit] = max(last, popped.get((other, unit), 0))
        for other in {"ld": ["ex"], "ex": ["st"], "st": ["ex"]}[unit]:
            count[unit, other] = count.get((unit, other), 0) + 1
            line += f"   push {other}"
            written |= dict.fromkeys(writes, (unit, count[unit, other]))
        lines.append(line)
    for (one, other), n in count.items():
        lines += [f"{other}  nop   pop {one}"] * (n - popped.get((one, other), 0))
    return lines


def network(nodes, shapes):
    return [loops(*formula(names, nodes, shapes)) for names in kernels(nodes)][:-1]


def tuned(nodes, shapes):
    return network(nodes, shapes)
