"""Schedules that several tests of the accelerator use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import te, tir, vta
from minitvm.tir import NOTHING

Scheduled = tuple[te.Schedule, list[te.Tensor]]


# --- the example of the talk ----------------------------------------------------------------------


def accumulate(n: int) -> Any:
    """The instruction of the talk: n accumulators += n inputs."""
    a, r = te.placeholder((1, n), dtype="int8", name="a"), te.reduce_axis((0, 1), name="r")
    y = te.compute((n,), lambda x: te.sum(a[r, x].astype("int32"), axis=r), name="y")

    def statements(ins: list[Any], outs: list[Any]) -> Any:
        views = [
            tir.view_at(b, (0,) * len(b.shape), b.shape, tir.row_strides(b)) for b in (*ins, *outs)
        ]
        more = tir.Evaluate(tir.Call("vdla.accumulate", tuple(views), y.dtype))
        return more, NOTHING, more

    return te.decl_tensor_intrin(y.op, statements, name="accumulate")


def talk(length: int, threads: int = 2, width: int = 8) -> Scheduled:
    """For each thread: load a piece of A[k] and add it up, for all k. Nothing is stored."""
    A = te.placeholder((length, threads * width), name="A", dtype="int8")
    k = te.reduce_axis((0, length), name="k")
    AL = te.compute(A.shape, lambda k, x: A[k, x], name="AL")
    CL = te.compute(A.shape[1:], lambda x: te.sum(AL[k, x].astype("int32"), axis=k), name="CL")
    C = te.compute(A.shape[1:], lambda x: CL[x].astype("int8"), name="C")
    s = te.create_schedule(C.op)
    x = C.op.axis[0]
    if threads > 1:
        tx, x = s[C].split(x, factor=width)
        s[C].bind(tx, te.thread_axis("cthread"))
        s[CL].compute_at(s[C], tx)
    s[C].pragma(x, "skip_dma_copy")
    s[CL].set_scope("vdla.acc_buffer")
    s[CL].reorder(k, *s[CL].op.axis)
    s[CL].tensorize(s[CL].op.axis[0], accumulate(width))
    s[AL].set_scope("vdla.inp_buffer")
    s[AL].compute_at(s[CL], k)
    s[AL].pragma(s[AL].op.axis[1], "dma_copy")
    return s, [A, C]


# --- a product and a convolution ------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A convolution, in numbers of channels and not of blocks."""

    size: tuple[int, int]
    channels: tuple[int, int]
    kernel: int = 3
    stride: int = 1
    pad: int = 1

    @property
    def out(self) -> tuple[int, int]:
        h, w = ((n + 2 * self.pad - self.kernel) // self.stride + 1 for n in self.size)
        return h, w

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Data [ic, h, w] and weights [oc, ic, k, k]."""
        rng, (ic, oc), k = np.random.default_rng(0), self.channels, self.kernel
        shapes = (ic, *self.size), (oc, ic, k, k)
        data, weight = (rng.integers(-128, 128, shape).astype("int8") for shape in shapes)
        return data, weight

    def expected(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """min(max(conv >> 8, 0), 127) in numpy's int32."""
        p, s, (h, w) = self.pad, self.stride, self.out
        padded = np.pad(data.astype("int32"), ((0, 0), (p, p), (p, p)))
        total = np.zeros((self.channels[1], h, w), "int32")
        for y in range(self.kernel):
            for x in range(self.kernel):
                part = padded[:, y : y + s * h : s, x : x + s * w : s][:, :h, :w]
                total += np.einsum("oi,ihw->ohw", weight[:, :, y, x].astype("int32"), part)
        return np.clip(total >> 8, 0, 127)


def pack(a: np.ndarray, block: int) -> np.ndarray:
    """[c, ...] -> [c / block, ..., block]"""
    return np.moveaxis(a.reshape(a.shape[0] // block, block, *a.shape[1:]), 1, -1)


def packed(layer: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of conv: data, weights, and zeros for the result."""
    data, weight = layer.numbers()
    a = np.ascontiguousarray(pack(data, 16)[None, ..., None, :])
    by_rows = np.stack([pack(w, 16) for w in weight])  # oc, ic/16, k, k, 16
    w = np.ascontiguousarray(np.moveaxis(by_rows.reshape(-1, 16, *by_rows.shape[1:]), 1, -2))
    return a, w, np.zeros((1, layer.channels[1] // 16, *layer.out, 1, 16), "int8")


def unpacked(c: np.ndarray) -> np.ndarray:
    """[1, oc/16, h, w, 1, 16] -> [oc, h, w]"""
    return np.moveaxis(c[0, ..., 0, :], -1, 1).reshape(-1, *c.shape[2:4])


def conv(
    layer: Layer,
    tile: tuple[int, int, int, int],
    oc_threads: int = 1,
    h_threads: int = 1,
    env: vta.Environment | None = None,
) -> Scheduled:
    """The schedule of VTA's convolution_opt. tile: rows, columns, blocks of oc, blocks of ic."""
    env = env or vta.get_env()
    (ic, oc), k, p, st = layer.channels, layer.kernel, layer.pad, layer.stride
    (height, width), (th, tw, to, ti) = layer.size, tile
    A = te.placeholder((1, ic // 16, height, width, 1, 16), name="A", dtype="int8")
    W = te.placeholder((oc // 16, ic // 16, k, k, 16, 16), name="W", dtype="int8")

    def padded(b: Any, c: Any, y: Any, x: Any, bi: Any, ci: Any) -> Any:
        inside = te.all(y >= p, y < height + p, x >= p, x < width + p)
        value = A[b, c, y - p, x - p, bi, ci]
        return te.if_then_else(inside, value, te.const(0, "int8")) if p else value

    shape = (1, ic // 16, height + 2 * p, width + 2 * p, 1, 16)
    A_buf = te.compute(shape, padded, name="A_buf")
    W_buf = te.compute(W.shape, W, name="W_buf")
    axes = [te.reduce_axis((0, n), name=f"r{d}") for d, n in enumerate((ic // 16, k, k, 16))]
    ko, dy, dx, ki = axes

    def product(b: Any, c: Any, y: Any, x: Any, bi: Any, ci: Any) -> Any:
        a = A_buf[b, ko, y * st + dy, x * st + dx, bi, ki].astype("int32")
        return te.sum(a * W_buf[c, ko, dy, dx, ci, ki].astype("int32"), axis=axes)

    out = (1, oc // 16, *layer.out, 1, 16)
    total = te.compute(out, product, name="total")
    shifted = te.compute(out, lambda *i: total(*i) >> 8, name="shifted")
    least = te.compute(out, lambda *i: te.max(shifted(*i), 0), name="least")
    most = te.compute(out, lambda *i: te.min(least(*i), 127), name="most")
    C = te.compute(out, lambda *i: most(*i).astype("int8"), name="C")
    s = te.create_schedule(C.op)
    b, c, y, x, _, _ = s[C].op.axis
    (co, ci), (yo, yi), (xo, xi) = s[C].split(c, to), s[C].split(y, th), s[C].split(x, tw)
    s[C].reorder(b, co, yo, xo, ci, yi, xi)
    for n, axis in ((oc_threads, co), (h_threads, yo)):
        if n > 1:
            _, thread = s[C].split(axis, factor=n)
            s[C].reorder(thread, b)
            s[C].bind(thread, te.thread_axis("cthread"))
    for t in (most, least, shifted, total):
        s[t].compute_at(s[C], xo)
        s[t].set_scope(env.acc_scope)
    for t in (most, least, shifted):
        s[t].pragma(s[t].op.axis[0], env.alu)
    kt, kb = s[total].split(ko, factor=ti)
    b, c, y, x, bi, oi = s[total].op.axis
    s[total].reorder(kt, c, y, dy, dx, kb, x, bi, oi, ki)
    s[total].tensorize(bi, env.gemm)
    for t, scope in ((A_buf, env.inp_scope), (W_buf, env.wgt_scope)):
        s[t].set_scope(scope)
        s[t].compute_at(s[total], kt)
        s[t].pragma(s[t].op.axis[0], env.dma_copy)
    s[C].pragma(ci, env.dma_copy)
    return s, [A, W, C]
