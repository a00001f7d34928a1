"""A decoder from torch writes the words that torch does, from an exported file in a new process."""

import subprocess
import sys

import numpy as np
import pytest

from minitvm import graph

torch = pytest.importorskip("torch")
from benchmarks._decoder import Decoder, Prefill, Shape, Step, padded  # noqa: E402

SHAPE = Shape(layers=2, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=200, capacity=32)
WORDS, STEPS = 6, 12
DECODE = """
import sys
import numpy as np
from minitvm import graph

step, start = graph.load(sys.argv[1]), np.load(sys.argv[2])
word, caches = start["word"], [start[f"arr_{k}"] for k in range(len(start) - 1)]
for position in range(6, 17):
    print(word.item())
    scores, *caches = step(word, np.array([position]), *caches)
    word = np.argmax(scores, -1)
print(word.item())
"""


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_greedy_decoding_by_an_exported_file(int8: bool, tmp_path) -> None:
    torch.manual_seed(1)
    decoder = Decoder(SHAPE).eval()
    words = torch.tensor([[3, 1, 4, 1, 5, 9]])
    caches = [torch.zeros(SHAPE.cache) for _ in range(2 * SHAPE.layers)]
    prefill = graph.from_torch(Prefill(decoder), (words,))
    step = graph.from_torch(Step(decoder), (words[:, :1], torch.tensor([WORDS]), *caches))
    if int8:  # torch computes with the rounded weights
        step, prefill = graph.int8_weights(step), graph.int8_weights(prefill)
        _round_weights(decoder, step.params)
    scores, *kept = graph.compile(prefill)(words.numpy())
    graph.compile(step).export(tmp_path / "step.net")
    np.savez(tmp_path / "start.npz", *padded(kept, SHAPE), word=np.argmax(scores, -1))
    command = [sys.executable, "-c", DECODE, tmp_path / "step.net", tmp_path / "start.npz"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in printed.split()] == _by_torch(decoder, words)


def _round_weights(decoder: torch.nn.Module, params) -> None:
    for name, weight in decoder.named_parameters():
        if (q := params.get(f"decoder.{name}.int8")) is not None:
            scales = params[f"decoder.{name}.scales"].repeat(32, 1)
            weight.data = torch.from_numpy(q * scales)


@torch.no_grad()
def _by_torch(decoder: torch.nn.Module, words) -> list[int]:
    """Return the next words: each from a prefill of all words before it, without caches."""
    for _ in range(STEPS):
        scores, *_ = Prefill(decoder)(words)
        words = torch.cat([words, scores.argmax(-1)], 1)
    return words[0, WORDS:].tolist()
