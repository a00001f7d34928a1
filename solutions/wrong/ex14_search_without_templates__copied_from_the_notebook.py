"""What notebook 14 says of each item: the rules of the library, its mutation, and its questions."""

from minitvm import tune
from minitvm.auto_scheduler import RULES

EXPECT = {
    "ex14.1": ("wrong-value", 0),
    "ex14.2": ("wrong-value", 0),
    "ex14.3": ("wrong-value", 0),
    "ex14.4": ("wrong-value", 0),
    "ex14.5": ("wrong-type", 0),
}


def has_reuse(axes, sums, reads):
    return bool(sums)


def derive(stages):
    return [[[rule.name, name]] for name, _ in stages for rule in RULES]


def mutated(sizes, seed):
    length = 1
    for size in sizes:
        length *= size
    space = tune.Space((tune.split_knob("tile", length, len(sizes)),))
    rng = np.random.default_rng(seed)
    (row,) = space.sample(rng, 1).tolist()
    return list(space.knobs[0].options[row[0]])


def blocked(name, stages):
    return "sum" if any(s["sums"] for s in stages.values()) else "readers"


def best(A, C):
    """The condition of the notebook's rule, which is for two axes."""
    i, j, *_ = C.op.axis
    return any(load.indices[0] is j and load.indices[1] is i for load in tensor.loads(C.op))
