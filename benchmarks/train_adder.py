"""Train the small decoder that adds two numbers of three digits: graph.networks.adder.

    python benchmarks/train_adder.py             train, and count how many sums are right
    python benchmarks/train_adder.py --write     the same, and store the weights in minitvm

Needs torch (pip install minitvm[torch]). Two runs on one machine give the same weights. A sum is
right if all four digits are, each chosen greedily after the digits before it. The digits of the
answer come in reversed order, 123+989=2111, so that a carry is known when it is needed.
"""

import argparse
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch.nn import functional

from minitvm import graph
from minitvm.graph.networks import adding

STEPS, BATCH, RATE, DECAY = 3000, 384, 4e-3, 0.01
TESTED = 10_000  # sums, drawn by graph.networks.adding.problems


class Layer(torch.nn.Module):
    """A layer of the decoder, with the names of the parameters that the package reads."""

    def __init__(self) -> None:
        super().__init__()
        width, inner = adding.WIDTH, adding.INNER
        self.norm1 = torch.nn.RMSNorm(width, eps=adding.EPSILON)
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.norm2 = torch.nn.RMSNorm(width, eps=adding.EPSILON)
        self.gate = torch.nn.Linear(width, inner, bias=False)
        self.up = torch.nn.Linear(width, inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return x [batch, length, width] after attention and the gated dense layers."""
        batch, length, width = x.shape
        normed = self.norm1(x)

        def split(part: torch.nn.Linear) -> torch.Tensor:
            return part(normed).view(batch, length, adding.HEADS, -1).transpose(1, 2)

        query, key = (rotated(split(part), cos, sin) for part in (self.query, self.key))
        attended = functional.scaled_dot_product_attention(
            query, key, split(self.value), is_causal=True
        )
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, width))
        normed = self.norm2(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Decoder(torch.nn.Module):
    """The decoder of graph.networks.adder as a torch module."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(len(adding.SYMBOLS), adding.WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(adding.LAYERS))
        self.norm = torch.nn.RMSNorm(adding.WIDTH, eps=adding.EPSILON)
        self.head = torch.nn.Linear(adding.WIDTH, len(adding.SYMBOLS), bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next symbol, [batch, length, symbols]."""
        cos, sin = map(torch.from_numpy, adding.rotations(words.shape[1]))
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of features by an angle that grows with the position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def train(steps: int) -> Decoder:
    """Train on new random sums in each step; some of them may be tested later."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, rng, begin = Decoder(), np.random.default_rng(1), time.time()
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps, pct_start=0.1)
    for step in range(steps):
        a, b = rng.integers(0, adding.LIMIT, (2, BATCH))
        words = torch.from_numpy(adding.written(a, b))
        scores = model(words[:, :-1])[:, adding.QUESTION - 1 :]
        answer = words[:, adding.QUESTION :]
        loss = functional.cross_entropy(scores.flatten(0, 1), answer.flatten().long())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 250 == 0:
            print(
                f"step {step:5}: loss {loss.item():8.5f}, {time.time() - begin:5.0f} s", flush=True
            )
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training ({STEPS})")
    parser.add_argument("--write", action="store_true", help=f"store the weights in {adding.FILE}")
    options = parser.parse_args()
    weights = {k: v.detach().numpy() for k, v in train(options.steps).state_dict().items()}
    a, b = adding.problems(TESTED)
    net = adding.network(weights, batch=500)
    right = adding.right(lambda words: graph.evaluate(net, words)[0], a, b, batch=500)
    print(
        f"{right:,} of {TESTED:,} sums are right; {sum(w.size for w in weights.values()):,} weights"
    )
    if options.write:
        np.savez_compressed(adding.FILE, **weights)
        print(f"{adding.FILE.name}: {adding.FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
