"""Solutions of the puzzles of notebook 14, and wrong answers: answer__what_is_wrong."""

import math


def ways(exponent, parts):
    return math.comb(exponent + parts - 1, exponent)


def ways__bars_on_stars(exponent, parts):
    return math.comb(exponent, parts - 1)


def ways__each_on_its_own(exponent, parts):
    return (exponent + 1) ** (parts - 1)


def longer(first, second):
    return 1e6 / 2**second - 1e6 / 2**first


def longer__the_other_way_round(first, second):
    return 1e6 / 2**first - 1e6 / 2**second


def longer__a_difference_of_scores(first, second):
    return 1e6 / 2 ** (first - second)


def smallest(decisions):
    return max(1 + sum(score > scores[0] for score in scores) for scores in decisions)


def smallest__one_too_few(decisions):
    return max(sum(score > scores[0] for score in scores) for scores in decisions)


def smallest__the_last_decision_only(decisions):
    return 1 + sum(score > decisions[-1][0] for score in decisions[-1])


def smallest__the_easiest_decision(decisions):
    return min(1 + sum(score > scores[0] for score in scores) for scores in decisions)
