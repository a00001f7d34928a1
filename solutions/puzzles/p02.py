"""Solutions of the puzzles of notebook 02, and wrong answers: answer__what_is_wrong."""


def a_column_at_a_time(s, C):
    (i, j), (r,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(j, r, i)


def a_column_at_a_time__a_row(s, C):
    (i, j), (r,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(i, r, j)


def a_column_at_a_time__one_sum(s, C):
    (i, j), (r,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(j, i, r)


def strips(s, blur_x, blur):
    y, _x = s[blur].op.axis
    outer, _inner = s[blur].split(y, factor=4)
    s[blur_x].compute_at(s[blur], outer)


def strips__each_row(s, blur_x, blur):
    y, _x = s[blur].op.axis
    _outer, inner = s[blur].split(y, factor=4)
    s[blur_x].compute_at(s[blur], inner)


def strips__all_of_it(s, blur_x, blur):
    y, _x = s[blur].op.axis
    s[blur].split(y, factor=4)


def idle(n, factor):
    return -n % factor


def idle__the_remainder(n, factor):
    return n % factor


def idle__a_whole_piece(n, factor):
    return factor - n % factor
