"""The decoder that adds: its sums are right, and it reads only what stands before."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError
from minitvm.graph.networks import adding

BATCH = 50


@pytest.fixture(scope="module")
def net() -> graph.Graph:
    return graph.networks.adder(batch=BATCH)


def shown(words: np.ndarray) -> list[str]:
    return ["".join(adding.SYMBOLS[k] for k in row) for row in words]


def test_a_sum_is_written_with_its_answer_reversed() -> None:
    assert shown(adding.written([12, 999], [995, 999])) == ["012+995=7001", "999+999=8991"]


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [([1000], [1], "from 0 to 999"), ([1], [-1], "from 0 to 999"), ([1, 2], [1], "shapes")],
)
def test_numbers_that_do_not_fit_are_refused(a: list[int], b: list[int], why: str) -> None:
    with pytest.raises(GraphError, match=why):
        adding.written(a, b)


def test_scores_depend_on_earlier_symbols_alone(net: graph.Graph) -> None:
    a, b = adding.problems(BATCH, seed=1)
    words = adding.written(a, b)[:, : adding.LENGTH]
    changed = words.copy()
    changed[:, 6:] = (changed[:, 6:] + 1) % len(adding.SYMBOLS)
    (scores,), (others,) = graph.evaluate(net, words), graph.evaluate(net, changed)
    np.testing.assert_allclose(scores[:, :6], others[:, :6], atol=1e-5)
    assert abs(scores[:, 6:] - others[:, 6:]).max() > 1


def test_the_compiled_decoder_adds_correctly(net: graph.Graph) -> None:
    a, b = adding.problems(4 * BATCH, seed=2)
    module = graph.compile(net, "llvm -num-cores=1")
    assert adding.right(module, a, b, batch=BATCH) == len(a)


def test_an_incomplete_batch_is_filled_up(net: graph.Graph) -> None:
    module = graph.compile(net, "llvm -num-cores=1")
    answers = adding.answers(module, [999, 5], [1, 5], batch=BATCH)
    assert shown(answers) == ["0001", "0100"]


def test_untrained_weights_do_not_add(net: graph.Graph) -> None:
    noise = {k: np.roll(v, 1, axis=0) for k, v in net.params.items()}
    a, b = adding.problems(BATCH, seed=3)
    shifted = adding.network(noise, batch=BATCH)
    right = adding.right(lambda words: graph.evaluate(shifted, words)[0], a, b, batch=BATCH)
    assert right < BATCH / 2
