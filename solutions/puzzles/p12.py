"""Solutions of the puzzles of notebook 12, and wrong answers: answer__what_is_wrong."""

from math import comb


def chance(count, good, trials):
    return 1 - comb(count - good, trials) / comb(count, trials)


def chance__with_replacement(count, good, trials):
    return 1 - (1 - good / count) ** trials


def chance__none_is_found(count, good, trials):
    return comb(count - good, trials) / comb(count, trials)


def curve(xs, ys, t):
    return max((y for x, y in zip(xs, ys, strict=True) if x < t), default=0)


def curve__up_to_the_threshold(xs, ys, t):
    return max((y for x, y in zip(xs, ys, strict=True) if x <= t), default=0)


def curve__of_the_largest_below(xs, ys, t):
    return max(((x, y) for x, y in zip(xs, ys, strict=True) if x < t), default=(0, 0))[1]


def improvement(mean, spread, best):
    return (max(mean + spread - best, 0) + max(mean - spread - best, 0)) / 2


def improvement__losses_count(mean, spread, best):
    return mean - best


def improvement__only_the_better_half(mean, spread, best):
    return max(mean + spread - best, 0) / 2
