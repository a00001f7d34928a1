"""A program in the manner of TVM's tutorial on matrix products with AutoTVM, on this machine.

Apart from imports and file paths, it is written as for TVM 0.18.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minitvm import autotvm

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
