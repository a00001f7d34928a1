"""Programs in the manner of TVM's tutorials on AutoTVM: a matrix product, and a layer on a GPU.

Apart from imports, targets, devices and file paths, they are written as for TVM 0.18.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import autotvm, tune

MATMUL_X86 = """
import numpy as np
import minitvm as tvm
from minitvm import autotvm, te


@autotvm.template("tutorial/matmul")
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


N, L, M = 128, 128, 128
task = autotvm.task.create("tutorial/matmul", args=(N, L, M, "float32"), target="llvm")
print(task.config_space)

measure_option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
tuner = autotvm.tuner.RandomTuner(task)
tuner.tune(
    n_trial=10,
    measure_option=measure_option,
    callbacks=[autotvm.callback.log_to_file(log_file)],
)

with autotvm.apply_history_best(log_file):
    with tvm.target.Target("llvm"):
        s, arg_bufs = matmul(N, L, M, "float32")
        func = tvm.build(s, arg_bufs)

a_np = np.random.uniform(size=(N, L)).astype(np.float32)
b_np = np.random.uniform(size=(L, M)).astype(np.float32)
c_np = a_np.dot(b_np)
c_tvm = tvm.nd.empty(c_np.shape)
func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
tvm.testing.assert_allclose(c_np, c_tvm.numpy(), rtol=1e-4)
"""


def test_autotvm_matmul_x86(run: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    try:
        names = run(MATMUL_X86, log_file=tmp_path / "matmul.log")
    finally:
        autotvm.templates.TEMPLATES.pop("tutorial/matmul", None)
    assert len(names["task"].config_space) == 64
    measured = list((tmp_path / "matmul.log").read_text().splitlines())
    assert len(measured) >= 10
    best = names["tuner"].best_config
    applied = [step.factor for step in names["s"].steps[:2]]
    assert applied == [best["tile_y"].size[-1], best["tile_x"].size[-1]]


def test_the_context_vectors_of_the_lecture() -> None:
    """C[y, x] += A[k, y] * B[k, x] over 8 x 8 x 8: what one run of each loop touches."""

    @autotvm.template("lecture/context")
    def product(n: int) -> Any:
        from minitvm import te

        A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
        k = te.reduce_axis((0, n), name="k")
        C = te.compute((n, n), lambda y, x: te.sum(A[k, y] * B[k, x], axis=k), name="C")
        s = te.create_schedule(C.op)
        cfg = autotvm.get_config()
        cfg.define_knob("auto_unroll", [0, 16])
        s[C].pragma(s[C].op.axis[0], "auto_unroll_max_step", cfg["auto_unroll"].val)
        return s, [A, B, C]

    try:
        task = autotvm.task.create("lecture/context", (8,))
    finally:
        autotvm.templates.TEMPLATES.pop("lecture/context", None)
    loops, tensors, numbers = autotvm.touched(task.sketches[0], np.zeros((1, 1), np.int32))
    table = {
        loop: dict(zip(tensors, numbers[n, :, 0].astype(int).tolist(), strict=True))
        for n, loop in enumerate(loops)
    }
    assert table == {
        "y": {"C": 64, "A": 64, "B": 64},
        "x": {"C": 8, "A": 8, "B": 64},
        "k": {"C": 1, "A": 8, "B": 8},
    }


# In the manner of TVM's tutorial tune_conv2d_cuda, with a smaller layer and a simulated GPU. The
# last lines, which time the kernel, are left out: a simulated GPU has no clock.
CONV2D_CUDA = """
import logging
import sys

import numpy as np
import minitvm as tvm
from minitvm import autotvm, te, topi


@autotvm.template("tutorial/conv2d_no_batching")
def conv2d_no_batching(N, H, W, CO, CI, KH, KW, stride, padding):
    assert N == 1, "this template is for one image"
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    s = te.create_schedule([conv.op])

    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_f", f, num_outputs=4)
    cfg.define_split("tile_y", y, num_outputs=4)
    cfg.define_split("tile_x", x, num_outputs=4)
    cfg.define_split("tile_rc", rc, num_outputs=3)
    cfg.define_split("tile_ry", ry, num_outputs=3)
    cfg.define_split("tile_rx", rx, num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])

    pad_data = s[conv].op.input_tensors[0]
    s[pad_data].compute_inline()
    data, raw_data = pad_data, data

    output = conv
    OL = s.cache_write(conv, "local")
    AA = s.cache_read(data, "shared", [OL])
    WW = s.cache_read(kernel, "shared", [OL])
    AL = s.cache_read(AA, "local", [OL])
    WL = s.cache_read(WW, "local", [OL])

    n, f, y, x = s[output].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, output, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, output, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, output, x)
    kernel_scope = n

    s[output].bind(bf, te.thread_axis("blockIdx.z"))
    s[output].bind(by, te.thread_axis("blockIdx.y"))
    s[output].bind(bx, te.thread_axis("blockIdx.x"))
    s[output].bind(vf, te.thread_axis("vthread"))
    s[output].bind(vy, te.thread_axis("vthread"))
    s[output].bind(vx, te.thread_axis("vthread"))
    s[output].bind(tf, te.thread_axis("threadIdx.z"))
    s[output].bind(ty, te.thread_axis("threadIdx.y"))
    s[output].bind(tx, te.thread_axis("threadIdx.x"))
    s[output].reorder(n, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    s[OL].compute_at(s[output], tx)

    n, f, y, x = s[OL].op.axis
    rc, ry, rx = s[OL].op.reduce_axis
    rco, rcm, rci = cfg["tile_rc"].apply(s, OL, rc)
    ryo, rym, ryi = cfg["tile_rx"].apply(s, OL, ry)
    rxo, rxm, rxi = cfg["tile_ry"].apply(s, OL, rx)
    s[OL].reorder(rco, ryo, rxo, rcm, rym, rxm, rci, ryi, rxi, n, f, y, x)
    s[AA].compute_at(s[OL], rxo)
    s[WW].compute_at(s[OL], rxo)
    s[AL].compute_at(s[OL], rxm)
    s[WL].compute_at(s[OL], rxm)

    for load in [AA, WW]:
        n, f, y, x = s[load].op.axis
        fused = s[load].fuse(n, f, y, x)
        tz, fused = s[load].split(fused, nparts=cfg["tile_f"].size[2])
        ty, fused = s[load].split(fused, nparts=cfg["tile_y"].size[2])
        tx, fused = s[load].split(fused, nparts=cfg["tile_x"].size[2])
        s[load].bind(tz, te.thread_axis("threadIdx.z"))
        s[load].bind(ty, te.thread_axis("threadIdx.y"))
        s[load].bind(tx, te.thread_axis("threadIdx.x"))

    s[output].pragma(kernel_scope, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[output].pragma(kernel_scope, "unroll_explicit", cfg["unroll_explicit"].val)
    return s, [raw_data, kernel, conv]


logging.getLogger("autotvm").setLevel(logging.DEBUG)
logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))

N, H, W, CO, CI, KH, KW, strides, padding = 1, 7, 7, 16, 8, 3, 3, (1, 1), (1, 1)
task = autotvm.task.create(
    "tutorial/conv2d_no_batching", args=(N, H, W, CO, CI, KH, KW, strides, padding), target=target
)
print(task.config_space)

measure_option = autotvm.measure_option(
    builder=autotvm.LocalBuilder(),
    runner=autotvm.LocalRunner(repeat=3, min_repeat_ms=100, timeout=4),
)
tuner = autotvm.tuner.XGBTuner(task)
tuner.tune(
    n_trial=8,
    measure_option=measure_option,
    callbacks=[autotvm.callback.log_to_file(log_file)],
)

dispatch_context = autotvm.apply_history_best(log_file)
best_config = dispatch_context.query(task.target, task.workload)
print("\\nBest config:")
print(best_config)

with autotvm.apply_history_best(log_file):
    with tvm.target.Target(target):
        s, arg_bufs = conv2d_no_batching(N, H, W, CO, CI, KH, KW, strides, padding)
        func = tvm.build(s, arg_bufs)

a_np = np.random.uniform(size=(N, CI, H, W)).astype(np.float32)
w_np = np.random.uniform(size=(CO, CI, KH, KW)).astype(np.float32)
c_np = conv2d_nchw_python(a_np, w_np, strides, padding)

dev = tvm.cpu()
a_tvm = tvm.nd.array(a_np, device=dev)
w_tvm = tvm.nd.array(w_np, device=dev)
c_tvm = tvm.nd.empty(c_np.shape, device=dev)
func(a_tvm, w_tvm, c_tvm)
tvm.testing.assert_allclose(c_np, c_tvm.numpy(), rtol=1e-2)
"""


def conv2d_nchw_python(a: Any, w: Any, strides: tuple[int, int], padding: tuple[int, int]) -> Any:
    """Convolve with stride 1 by numpy: the sum over windows."""
    assert strides == (1, 1)
    padded = np.pad(a, ((0, 0), (0, 0), *((p, p) for p in padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("ncyxij,ocij->noyx", windows, w, optimize=True)


def test_autotvm_conv2d_cuda(
    run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "conv2d.log"
    given = {"target": "cuda -sim", "log_file": log, "conv2d_nchw_python": conv2d_nchw_python}
    try:
        names = run(CONV2D_CUDA, **given)
    finally:
        autotvm.templates.TEMPLATES.pop("tutorial/conv2d_no_batching", None)
    records = tune.Log(log).records()
    measured = [r.result for r in records if not r.result.error]
    assert measured
    assert all(result.cycles and not result.seconds for result in measured)
    best = tune.best(records, names["task"].key, "cuda -sim")
    assert best is not None
    assert names["best_config"]["tile_f"].size == tuple(best.values["tile_f"])
    assert "Best config:\n[tile_f=" in capsys.readouterr().out
    threads = [s.thread for s in names["s"].steps if type(s).__name__ == "Bind"]
    assert threads[:3] == ["blockIdx.z", "blockIdx.y", "blockIdx.x"]
    assert "def main_kernel(" in names["func"].source("cuda")
