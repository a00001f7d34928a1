"""The filters of single knobs alone; random rows; tune.pairwise_accuracy; the first line."""

EXPECT = {
    "ex11.1": ("forbidden", 1),
    "ex11.2": ("too-slow", 2),
    "ex11.3": ("wrong-value", 0),
    "ex11.4": ("wrong-value", 0),
}


def space(rows, columns, lanes, registers):
    cfg = autotvm.ConfigSpace()
    cfg.define_split("tile_y", rows, num_outputs=2, max_factor=registers)
    cfg.define_split(
        "tile_x",
        columns,
        num_outputs=3,
        filter=lambda e: e.size[2] % lanes == 0 and e.size[1] * e.size[2] <= 256,
    )
    return cfg


def propose(sizes, tried, seconds, count, seed):
    rng = np.random.default_rng([seed, len(tried)])
    known, found = {tuple(row) for row in tried}, []
    while len(found) < count:
        row = [int(rng.integers(n)) for n in sizes]
        if tuple(row) not in known:
            known.add(tuple(row))
            found.append(row)
    return found


def judged(scores, seconds):
    accuracy = tune.pairwise_accuracy(np.array(scores), np.array(seconds))
    return accuracy, 1 - accuracy


def diagnose(lines, task):
    record = json.loads(lines[0])
    return {"failures": {}, "best": record["values"], "knob": "tile_x"}
