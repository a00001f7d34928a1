"""The rank loss of minitvm, which counts all pairs alike."""

from minitvm import tune

EXPECT = {"ex12.1": ("wrong-value", 0)}


def gradient(scores, seconds):
    objective = tune.rank_loss(1 / np.array(seconds), 0)
    return (objective(np.array(scores), None)[0] / 2).tolist()
