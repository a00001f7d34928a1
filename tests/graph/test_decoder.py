"""A decoder from torch writes the words that torch does, from an exported file in a new process."""

import subprocess
import sys

import pytest

from minitvm import graph, runtime

torch = pytest.importorskip("torch")
from benchmarks._decoder import Decoder, Prefill, Shape, Step  # noqa: E402

SHAPE = Shape(layers=2, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=200, capacity=32)
WORDS, STEPS = 6, 12
MODEL = """
import sys
import numpy as np
from minitvm import graph

model, words = graph.load(sys.argv[1]), np.array([[3, 1, 4, 1, 5, 9]])
caches = [np.zeros((1, 2, 32, 16), np.float32)] * 4
for position in (0, *range(6, 17)):
    scores, *caches = model(words, np.array([position]), *caches)
    words = np.argmax(scores, -1)
    print(words.item())
"""


def compiled(decoder: torch.nn.Module, change, **options) -> runtime.DynamicModule:
    """Compile a decoder for any number of words, which it adds to its caches."""
    step = Step(decoder)
    caches = [torch.zeros(SHAPE.cache) for _ in range(2 * SHAPE.layers)]

    def make(n: int) -> graph.Graph:
        words = torch.zeros((1, n), dtype=torch.int64)
        return change(graph.from_torch(step, (words, torch.tensor([0]), *caches)))

    return graph.compile_dynamic(make, special=(1,), largest=SHAPE.capacity, **options)


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
def test_one_exported_module_reads_a_text_and_decodes(int8: bool, tmp_path) -> None:
    torch.manual_seed(1)
    decoder = Decoder(SHAPE).eval()
    model = compiled(decoder, graph.int8_weights if int8 else lambda net: net, repack=int8)
    packed = {n: _packed(model, n) for n in (1, WORDS)}
    assert packed[1].isdisjoint(packed[WORDS]) if int8 else packed[1] == packed[WORDS]
    if int8:  # torch computes with the rounded weights
        _round_weights(decoder, model.params)
    model.export(tmp_path / "model.net")
    command = [sys.executable, "-c", MODEL, tmp_path / "model.net"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = torch.tensor([[3, 1, 4, 1, 5, 9]])
    assert [int(line) for line in printed.split()] == _by_torch(decoder, words)


def _packed(model: runtime.DynamicModule, n: int) -> set[str]:
    """Return the programs that pack weights for texts of n words."""
    kernels = (model.lib.kernels[call.kernel].func for call in model.plan.calls_at(n))
    return {str(f.prepack) for f in kernels if f.packed}


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
