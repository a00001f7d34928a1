"""Solutions of the puzzles of notebook 06, and wrong answers: answer__what_is_wrong."""

import numpy as np


def no_gather(s, G):
    s[G].vectorize(s[G].split(G.op.axis[1], factor=8)[1])


def no_gather__down_the_columns(s, G):
    s[G].vectorize(s[G].split(G.op.axis[0], factor=8)[1])


def no_gather__the_outer_loop(s, G):
    s[G].vectorize(s[G].split(G.op.axis[1], nparts=8)[0])


def runs_needed(clean, risk):
    return int(np.ceil(np.log(risk) / np.log(1 - clean)))


def runs_needed__rounded_down(clean, risk):
    return int(np.log(risk) / np.log(1 - clean))


def runs_needed__all_clean(clean, risk):
    return int(np.ceil(np.log(risk) / np.log(clean)))


def widest(registers):
    return (registers - 1) // 5


def widest__sums_alone(registers):
    return registers // 4


def widest__without_the_number_of_a(registers):
    return registers // 5
