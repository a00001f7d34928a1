"""Solutions of the puzzles of notebook 16, and wrong answers: answer__what_is_wrong."""

import math


def correction(weights, zero):
    return -zero * sum(weights)


def correction__the_wrong_sign(weights, zero):
    return zero * sum(weights)


def correction__once(weights, zero):
    return -zero


def scales(weights):
    return [max(abs(w) for w in row) / 127 for row in weights]


def scales__of_all_rows(weights):
    return [max(abs(w) for r in weights for w in r) / 127 for row in weights]


def scales__without_signs(weights):
    return [max(row) / 127 for row in weights]


def factors(data, weights):
    return [math.sqrt(x / w) for x, w in zip(data, weights, strict=True)]


def factors__not_shared(data, weights):
    return [x / w for x, w in zip(data, weights, strict=True)]


def factors__the_other_way(data, weights):
    return [math.sqrt(w / x) for x, w in zip(data, weights, strict=True)]


def wasted(lengths):
    return 1 - sum(lengths) / len(lengths) / max(lengths)


def wasted__the_useful_share(lengths):
    return sum(lengths) / (len(lengths) * max(lengths))


def wasted__per_symbol(lengths):
    return (len(lengths) * max(lengths) - sum(lengths)) / sum(lengths)
