"""Solutions of the puzzles of notebook 15, and wrong answers: answer__what_is_wrong."""

import math


def stalled(w, g, alpha, rival):
    return math.ceil(-w * (1 - alpha) * g / rival)


def stalled__without_alpha(w, g, alpha, rival):
    return math.ceil(-w * g / rival)


def stalled__rounded_down(w, g, alpha, rival):
    return math.floor(-w * (1 - alpha) * g / rival)


def worst(networks, bounds, latencies):
    return max(
        sum(w * g for w, g in zip(row, latencies, strict=True)) / bound
        for row, bound in zip(networks, bounds, strict=True)
    )


def worst__by_latency(networks, bounds, latencies):
    taken = [sum(w * g for w, g in zip(row, latencies, strict=True)) for row in networks]
    return max(taken) / max(bounds)


def worst__of_the_first(networks, bounds, latencies):
    return sum(w * g for w, g in zip(networks[0], latencies, strict=True)) / bounds[0]
