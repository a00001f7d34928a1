"""Solutions of the puzzles of notebook 01, and wrong answers: answer__what_is_wrong."""

from minitvm import te


def symmetric(X):
    n = X.shape[0]
    return te.compute((n,), lambda i: (X[i] + X[n - 1 - i]) / 2, name="Y")


def symmetric__no_mean(X):
    n = X.shape[0]
    return te.compute((n,), lambda i: X[i] + X[n - 1 - i], name="Y")


def symmetric__past_the_end(X):
    n = X.shape[0]
    return te.compute((n,), lambda i: (X[i] + X[n - i]) / 2, name="Y")


def dot_products(X):
    rows, columns = X.shape
    k = te.reduce_axis((0, rows), name="k")
    return te.compute((columns, columns), lambda i, j: te.sum(X[k, i] * X[k, j], axis=k), name="G")


def dot_products__of_equal_columns(X):
    rows, columns = X.shape
    k = te.reduce_axis((0, rows), name="k")
    return te.compute((columns, columns), lambda i, j: te.sum(X[k, i] * X[k, i], axis=k), name="G")


def blur_reads(height, width):
    return (height + 2) * (width + 2)


def blur_reads__each_window(height, width):
    return 9 * height * width


def blur_reads__one_border(height, width):
    return (height + 1) * (width + 1)
