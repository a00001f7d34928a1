"""Chooses the task with the largest weight, whether its round fits into the budget or not."""

EXPECT = {"15.challenge": ("wrong-value", 0)}


def choose_in_time(histories, weights, seconds, left):
    return max(range(len(weights)), key=lambda n: weights[n] * seconds[n])
