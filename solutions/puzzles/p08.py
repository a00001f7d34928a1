"""Solutions of the puzzles of notebook 08, and wrong answers: answer__what_is_wrong."""

import math


def columns_first(rows, columns):
    dst, src, wgt = f"1,{columns}", "0,1", "1,0"
    return f"ex  gemm u[0:1] outer={columns} inner={rows} dst={dst} src={src} wgt={wgt}"


def columns_first__as_before(rows, columns):
    dst, src, wgt = f"{columns},1", "0,1", "1,0"
    return f"ex  gemm u[0:1] outer={columns} inner={rows} dst={dst} src={src} wgt={wgt}"


def columns_first__one_matrix(rows, columns):
    dst, src, wgt = f"1,{columns}", "0,1", "0,0"
    return f"ex  gemm u[0:1] outer={columns} inner={rows} dst={dst} src={src} wgt={wgt}"


def balanced(columns):
    return math.ceil((72 - 12 + 33 * columns) / (columns - 3))


def balanced__without_fixed_costs(columns):
    return math.ceil(33 * columns / (columns - 3))


def balanced__weights_alone(columns):
    return math.ceil((60 + 33 * columns) / columns)
