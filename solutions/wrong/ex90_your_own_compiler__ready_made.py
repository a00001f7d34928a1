"""The functions of the library, and tokens that let one step run at a time."""

import minitvm as tvm
from minitvm import lowering

EXPECT = {
    "ex90.2": ("too-many-stores", 1.8),
    "ex90.3": ("too-few-vectors", 1.2),
    "ex90.4": ("wrong-value", 0),
    "ex90.1": ("too-many-cycles", 2.0),
    "ex90.5": ("too-many-stores", 2.4),
}


def loops(*tensors):
    return tvm.lower(te.create_schedule(tensors[-1].op), tensors, until="nest")


def vectorize(func, lanes):
    return replace(func, body=lowering.partition(func.body))


def kernels(nodes):
    return [[name for name, op, _ in nodes if op != "input"]]


def tokens(steps):
    """Every load waits for all that was computed before, and the other way round."""
    lines, queues = [], {}
    for unit, text, _, _ in steps:
        line = text
        for other in {"ld": ["ex"], "ex": ["ld", "st"], "st": ["ex"]}[unit]:
            waiting = queues.get((other, unit), 0)
            lines += [f"{unit}  nop   pop {other}"] * waiting
            queues[other, unit] = 0
            queues[unit, other] = queues.get((unit, other), 0) + 1
            line += f"   push {other}"
        lines.append(line)
    for (one, other), waiting in queues.items():
        lines += [f"{other}  nop   pop {one}"] * waiting
    return lines


def network(nodes, shapes):
    readers, found = [n for _, _, inputs in nodes for n in inputs], []
    for name, op, inputs in nodes:
        joined = [k for k in found if k[-1] in inputs and readers.count(k[-1]) == 1]
        if op == "dense" or (op != "input" and not joined):
            found.append([name])
        elif op != "input":
            found.remove(joined[-1])
            found.append([*joined[-1], name])
    tensors = [formula(names, nodes, shapes) for names in found]
    return [tvm.lower(te.create_schedule(ts[-1].op), ts, until="nest") for ts in tensors]
