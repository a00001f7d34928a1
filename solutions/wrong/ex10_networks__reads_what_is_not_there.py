"""Makes the calls with small results first, whatever they read."""

EXPECT = {"10.challenge": ("wrong-value", 0)}


def order(calls):
    return sorted(range(len(calls)), key=lambda call: calls[call][0])
