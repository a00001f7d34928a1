"""The arrays of a layer, packed for the accelerator, and its result by numpy."""

from __future__ import annotations

import numpy as np

from minitvm import vta
from minitvm.vta import Convolution, Dense, Layer, Tiling


def integers(rng: np.random.Generator, shape: tuple[int, ...], limit: int = 128) -> np.ndarray:
    """From -limit to limit - 1."""
    return rng.integers(-limit, limit, shape)


def shapes(layer: Layer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Of data, weight and result: [1, ic, h, w], [oc, ic, k, k] and [1, oc, h, w], or matrices."""
    ic, oc = layer.channels
    match layer:
        case Convolution(kernel=k):
            return (1, ic, *layer.size), (oc, ic, k, k), (1, oc, *layer.out)
        case Dense(batch=n):
            return (n, ic), (oc, ic), (n, oc)
        case _:
            raise AssertionError(layer)


def numbers(layer: Layer, seed: int = 0) -> dict[str, np.ndarray]:
    """data, weight, and bias [oc] and residual if it has them."""
    rng, (data, weight, out) = np.random.default_rng(seed), shapes(layer)
    made = {
        "data": integers(rng, data).astype("int8"),
        "weight": integers(rng, weight).astype("int8"),
    }
    if layer.bias:
        made["bias"] = integers(rng, (layer.channels[1],), 1 << 15).astype("int32")
    if layer.residual:
        made["residual"] = integers(rng, out).astype(layer.residual_dtype)
    return made


def expected(layer: Layer, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """int8: min(max((product + bias >> shift) + residual, 0), 127).

    With a residual_shift, the residual is shifted and added before the other shift.
    """
    if isinstance(layer, Convolution):
        total = convolution(layer, arrays)
    else:
        total = arrays["data"].astype("int32") @ arrays["weight"].T.astype("int32")
    if layer.bias:
        total += arrays["bias"].reshape(1, -1, *[1] * (total.ndim - 2))
    if layer.residual and layer.residual_shift is not None:
        total += arrays["residual"].astype("int32") << layer.residual_shift
    total >>= layer.shift
    if layer.residual and layer.residual_shift is None:
        total += arrays["residual"]
    return np.clip(total, 0, 127).astype("int8")


def convolution(layer: Convolution, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """int32 [1, oc, h, w]"""
    p, st, (h, w) = layer.pad, layer.stride, layer.out
    data = np.pad(arrays["data"].astype("int32"), ((0, 0), (0, 0), (p, p), (p, p)))
    total = np.zeros((1, layer.channels[1], h, w), "int32")
    for y in range(layer.kernel):
        for x in range(layer.kernel):
            part = data[:, :, y : y + st * h : st, x : x + st * w : st][:, :, :h, :w]
            weight = arrays["weight"][:, :, y, x].astype("int32")
            total += np.einsum("oi,nihw->nohw", weight, part, optimize=True)
    return total


def packed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arguments by name; the residual as the accumulators lie."""
    env = vta.get_env()
    packers = {
        "data": vta.pack_data,
        "weight": vta.pack_weight,
        "bias": vta.pack_bias,
        "residual": lambda a: vta.pack(a, env.BATCH, env.BLOCK_OUT),
    }
    return {name: packers[name](a) for name, a in arrays.items()}


def result(layer: Layer) -> np.ndarray:
    """Where the packed result goes."""
    return np.zeros(layer.tensors()[-1].shape, "int8")


def computed(layer: Layer, tiling: Tiling, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The result by the accelerator, unpacked."""
    out = result(layer)
    vta.build(*layer.scheduled(tiling))(*packed(arrays).values(), out)
    return vta.unpack(out, *shapes(layer)[2][:2])
