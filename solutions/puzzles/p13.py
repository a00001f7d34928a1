"""Solutions of the puzzles of notebook 13, and wrong answers: answer__what_is_wrong."""


def worth(here, there):
    return there[here.index(max(here))] / max(there)


def worth__of_the_speed_here(here, there):
    return there[here.index(max(here))] / max(here)


def worth__the_slowest(here, there):
    return there[here.index(min(here))] / max(there)


def relation(counts, reuses, bound):
    return max((y for x, y in zip(counts, reuses, strict=True) if x < bound), default=0)


def relation__all_loops(counts, reuses, bound):
    return max(reuses, default=0)


def relation__the_bound_included(counts, reuses, bound):
    return max((y for x, y in zip(counts, reuses, strict=True) if x <= bound), default=0)
