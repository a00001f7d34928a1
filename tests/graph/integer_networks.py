"""Networks quantised with powers of two, evaluated in numpy with integers alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from minitvm import graph

Known = tuple[np.ndarray, np.float64]  # integers, and the number that 1 stands for


def integer_values(
    net: graph.Graph, image: np.ndarray, accelerated: Collection[str]
) -> dict[graph.Node, np.ndarray]:
    """The bytes of each quantise node, and the real outputs.

    accelerated   the names of the convolutions after which halves are rounded up, not to even
    """
    known: dict[graph.Node, Known] = {}
    for node in net.nodes:
        values = [known.get(source) for source in node.inputs]
        match node.op, values:
            case "input", _:
                known[node] = image, np.float64(1)
            case "param", _:
                known[node] = net.params[node.name], np.float64(1)
            case "dequantise", [(codes, _), *vectors]:
                scale = vectors[0][0].flat[0] if vectors else node.attrs["scale"]
                known[node] = codes.astype(np.int64), np.float64(scale)
            case "quantise", [(x, step)]:
                known[node] = quantised(node, x, step, accelerated), np.float64(1)
            case _:
                known[node] = applied(node, values)
    chosen = {n: v for n, (v, _) in known.items() if n.op == "quantise"}
    return chosen | {n: np.float32(known[n][0]) * np.float32(known[n][1]) for n in net.outputs}


def quantised(
    node: graph.Node, x: np.ndarray, step: np.float64, accelerated: Collection[str]
) -> np.ndarray:
    """Bytes in steps of the node's scale."""
    scale = np.float64(node.attrs["scale"])
    if any(name in accelerated for name in sources(node.inputs[0])):
        shift = int(np.log2(scale / step))
        steps = (x + (1 << shift >> 1)) >> shift
    elif x.dtype.kind == "f":
        steps = np.rint(x / np.float32(scale))
    else:
        steps = np.rint(x.astype(np.float32) * np.float32(step / scale))
    return np.clip(steps, -128, 127).astype(np.int64)


def sources(node: graph.Node) -> list[str]:
    """The names of the convolutions whose sums a node adds and limits."""
    if node.op == "conv2d":
        return [node.name]
    return [n for x in node.inputs if node.op in ("add", "relu") for n in sources(x)]


def applied(node: graph.Node, values: list[Known]) -> Known:
    """The result of an operator on integers, and its step."""
    (x, step), *rest = values
    match node.op, rest:
        case "conv2d", [(w, size)]:
            return convolved(x, w, **node.attrs), step * size
        case "dense", [(w, size), (bias, _)]:
            return x @ w.T + np.rint(bias / (step * size)).astype(np.int64), step * size
        case "add", [(bias, _)] if node.inputs[1].op == "param":
            return x + np.rint(bias / step).astype(np.int64), step
        case "add", [(y, other)]:
            fine = min(step, other)
            return x * int(step / fine) + y * int(other / fine), fine
        case "relu", []:
            return np.maximum(x, 0), step
        case "max_pool2d", []:
            p, k, s = (node.attrs[name] for name in ("padding", "kernel", "strides"))
            edges = ((0, 0), (0, 0), (p, p), (p, p))
            padded = np.pad(x, edges, constant_values=-128)
            views = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))
            return views[:, :, ::s, ::s].max((4, 5)), step
        case "mean", []:
            return x.sum((2, 3)), step / np.prod(x.shape[2:])
        case _:
            raise AssertionError(node)


def convolved(x: np.ndarray, w: np.ndarray, strides: int = 1, padding: int = 0) -> np.ndarray:
    """Sums of products; float64 holds them exactly, and numpy multiplies it fast."""
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded, (_, _, *kernel) = np.pad(x, edges).astype(np.float64), w.shape
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))
    products = np.tensordot(
        views[:, :, ::strides, ::strides], w.astype(np.float64), ((1, 4, 5), (1, 2, 3))
    )
    return np.moveaxis(products, -1, 1).astype(np.int64)
