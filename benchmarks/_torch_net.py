"""Networks of minitvm.graph as torch modules: what the peers of benchmarks/networks.py run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from minitvm import graph


def _conv2d(x: Any, w: Any, strides: Any = 1, padding: Any = 0, groups: int = 1) -> Any:
    return functional.conv2d(x, w, None, strides, padding, 1, groups)


def _clip(x: Any, a_min: float, a_max: float) -> Any:
    return functional.hardtanh(x, a_min, a_max)


def _batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    return functional.batch_norm(x, mean, variance, gamma, beta)


def _layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
    return functional.layer_norm(x, gamma.shape, gamma, beta)


def _multiply(a: Any, b: Any) -> Any:
    return a * b


def _strided_slice(x: Any, begin: tuple[int, ...], end: tuple[int, ...]) -> Any:
    return x[tuple(slice(a, b) for a, b in zip(begin, end, strict=True))]


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "batch_matmul": torch.bmm,
    "batch_norm": _batch_norm,
    "clip": _clip,
    "concatenate": lambda *x, axis: torch.cat(x, axis),
    "conv2d": _conv2d,
    "conv3d": lambda x, w, strides=1, padding=0: functional.conv3d(x, w, None, strides, padding),
    "conv2d_transpose": lambda x, w, strides, padding: functional.conv_transpose2d(
        x, w, None, strides, padding
    ),
    "dense": functional.linear,
    "gelu": functional.gelu,
    "layer_norm": _layer_norm,
    "max_pool2d": lambda x, kernel, strides, padding=0: functional.max_pool2d(
        x, kernel, strides, padding
    ),
    "mean": lambda x, axis: x.mean(axis),
    "multiply": _multiply,
    "relu": functional.relu,
    "reshape": lambda x, shape: x.reshape(shape),
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: functional.softmax(x, -1),
    "strided_slice": _strided_slice,
    "take": lambda x, indices, axis: functional.embedding(indices, x),
    "tanh": torch.tanh,
    "transpose": lambda x, axes: x.permute(axes),
}


class TorchNet(torch.nn.Module):
    """A network with the parameters and operators of a graph."""

    def __init__(self, net: graph.Graph) -> None:
        super().__init__()
        self.net = net
        self.places = {node.name: f"p{k}" for k, node in enumerate(net.nodes) if node.op == "param"}
        for name, place in self.places.items():
            self.register_buffer(place, torch.from_numpy(net.params[name]))

    def forward(self, *inputs: Any) -> Any:
        """Compute the network, operator by operator."""
        values = dict(zip(self.net.inputs, inputs, strict=True))
        for node in self.net.nodes:
            if node.op == "param":
                values[node] = getattr(self, self.places[node.name])
            elif node not in values:
                values[node] = OPERATORS[node.op](*(values[n] for n in node.inputs), **node.attrs)
        found = [values[n] for n in self.net.outputs]
        return found[0] if len(found) == 1 else tuple(found)
