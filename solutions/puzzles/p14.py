"""Solutions of the puzzles of notebook 14, and wrong answers: answer__what_is_wrong."""


def neighbours(sizes):
    return (len(sizes) - 1) * sum(size > 1 for size in sizes)


def neighbours__each_part_gives(sizes):
    return (len(sizes) - 1) * len(sizes)


def neighbours__to_the_next_part_only(sizes):
    return sum(size > 1 for size in sizes)


def longer(first, second):
    return 1e6 / 2**second - 1e6 / 2**first


def longer__the_other_way_round(first, second):
    return 1e6 / 2**first - 1e6 / 2**second


def longer__a_difference_of_scores(first, second):
    return 1e6 / 2 ** (first - second)


def smallest(decisions):
    return max(1 + sum(score > scores[0] for score in scores) for scores in decisions)


def smallest__one_too_few(decisions):
    return max(sum(score > scores[0] for score in scores) for scores in decisions)


def smallest__the_last_decision_only(decisions):
    return 1 + sum(score > decisions[-1][0] for score in decisions[-1])


def smallest__the_easiest_decision(decisions):
    return min(1 + sum(score > scores[0] for score in scores) for scores in decisions)
