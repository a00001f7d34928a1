"""Solutions of the puzzles of notebook 05, and wrong answers: answer__what_is_wrong."""


def one_row(s, down, across):
    y, _ = s[across].op.axis
    s[down].compute_at(s[across], y)


def one_row__for_each_element(s, down, across):
    _, x = s[across].op.axis
    s[down].compute_at(s[across], x)


def one_row__inlined(s, down, across):
    s[down].compute_inline()


def one_row__all_of_it_first(s, down, across):
    s[down].compute_root()


def rows_computed(height, rows):
    return height // rows * (rows + 2)


def rows_computed__all_of_it_first(height, rows):
    return height + 2


def rows_computed__one_row_more(height, rows):
    return height // rows * (rows + 1)


def rows_of_b(s, C, D):
    _, jo, _, _ = s[D].tile(*s[D].op.axis, 16, 16)
    s[C].compute_at(s[D], jo)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(j, k, i)


def rows_of_b__k_outside(s, C, D):
    _, jo, _, _ = s[D].tile(*s[D].op.axis, 16, 16)
    s[C].compute_at(s[D], jo)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(k, i, j)


def rows_of_b__rows_of_a(s, C, D):
    _, jo, _, _ = s[D].tile(*s[D].op.axis, 16, 16)
    s[C].compute_at(s[D], jo)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(i, k, j)
