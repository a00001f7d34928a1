"""Solutions of the puzzles of notebook 13, and wrong answers: answer__what_is_wrong."""


def worth(here, there):
    return there[here.index(max(here))] / max(there)


def worth__of_the_speed_here(here, there):
    return there[here.index(max(here))] / max(here)


def worth__the_slowest(here, there):
    return there[here.index(min(here))] / max(there)


def fetched(rows, columns, blocks, h, w, oc, image, weights):
    return image * (blocks // oc) + weights * (rows // h) * (columns // w)


def fetched__the_factors_exchanged(rows, columns, blocks, h, w, oc, image, weights):
    return image * (rows // h) * (columns // w) + weights * (blocks // oc)


def fetched__each_once(rows, columns, blocks, h, w, oc, image, weights):
    return image + weights
