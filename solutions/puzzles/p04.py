"""Solutions of the puzzles of notebook 04, and wrong answers: answer__what_is_wrong."""


def one_miss_a_line(s, B):
    s[B].reorder(s[B].op.reduce_axis[0], s[B].op.axis[0])


def one_miss_a_line__down_the_columns(s, B):
    s[B].reorder(s[B].op.axis[0], s[B].op.reduce_axis[0])


def one_miss_a_line__pieces_of_columns(s, B):
    (i,) = s[B].op.reduce_axis
    outer, inner = s[B].split(i, factor=8)
    s[B].reorder(outer, s[B].op.axis[0], inner)


def padded(columns):
    lines = -(-columns // 16)
    return 16 * (lines if lines % 2 else lines + 1)


def padded__a_line_more(columns):
    return 16 * (-(-columns // 16) + 1)


def padded__whole_lines(columns):
    return 16 * -(-columns // 16)


def hits(distance, lines):
    return 0 <= distance < lines


def hits__the_line_itself(distance, lines):
    return 0 <= distance <= lines


def hits__first_use(distance, lines):
    return distance < lines
