"""Solutions of the puzzles of notebook 11, and wrong answers: answer__what_is_wrong."""

from math import comb


def options(power, parts):
    return comb(power + parts - 1, parts - 1)


def options__as_many_bars_as_parts(power, parts):
    return comb(power + parts, parts)


def options__each_factor_chooses(power, parts):
    return parts**power


def good_ones(count, trials):
    return -(-(count + 1) // trials) - 1


def good_ones__rounded_down(count, trials):
    return (count + 1) // trials - 1


def good_ones__the_share(count, trials):
    return -(-count // trials)


def rows(extent, most):
    return [n for n in range(1, most + 1) if -(-extent // n) * n - extent <= extent / 8]


def rows__divisors_only(extent, most):
    return [n for n in range(1, most + 1) if extent % n == 0]


def rows__rows_left_over(extent, most):
    return [n for n in range(1, most + 1) if extent % n <= extent / 8]


def rows__less_than_an_eighth(extent, most):
    return [n for n in range(1, most + 1) if -(-extent // n) * n - extent < extent / 8]
