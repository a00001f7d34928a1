"""Solutions of the puzzles of notebook 03, and wrong answers: answer__what_is_wrong."""


def two_rows(s, B):
    i, j = s[B].op.axis
    io, ii = s[B].split(i, factor=2)
    s[B].reorder(io, j, ii)


def two_rows__row_by_row(s, B):
    i, j = s[B].op.axis
    io, ii = s[B].split(i, factor=2)
    s[B].reorder(io, ii, j)


def two_rows__column_by_column(s, B):
    i, j = s[B].op.axis
    io, ii = s[B].split(i, factor=2)
    s[B].reorder(j, io, ii)


def busiest(rows, columns, cores):
    return -(-rows * columns // cores)


def busiest__whole_rows(rows, columns, cores):
    return -(-rows // cores) * columns


def busiest__rounded_down(rows, columns, cores):
    return rows * columns // cores


def along_lines(s, R):
    (i, j), (k,) = s[R].op.axis, s[R].op.reduce_axis
    jo, ji = s[R].split(j, factor=4)
    s[R].reorder(jo, i, ji, k)


def along_lines__as_written(s, R):
    (i, j), (k,) = s[R].op.axis, s[R].op.reduce_axis
    jo, ji = s[R].split(j, factor=4)
    s[R].reorder(i, jo, ji, k)


def along_lines__the_wrong_strip(s, R):
    (i, j), (k,) = s[R].op.axis, s[R].op.reduce_axis
    jo, ji = s[R].split(j, factor=4)
    s[R].reorder(ji, i, jo, k)
