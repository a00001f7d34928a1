"""Doubles the sums in the lower half before it adds them: each is twice as long as it thinks."""

EXPECT = {"08.challenge": ("wrong-value", 0)}


def moving_sum(elements, window):
    upper = elements + window - 1
    steps, begin, size = [], 0, 1
    while size <= window:
        if 2 * size <= window:
            steps.append((0, size, upper - 2 * size + 1))
        if window & size:
            steps.append((upper, begin, elements))
            begin += size
        size *= 2
    return steps, upper
