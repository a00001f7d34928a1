"""A convolution's arrays, packed for the accelerator, and its result by numpy."""

from __future__ import annotations

import numpy as np

from minitvm import vta
from minitvm.vta import Convolution, Tiling


def integers(rng: np.random.Generator, shape: tuple[int, ...], limit: int = 128) -> np.ndarray:
    """From -limit to limit - 1."""
    return rng.integers(-limit, limit, shape)


def numbers(layer: Convolution, seed: int = 0) -> dict[str, np.ndarray]:
    """data [1, ic, h, w], weight [oc, ic, k, k], and bias [oc] and residual if it has them."""
    rng, (ic, oc), k = np.random.default_rng(seed), layer.channels, layer.kernel
    made = {
        "data": integers(rng, (1, ic, *layer.size)).astype("int8"),
        "weight": integers(rng, (oc, ic, k, k)).astype("int8"),
    }
    if layer.bias:
        made["bias"] = integers(rng, (oc,), 1 << 15).astype("int32")
    if layer.residual:
        made["residual"] = integers(rng, (1, oc, *layer.out)).astype("int32")
    return made


def expected(layer: Convolution, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """int8 [1, oc, h, w]: min(max((conv + bias >> shift) + residual, 0), 127)."""
    p, st, (h, w) = layer.pad, layer.stride, layer.out
    data = np.pad(arrays["data"].astype("int32"), ((0, 0), (0, 0), (p, p), (p, p)))
    total = np.zeros((1, layer.channels[1], h, w), "int32")
    for y in range(layer.kernel):
        for x in range(layer.kernel):
            part = data[:, :, y : y + st * h : st, x : x + st * w : st][:, :, :h, :w]
            weight = arrays["weight"][:, :, y, x].astype("int32")
            total += np.einsum("oi,nihw->nohw", weight, part, optimize=True)
    if layer.bias:
        total += arrays["bias"][None, :, None, None]
    total >>= layer.shift
    if layer.residual:
        total += arrays["residual"]
    return np.clip(total, 0, 127).astype("int8")


def packed(layer: Convolution, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arguments by name; the residual as the accumulators lie."""
    env = vta.get_env()
    packers = {
        "data": vta.pack_data,
        "weight": vta.pack_weight,
        "bias": vta.pack_bias,
        "residual": lambda a: vta.pack(a, env.BATCH, env.BLOCK_OUT),
    }
    return {name: packers[name](a) for name, a in arrays.items()}


def result(layer: Convolution) -> np.ndarray:
    """Where the packed result goes."""
    (_, oc), env = layer.blocks(vta.get_env().config), vta.get_env()
    return np.zeros((1, oc, *layer.out, env.BATCH, env.BLOCK_OUT), "int8")


def computed(layer: Convolution, tiling: Tiling, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The result by the accelerator, unpacked."""
    out = result(layer)
    vta.build(*layer.scheduled(tiling))(*packed(layer, arrays).values(), out)
    return vta.unpack(out, 1, layer.channels[1])
