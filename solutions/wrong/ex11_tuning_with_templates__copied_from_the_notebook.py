"""Cells of notebook 11: its splits and filter, its random tuner's rows, its accuracy, its log."""

EXPECT = {
    "ex11.1": ("wrong-type", 0),
    "ex11.2": ("wrong-value", 0),
    "ex11.3": ("wrong-value", 0.9),
    "ex11.4": ("wrong-value", 1.2),
}


def space(rows, columns, lanes, registers):
    cfg = autotvm.ConfigSpace()
    cfg.define_split("tile_y", rows, num_outputs=2, max_factor=32)
    cfg.define_split("tile_x", columns, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 128)
    return cfg


def propose(sizes, tried, seconds, count, seed):
    rng = np.random.default_rng(seed)
    return [[int(rng.integers(n)) for n in sizes] for _ in range(count)]


def judged(scores, seconds):
    model = tune.pairwise_accuracy(np.array(scores), 1 / np.array(seconds))
    return model, model


def diagnose(lines, task):
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["task"] == task and not record["final"]:
            records.append(record)
    failures = {}
    for record in records:
        if record["error"]:
            failures[record["error"]] = failures.get(record["error"], 0) + 1
    best = max((r for r in records if r["seconds"]), key=lambda r: r["flops"])
    return {"failures": failures, "best": best["values"], "knob": "unroll"}
