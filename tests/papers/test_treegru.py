# pyright: basic

"""TreeGRU: loop trees are those of the program, and numpy computes what the equations say."""

import re

import numpy as np
import pytest

import minitvm as tvm
from minitvm import papers, tune

LOOPS, CONTEXT = papers.loop_tree.LOOPS, papers.loop_tree.CONTEXT
FOR = re.compile(r"^( *)for (\w+) in range\((\d+)\)", re.MULTILINE)
NOT_LOOPS = ("_init", "_vector")  # of the zeros before a sum, and of a vector in several pieces


def trees(name: str, rows: slice) -> np.ndarray:
    records = papers.recorded(name)
    return records.encoded("loop tree")[rows].reshape(-1, LOOPS, len(CONTEXT))


def random_model(seed: int = 0) -> papers.TreeGRU:
    """Return a small network with random weights: 5 hidden units and 3 memory slots."""
    rng, inputs = np.random.default_rng(seed), len(CONTEXT)
    shapes = (inputs, 15), (5, 15), (15,), (5,), (5, 3), (3, 5)
    weights = papers.Weights(*(rng.normal(0, 0.3, s).astype(np.float32) for s in shapes))
    return papers.TreeGRU(weights, weights.head)


# --- loop trees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 77, 500])
def test_the_serial_loops_of_a_tree_are_those_of_the_program(row):
    records = papers.recorded("matmul-512")
    space = records.task.config_space
    config = space.get(int(space.space.indices(records.rows[row : row + 1])[0]))
    text = str(tvm.lower(*records.task.instantiate(config)))
    loops = [m.groups() for m in FOR.finditer(text) if not any(n in m[2] for n in NOT_LOOPS)]
    tree = trees("matmul-512", slice(row, row + 1))[0]
    serial = tree[tree[:, CONTEXT.index("serial")] == 1]
    lengths, depths = 2 ** serial[:, CONTEXT.index("length")], serial[:, CONTEXT.index("depth")]
    assert loops
    assert [len(indent) // 2 for indent, _, _ in loops] == depths.tolist()
    np.testing.assert_allclose(lengths, [int(extent) for _, _, extent in loops], rtol=1e-5)


def test_the_outermost_loop_of_a_product_contains_the_whole_product():
    tree = trees("matmul-512", slice(0, 100))[:, 0]
    outermost = tree[tree[:, CONTEXT.index("depth")] == 1]
    column = {name: outermost[:, n] for n, name in enumerate(CONTEXT)}
    assert len(outermost) > 10
    np.testing.assert_allclose(column["outside"], 0)
    np.testing.assert_allclose(column["inside"], 27, rtol=1e-5)  # 512 ** 3 iterations
    np.testing.assert_allclose(column["access1.touched"], 18, rtol=1e-5)  # the whole matrix
    np.testing.assert_allclose(column["access1.reuse"], 9, rtol=1e-5)  # once per column


def test_a_convolution_and_a_product_have_the_same_columns():
    names = [papers.recorded(n).columns("loop tree").names for n in ("C9", "matmul-512")]
    assert names[0] == names[1]


def test_a_program_with_too_many_loops_is_refused(monkeypatch):
    monkeypatch.setattr(papers.loop_tree, "LOOPS", 4)
    records = papers.recorded("matmul-512")
    with pytest.raises(tvm.base.ArgumentError, match="at most 4"):
        papers.loop_tree.columns_of(records.task).of(0, np.zeros((1, 6), np.int32))


# --- the network ---------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(model: papers.TreeGRU, tree: np.ndarray) -> float:
    """Return the score of one tree, computed loop by loop from the equations in treegru.py."""
    w, hidden = model.weights, 5
    loops = [tuple(x) for x in tree if x[1] > 0]
    out = np.zeros((3, hidden))

    def embedding(first: int) -> tuple[np.ndarray, int]:
        """Return h of a loop, and the number of the first loop that is not inside it."""
        x, after, state = np.array(loops[first]), first + 1, np.zeros(hidden)
        while after < len(loops) and loops[after][1] > x[1]:
            h, after = embedding(after)
            state = state + h
        own, past = x @ w.read + w.bias, state @ w.state
        r, z = sigmoid(own[:5] + past[:5]), sigmoid(own[5:10] + past[5:10])
        h = (1 - z) * np.tanh(own[10:] + r * (past[10:] + w.inner)) + z * state
        shares = np.exp(h @ w.slots) / np.exp(h @ w.slots).sum()
        for slot in range(3):
            out[slot] += shares[slot] * h
        return h, after

    root = 0
    while root < len(loops):
        _, root = embedding(root)
    return float((out * model.head).sum())


@pytest.mark.parametrize("name", ["C9", "matmul-512"])
def test_scores_follow_from_the_equations(name):
    model, some = random_model(), trees(name, slice(0, 2000, 101))
    scores = model.predict(some.reshape(len(some), -1))
    np.testing.assert_allclose(scores, [reference(model, t) for t in some], rtol=1e-4)
    assert np.ptp(scores) > 0.01


def test_a_score_does_not_depend_on_the_other_candidates():
    model, features = papers.load_treegru(), papers.recorded("C9").encoded("loop tree")[:300]
    scores = model.predict(features)
    np.testing.assert_allclose(model.predict(features[::-1]), scores[::-1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.predict(features[7:8]), scores[7:8], rtol=1e-4, atol=1e-4)
    assert model.predict(features[:0]).shape == (0,)


def test_the_parts_of_loops_add_up_to_the_score():
    records = papers.recorded("C9")
    model, features = papers.load_treegru(), records.encoded("loop tree")[:1]
    parts = model.explain(features, records.columns("loop tree").names)
    np.testing.assert_allclose(sum(parts.values()), model.predict(features)[0], rtol=1e-4)


def test_a_correction_learns_from_the_trials_of_a_task():
    records, model = papers.recorded("C9"), papers.load_treegru()
    drawn = np.random.default_rng(0).permutation(len(records.rows))
    features, speeds = records.encoded("loop tree")[drawn], records.speeds[drawn]
    before = tune.pairwise_accuracy(model.predict(features[200:]), speeds[200:])
    model.fit(features[:200], speeds[:200])
    after = tune.pairwise_accuracy(model.predict(features[200:]), speeds[200:])
    assert after > before


def test_two_models_do_not_share_their_corrections():
    records = papers.recorded("C9")
    features, one, other = (
        records.encoded("loop tree"),
        papers.load_treegru(),
        papers.load_treegru(),
    )
    before = other.predict(features[:50])
    one.fit(features[:50], records.speeds[:50])
    np.testing.assert_array_equal(other.predict(features[:50]), before)


# --- the trained weights -------------------------------------------------------------------------


def test_the_weights_are_small_and_order_programs_of_another_operator():
    assert papers.treegru.FILE.stat().st_size < 200_000
    records = papers.recorded("matmul-512")
    scores = papers.load_treegru().predict(records.encoded("loop tree"))
    assert tune.pairwise_accuracy(scores, records.speeds) > 0.7
