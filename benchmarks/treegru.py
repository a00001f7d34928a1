"""Train TreeGRU on recorded tables, and compare it with boosted trees (Chen et al. 2018).

    python benchmarks/treegru.py              train on C1 to C6; try C7 to C9, and a product
    python benchmarks/treegru.py --sources C2,C3 --targets C6

Needs torch (pip install minitvm[torch]); --write stores the weights in minitvm/papers/treegru.npz,
from which minitvm.papers.load_treegru computes scores without torch. Two runs on one machine give
the same weights.

Each line of the table is a task. The models have learned from all rows of the sources, and none of
the task: TreeGRU from loop trees; boosted trees from flattened loops, and from context relations.

pairs   the share of pairs that the model orders correctly
best    the fastest of the 16 candidates with the highest scores, relative to the fastest of all
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["MINITVM_NUM_THREADS"] = "1"

import numpy as np
import torch

from minitvm import papers, tune

TARGETS = ("C7", "C8", "C9", "matmul-512")
FILE = Path(papers.__file__).with_name("treegru.npz")
HIDDEN, SLOTS = 32, 8
STEPS, RATE, DECAY = 800, 8e-3, 1e-4
ROWS = 64  # of each task in a step; all pairs of them are compared
CHOSEN = 16


class Network(torch.nn.Module):
    """The network of minitvm.papers.treegru, with torch's gated recurrent unit."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.unit = torch.nn.GRUCell(context, HIDDEN)
        self.slots = torch.nn.Linear(HIDDEN, SLOTS, bias=False)
        self.head = torch.nn.Parameter(torch.randn(SLOTS, HIDDEN) / HIDDEN)

    def forward(
        self, trees: torch.Tensor, inside: torch.Tensor, used: torch.Tensor
    ) -> torch.Tensor:
        """Return the scores of trees, [candidates]; see `arranged`; used: [candidates, loops]."""
        count, loops, _ = trees.shape
        units = trees.new_zeros(count, 0, HIDDEN)  # of the loops behind this one
        for n in reversed(range(loops)):
            state = torch.bmm(inside[:, n : n + 1, n + 1 :], units)[:, 0]
            units = torch.cat([self.unit(trees[:, n], state)[:, None], units], dim=1)
        shares = torch.softmax(self.slots(units), dim=2) * used[:, :, None]
        return (shares * (units @ self.head.T)).sum(dim=(1, 2))


def arranged(features: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the trees without unused loops, and which loop is directly inside which.

    trees   float32[candidates, loops, context]; at the end of a smaller tree, zeros
    inside  float32[candidates, loops, loops]; [n, a, b] is 1 if loop b is directly inside loop a
    """
    trees = features.reshape(len(features), papers.loop_tree.LOOPS, -1)
    depths = trees[:, :, papers.loop_tree.DEPTH]
    order = np.argsort(depths == 0, axis=1, kind="stable")
    order = order[:, : int((depths > 0).sum(axis=1).max())]
    trees = np.take_along_axis(trees, order[:, :, None], axis=1)
    depths = np.take_along_axis(depths, order, axis=1)
    count, loops = depths.shape
    inside, last = np.zeros((count, loops, loops), np.float32), np.full((count, loops + 1), -1)
    for n in range(loops):
        rows = np.flatnonzero(depths[:, n] > 1)
        inside[rows, last[rows, depths[rows, n].astype(int) - 1], n] = 1
        last[np.arange(count), depths[:, n].astype(int)] = n
    return torch.tensor(trees), torch.tensor(inside)


def trained(sources: Sequence[str], seed: int, steps: int) -> papers.TreeGRU:
    """Train on all rows of the sources with the rank loss (equation 2)."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    tables = [papers.recorded(name) for name in sources]
    features = np.concatenate([t.encoded("loop tree") for t in tables])
    speeds = torch.tensor(np.concatenate([t.speeds for t in tables]))
    trees, inside = arranged(features)
    used = trees[:, :, papers.loop_tree.DEPTH] > 0
    mean, deviation = trees[used].mean(dim=0), trees[used].std(dim=0) + 1e-3
    trees = (trees - mean) / deviation
    network = Network(trees.shape[2])
    optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    rng, ends = np.random.default_rng(seed), np.cumsum([len(t.speeds) for t in tables]).tolist()
    begins, losses, start = [0, *ends[:-1]], list[float](), time.perf_counter()
    for step in range(1, steps + 1):
        rows = [rng.integers(begin, end, ROWS) for begin, end in zip(begins, ends, strict=True)]
        drawn = np.concatenate(rows)
        scores = network(trees[drawn], inside[drawn], used[drawn]).view(-1, ROWS)
        loss = rank_loss(scores, speeds[drawn].view(-1, ROWS))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
        if step % 100 == 0:
            seconds = time.perf_counter() - start
            print(f"step {step}: loss {np.mean(losses[-100:]):.3f}, {seconds:.0f} s", flush=True)
    weights = exported(network, mean, deviation)
    model = papers.TreeGRU(weights, weights.head)
    with torch.no_grad():
        scores = network(trees[drawn], inside[drawn], used[drawn]).numpy()
    np.testing.assert_allclose(model.predict(features[drawn]), scores, rtol=1e-3, atol=1e-3)
    return model


def rank_loss(scores: torch.Tensor, speeds: torch.Tensor) -> torch.Tensor:
    """Return the mean of log(1 + exp(-sign * difference)) over all pairs of each task."""
    signs = torch.sign(speeds[:, :, None] - speeds[:, None])
    ahead = signs * (scores[:, :, None] - scores[:, None])
    return torch.nn.functional.softplus(-ahead)[signs != 0].mean()


def exported(network: Network, mean: torch.Tensor, deviation: torch.Tensor) -> papers.Weights:
    """Return the network's weights; those that read contexts also normalize them."""
    unit = network.unit
    read = unit.weight_ih.T / deviation[:, None]
    bias, inner = unit.bias_ih - mean @ read, unit.bias_hh[2 * HIDDEN :]
    gates = torch.cat([unit.bias_hh[: 2 * HIDDEN], torch.zeros(HIDDEN)])
    tensors = (read, unit.weight_hh.T, bias + gates, inner, network.slots.weight.T, network.head)
    return papers.Weights(*(np.ascontiguousarray(t.detach().numpy()) for t in tensors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", default=",".join(papers.SOURCES))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"store the weights: {FILE.name}")
    flags = parser.parse_args()
    sources = tuple(flags.sources.split(","))
    network = trained(sources, flags.seed, flags.steps)
    if flags.write:
        np.savez_compressed(FILE, **network.weights._asdict())
        print(f"{FILE.name}: {FILE.stat().st_size / 1000:.0f} kB")
    models: dict[papers.Encoding, tune.Model] = {
        "loop tree": network,
        "flattened loops": papers.history(sources, "flattened loops"),
        "context relation": papers.history(sources, "context relation"),
    }
    print(f"{'':14}" + "".join(f"{name:>20}" for name in ("TreeGRU", *[*models][1:])))
    print(f"{'':14}" + "".join(f"{'pairs':>13}{'best':>7}" for _ in models))
    for name in flags.targets.split(","):
        table = papers.recorded(name)
        print(f"{name:14}", end="")
        for encoding, model in models.items():
            scores = model.predict(table.encoded(encoding))
            pairs = tune.pairwise_accuracy(scores, table.speeds)
            print(f"{pairs:13.3f}{tune.best_of(scores, table.speeds, CHOSEN):7.3f}", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
