"""The library's own functions: the first rule of the list, a knob's options, a guess."""

from minitvm import tune
from minitvm.auto_scheduler import analysis

EXPECT = {
    "ex14.1": ("raises", 0),
    "ex14.2": ("wrong-type", 0),
    "ex14.3": ("wrong-value", 0),
    "ex14.4": ("raises", 0),
    "ex14.5": ("too-many-misses", 0),
}


def has_reuse(axes, sums, reads):
    return analysis.has_data_reuse(reads)


def derive(stages):
    return tune


def mutated(sizes, seed):
    knob = tune.split_knob("tile", int(np.prod(sizes)), len(sizes))
    return list(knob.options[seed % len(knob)])


def blocked(name, stages):
    return analysis.elementwise_consumer(stages, name)


def best(A, C):
    task = searched(A, C, RULES)
    (row,) = task.sketches[0].space.sample(np.random.default_rng(0), 1).tolist()
    return task.sketches[0].scheduled(row)
