"""Solutions of the puzzles of notebook 00, and wrong answers: answer__what_is_wrong."""


def along_the_rows(s, D):
    i, j, k = s[D].leaf_iter_vars
    s[D].reorder(k, i, j)


def along_the_rows__copied_from_step_1(s, D):
    i, j, k = s[D].leaf_iter_vars
    s[D].reorder(i, k, j)


def along_the_rows__down_the_result(s, D):
    i, j, k = s[D].leaf_iter_vars
    s[D].reorder(k, j, i)


def loads(rows, vectors):
    return (rows + vectors) / (rows * vectors)


def loads__upside_down(rows, vectors):
    return rows * vectors / (rows + vectors)


def loads__numbers_of_A_only(rows, vectors):
    return 1 / vectors
