"""Pack arrays into the accelerator's elements, and unpack them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from minitvm import te
from minitvm.base import ArgumentError, ExprError, check_count, check_kind, is_count

from .environment import Environment, get_env

MAX_NUMBERS = 1 << 16  # most numbers in a block: more than any machine needs
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def pack(a: Array, *blocks: int) -> Array:
    """Split the first len(blocks) dimensions into blocks; the blocks become the last dimensions.

        pack(data, 1, 16)       [n, c, h, w]  -> [n, c/16, h, w, 1, 16]
        pack(weight, 16, 16)    [o, i, h, w]  -> [o/16, i/16, h, w, 16, 16]
        pack(bias, 16)          [o]           -> [o/16, 16]

    Incomplete blocks are padded with zeros. The result is a contiguous copy.
    Raises ArgumentError for more blocks than dimensions, and for blocks that are not ints >= 1.
    """
    a = np.asarray(a)
    if len(blocks) > a.ndim or not all(is_count(b) and b <= MAX_NUMBERS for b in blocks):
        what = f"pack(array of shape {a.shape}, {', '.join(map(repr, blocks))})"
        why = "expected at most one block size, an int of at least 1, per dimension"
        raise ArgumentError(what, why, "pack(data, env.BATCH, env.BLOCK_IN)")
    missing = [(0, -n % b) for n, b in zip(a.shape, blocks, strict=False)]
    whole = np.pad(a, [*missing, *[(0, 0)] * (a.ndim - len(blocks))])
    n = len(blocks)
    shape = [part for d in range(n) for part in (whole.shape[d] // blocks[d], blocks[d])]
    split = whole.reshape(*shape, *whole.shape[n:])
    order = [*range(0, 2 * n, 2), *range(2 * n, split.ndim), *range(1, 2 * n, 2)]
    return np.ascontiguousarray(split.transpose(order))


def unpack(a: Array, *sizes: int) -> Array:
    """Undo `pack`; `sizes` are the first len(sizes) dimensions of the original array.

    unpack(result, 1, 64)    [1, 4, h, w, 1, 16] -> [1, 64, h, w]

    Padding is removed. Raises ArgumentError if the blocks have fewer elements than `sizes`.
    """
    a, n = np.asarray(a), len(sizes)
    if 2 * n > a.ndim or any(
        not is_count(size) or size > a.shape[d] * a.shape[a.ndim - n + d]
        for d, size in enumerate(sizes)
    ):
        what = f"unpack(array of shape {a.shape}, {', '.join(map(repr, sizes))})"
        why = "its blocks (the last dimensions) have fewer elements than these sizes"
        raise ArgumentError(what, why, "unpack(result, batch, channels)")
    order = [axis for d in range(n) for axis in (d, a.ndim - n + d)]
    merged = a.transpose(*order, *range(n, a.ndim - n))
    blocks = [a.shape[d] * a.shape[a.ndim - n + d] for d in range(n)]
    whole = merged.reshape(*blocks, *a.shape[n : a.ndim - n])
    return np.ascontiguousarray(whole[tuple(slice(size) for size in sizes)])


def packed(x: te.Tensor, *blocks: int, name: str = "packed") -> te.Tensor:
    """Return a tensor expression that computes pack(x, *blocks) on a CPU.

    Raises ExprError unless the packed dimensions of x are multiples of the blocks.
    """
    check_kind("packed: x", x, te.Tensor, fix="te.placeholder(...)")
    for block in blocks:
        check_count("packed: block", block)
    n, sizes = len(blocks), tuple(x.shape)
    whole = [i for i in sizes[:n] if isinstance(i, int)]
    if len(whole) < n or any(size % b for size, b in zip(whole, blocks, strict=True)):
        what = f"packed({x.name}, {', '.join(map(str, blocks))})"
        why = f"the shape {sizes} is not a whole number of blocks"
        raise ExprError(what, why, "topi.pad first, or pack the array with vta.pack")
    outer = tuple(size // b for size, b in zip(whole, blocks, strict=True))

    def element(*i: Any) -> Any:
        inner = i[len(i) - n :]
        channel = [o * b + k for o, b, k in zip(i[:n], blocks, inner, strict=True)]
        return x(*channel, *i[n : len(i) - n])

    return te.compute((*outer, *sizes[n:], *blocks), element, name=name)


def unpacked(x: te.Tensor, n: int = 2, name: str = "unpacked") -> te.Tensor:
    """Return a tensor expression that undoes `packed` for n dimensions on a CPU.

    Padding stays. Raises ExprError unless x ends in n constant block sizes.
    """
    check_kind("unpacked: x", x, te.Tensor, fix="te.placeholder(...)")
    check_count("unpacked: n", n)
    sizes = tuple(x.shape)
    blocks = [b for b in sizes[len(sizes) - n :] if isinstance(b, int)]
    if 2 * n > len(sizes) or len(blocks) < n:
        why = f"the shape {sizes} does not end in {n} constant block sizes"
        raise ExprError(f"unpacked({x.name}, {n})", why, "the result of vta.top.conv2d")
    shape = [size * b for size, b in zip(sizes[:n], blocks, strict=True)]

    def element(*i: Any) -> Any:
        at = [te.indexdiv(k, b) for k, b in zip(i[:n], blocks, strict=True)]
        positions = [te.indexmod(k, b) for k, b in zip(i[:n], blocks, strict=True)]
        return x(*at, *i[n:], *positions)

    return te.compute((*shape, *sizes[n : len(sizes) - n]), element, name=name)


def pack_data(a: Array, env: Environment | None = None) -> Array:
    """Pack data: [n, c, ...] -> [n/BATCH, c/BLOCK_IN, ..., BATCH, BLOCK_IN]."""
    env = _chosen(env)
    return pack(a, env.BATCH, env.BLOCK_IN)


def pack_weight(a: Array, env: Environment | None = None) -> Array:
    """Pack weights: [o, i, ...] -> [o/BLOCK_OUT, i/BLOCK_IN, ..., BLOCK_OUT, BLOCK_IN]."""
    env = _chosen(env)
    return pack(a, env.BLOCK_OUT, env.BLOCK_IN)


def pack_bias(a: Array, env: Environment | None = None) -> Array:
    """Pack biases: [o] -> int32 [o/BLOCK_OUT, BATCH, BLOCK_OUT], repeated for each row.

    Raises ArgumentError for numbers that do not fit into int32.
    """
    env = _chosen(env)
    bias = np.asarray(a)
    with np.errstate(invalid="ignore"):  # values that do not fit are detected below
        numbers = bias.astype("int32") if bias.dtype.kind in "biuf" and bias.ndim else None
    if numbers is None or not np.array_equal(numbers, bias):
        raise ArgumentError(
            f"pack_bias(array of {bias.dtype}, shape {bias.shape})",
            "expected one number per output channel, all of them int32",
            "np.round(bias).astype('int32')",
        )
    rows = pack(numbers, env.BLOCK_OUT)
    return np.ascontiguousarray(np.repeat(rows[:, None], env.BATCH, axis=1))


def _chosen(env: Environment | None) -> Environment:
    return get_env() if env is None else check_kind("env", env, Environment, fix="vta.get_env()")
