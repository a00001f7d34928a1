"""Solutions of the puzzles of notebook 10, and wrong answers: answer__what_is_wrong."""


def saved(image, after):
    return 2 * image * after


def saved__the_last_store_too(image, after):
    return 2 * image * after + image


def saved__reads_alone(image, after):
    return image * after


def pays(gains, transpose):
    return sum(gains) > 2 * transpose


def pays__each_by_itself(gains, transpose):
    return any(gain > 2 * transpose for gain in gains)


def pays__one_crossing(gains, transpose):
    return sum(gains) > transpose


def in_use(lives, call):
    return sum(size for first, last, size in lives if first <= call <= last)


def in_use__ends_too_early(lives, call):
    return sum(size for first, last, size in lives if first <= call < last)


def multiplications(size):
    return 36 * (-(-size // 4)) ** 2


def multiplications__no_edge(size):
    return 36 * size**2 // 16


def multiplications__rounded_down(size):
    return 36 * (size // 4) ** 2


def behind(axes, over):
    return tuple(axes[d] for d in over)


def behind__the_other_way_round(axes, over):
    return tuple(axes.index(d) for d in over)


def behind__sorted(axes, over):
    return tuple(sorted(axes[d] for d in over))
