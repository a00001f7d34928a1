"""Programs in the manner of TVM's tutorials on the auto-scheduler, on this machine.

Apart from imports, targets and file paths, they are written as for TVM 0.18.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import auto_scheduler, tune

MATMUL_X86 = """
import numpy as np
import minitvm as tvm
from minitvm import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


N = L = M = 64
target = tvm.target.Target("llvm")
task = tvm.auto_scheduler.SearchTask(
    func=matmul_add, args=(N, L, M, "float32"), target=target
)
print("Computational DAG:")
print(task.compute_dag)

tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=4,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=2,
)
task.tune(tune_option)
sch, args = task.apply_best(log_file)
print(tvm.lower(sch, args, simple_mode=True))

func = tvm.build(sch, args, target)
a_np = np.random.uniform(size=(N, L)).astype(np.float32)
b_np = np.random.uniform(size=(L, M)).astype(np.float32)
c_np = np.random.uniform(size=(N, M)).astype(np.float32)
out_np = a_np.dot(b_np) + c_np

dev = tvm.cpu()
a_tvm = tvm.nd.array(a_np, device=dev)
b_tvm = tvm.nd.array(b_np, device=dev)
c_tvm = tvm.nd.array(c_np, device=dev)
out_tvm = tvm.nd.empty(out_np.shape, device=dev)
func(a_tvm, b_tvm, c_tvm, out_tvm)
np.testing.assert_allclose(out_np, out_tvm.numpy(), rtol=1e-3)

evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=5)
print("%.3f ms" % (np.median(evaluator(a_tvm, b_tvm, c_tvm, out_tvm).results) * 1000))
print("Equivalent python schedule:")
print(task.print_best(log_file))


def resume_search(task, log_file):
    print("Resume search:")
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log_file)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log_file)]
    )
    task.tune(tune_option, search_policy=search_policy)


resume_search(task, log_file)
"""

SPARSE_X86 = """
import numpy as np
import minitvm as tvm
from minitvm import auto_scheduler, te, topi
from minitvm.auto_scheduler import loop_state


def random_blocks(rows, columns, high, wide, density):
    rng = np.random.default_rng(0)
    kept = rng.random((rows // high, columns // wide)) < density
    kept[:, 0] = True
    counts = kept.sum(axis=1)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype("int32")
    places = np.nonzero(kept)[1].astype("int32")
    data = rng.standard_normal((len(places), high, wide)).astype("float32")
    return data, places, ends


def dense_of(data, places, ends, columns):
    _, high, wide = data.shape
    full = np.zeros(((len(ends) - 1) * high, columns), "float32")
    for row in range(len(ends) - 1):
        for at in range(ends[row], ends[row + 1]):
            x = places[at] * wide
            full[row * high : (row + 1) * high, x : x + wide] = data[at]
    return full


M, N, K, BS_R, BS_C, density = 16, 32, 48, 4, 1, 0.4
W_data, W_indices, W_indptr = random_blocks(N, K, BS_R, BS_C, density)
X_np = np.random.default_rng(1).standard_normal((M, K)).astype("float32")
B_np = np.random.default_rng(2).standard_normal((M, N)).astype("float32")
Y_np = np.maximum(X_np @ dense_of(W_data, W_indices, W_indptr, K).T + B_np, 0)


@auto_scheduler.register_workload
def sparse_dense(M, N, K, w_data_shape, w_indices_shape, w_indptr_shape, dtype):
    X = te.placeholder(shape=(M, K), dtype=dtype, name="X")
    data = te.placeholder(shape=w_data_shape, dtype=dtype, name="W_data")
    indices = te.placeholder(shape=w_indices_shape, dtype="int32", name="W_indices")
    indptr = te.placeholder(shape=w_indptr_shape, dtype="int32", name="W_indptr")
    B = te.placeholder(shape=(M, N), dtype=dtype, name="B")
    _, high, wide = w_data_shape

    def block(i, nb_j, j):
        first = indptr[nb_j]
        elem = te.reduce_axis((0, indptr[nb_j + 1] - first), name="elem_idx")
        c = te.reduce_axis((0, wide), name="c")
        at = first + elem
        return te.sum(data[at, j, c] * X[i, wide * indices[at] + c], axis=[elem, c])

    blocks = te.compute(
        (M, N // high, high), block, name="blocks", tag="sparse_dense_sp_rhs_bsrmm_block"
    )
    product = te.compute(
        (M, N),
        lambda m, n: blocks[m, te.indexdiv(n, high), te.indexmod(n, high)],
        name="product",
        tag="sparse_dense_sp_rhs_bsrmm",
    )
    biased = te.compute((M, N), lambda m, n: product[m, n] + B[m, n], name="biased")
    out = topi.nn.relu(biased)
    return [X, data, indices, indptr, B, out]


target = tvm.target.Target("llvm")
task = auto_scheduler.SearchTask(
    func=sparse_dense,
    args=(M, N, K, W_data.shape, W_indices.shape, W_indptr.shape, "float32"),
    target=target,
    task_inputs={"W_data": W_data, "W_indices": W_indices, "W_indptr": W_indptr},
)
print(task.compute_dag)


def meet_condition_func(search_policy, state, stage_id):
    state = loop_state.State(state, search_policy.search_task.compute_dag)
    if state.stages[stage_id].op.tag in [
        "sparse_dense_sp_rhs_bsrmm",
        "sparse_dense_sp_rhs_bsrmm_block",
    ]:
        return auto_scheduler.PreloadCustomSketchRule.APPLY_AND_SKIP_REST
    return auto_scheduler.PreloadCustomSketchRule.PASS


def apply_func(search_policy, state, stage_id):
    s0 = loop_state.State(state, search_policy.search_task.compute_dag)
    if s0.stages[stage_id].op.tag == "sparse_dense_sp_rhs_bsrmm_block":
        return [[s0.state_object, stage_id - 1]]

    product = s0.stages[stage_id].op
    block = s0.stages[stage_id - 1].op
    consumer = s0.stages[-1].op
    s0.compute_inline(product)

    i, nb_j, j, row_offset, c = s0[block].iters
    m, n = s0[consumer].iters
    i0, i1, i2 = s0.split(block, i, [None, None])
    m0, m1 = s0.follow_split(consumer, m, len(s0.transform_steps) - 1, 1)
    j0, j1 = s0.split(block, nb_j, [None])
    n0, n1 = s0.follow_split(consumer, n, len(s0.transform_steps) - 1, 1)
    s0.reorder(block, [i0, j0, i1, j1, row_offset, i2, j, c])
    s0.reorder(consumer, [m0, n0, m1, n1])
    s0.compute_at(block, consumer, n0)
    return [[s0.state_object, stage_id - 2]]


tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=4,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=0,
)
search_policy = auto_scheduler.SketchPolicy(
    task,
    program_cost_model=auto_scheduler.XGBModel(),
    init_search_callbacks=[
        auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func, "SparseDense")
    ],
)
outcome = task.tune(tune_option, search_policy)
sch, args = task.apply_best(log_file)
print(tvm.lower(sch, args, simple_mode=True))
func = tvm.build(sch, args, target)

dev = tvm.cpu()
arrays = [tvm.nd.array(x, device=dev) for x in (X_np, W_data, W_indices, W_indptr, B_np)]
Y_tvm = tvm.nd.empty((M, N), device=dev)
func(*arrays, Y_tvm)
tvm.testing.assert_allclose(Y_np, Y_tvm.numpy(), rtol=1e-4, atol=1e-4)
"""


@pytest.fixture(autouse=True)
def no_workloads_are_left() -> Iterator[None]:
    yield
    auto_scheduler.workload_registry.clear()


def test_auto_scheduler_matmul_x86(
    run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "matmul.json"
    names = run(MATMUL_X86, log_file=log)
    printed = capsys.readouterr().out
    assert "matmul(i, j) += (A[i, k]*B[k, j])\nC = PLACEHOLDER [64, 64]\nout" in printed
    assert "s = te.create_schedule(out.op)" in printed
    measured = [r for r in tune.Log(log).records() if not r.final]
    assert len(measured) == 6
    assert names["task"].workload_key == '["matmul_add", 64, 64, 64, "float32"]'


def test_tune_sparse_x86(
    run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run(SPARSE_X86, log_file=tmp_path / "sparse.json")
    assert "blocks(i, nb_j, j) += " in capsys.readouterr().out
    trials = names["outcome"].trials
    assert [t.result.error for t in trials] == [""] * 4
    assert {s.rules[0] for s in names["search_policy"].search_task.states} == {"always inline"}
    assert any("SparseDense" in s.rules for s in names["search_policy"].search_task.states)


CONV2D_LAYER_CUDA = """
import numpy as np
import minitvm as tvm
from minitvm import auto_scheduler, te, topi


@auto_scheduler.register_workload
def conv2d_layer(N, H, W, CO, CI, KH, KW, stride, padding):
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    bias = te.placeholder((1, CO, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    out = topi.nn.relu(conv + bias)
    return [data, kernel, bias, out]


target = tvm.target.Target(gpu)
N, H, W, CO, CI, KH, KW, strides, padding = 1, 7, 7, 16, 8, 3, 3, (1, 1), (1, 1)
task = auto_scheduler.SearchTask(
    func=conv2d_layer, args=(N, H, W, CO, CI, KH, KW, strides, padding), target=target
)
print("Computational DAG:")
print(task.compute_dag)

measure_ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=300)
tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=8,
    runner=measure_ctx.runner,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=2,
)
task.tune(tune_option)
sch, args = task.apply_best(log_file)
del measure_ctx

print("Lowered TIR:")
print(tvm.lower(sch, args, simple_mode=True))

func = tvm.build(sch, args, target)
data_np = np.random.uniform(size=(N, CI, H, W)).astype(np.float32)
weight_np = np.random.uniform(size=(CO, CI, KH, KW)).astype(np.float32)
bias_np = np.random.uniform(size=(1, CO, 1, 1)).astype(np.float32)
conv_np = conv2d_nchw_python(data_np, weight_np, strides, padding)
out_np = np.maximum(conv_np + bias_np, 0.0)

dev = tvm.cpu()
data_tvm = tvm.nd.array(data_np, device=dev)
weight_tvm = tvm.nd.array(weight_np, device=dev)
bias_tvm = tvm.nd.array(bias_np, device=dev)
out_tvm = tvm.nd.empty(out_np.shape, device=dev)
func(data_tvm, weight_tvm, bias_tvm, out_tvm)
np.testing.assert_allclose(out_np, out_tvm.numpy(), rtol=1e-3)

print("Equivalent python schedule:")
print(task.print_best(log_file, print_mode="schedule"))
print("CUDA source code:")
print(task.print_best(log_file, print_mode="cuda"))


def resume_search(task, log_file):
    print("Resume search:")
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log_file)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    measure_ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=300)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=5,
        runner=measure_ctx.runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    )
    task.tune(tune_option, search_policy=search_policy)
    del measure_ctx


resume_search(task, log_file)
"""


def conv2d_nchw_python(a: Any, w: Any, strides: tuple[int, int], padding: tuple[int, int]) -> Any:
    """Convolve with stride 1 by numpy: the sum over windows."""
    assert strides == (1, 1)
    padded = np.pad(a, ((0, 0), (0, 0), *((p, p) for p in padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    return np.einsum("ncyxij,ocij->noyx", windows, w, optimize=True)


def test_tune_conv2d_layer_cuda(
    run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines that time the kernel are left out: a simulated GPU has no clock."""
    log = tmp_path / "conv2d.json"
    given = {"gpu": "cuda -sim", "log_file": log, "conv2d_nchw_python": conv2d_nchw_python}
    run(CONV2D_LAYER_CUDA, **given)
    printed = capsys.readouterr().out
    assert "T_relu(i0, i1, i2, i3) = max(T_add[i0, i1, i2, i3], 0.0)" in printed
    assert "te.thread_axis('threadIdx.x')" in printed
    assert "def main_kernel(data, kernel, bias, T_relu" in printed
    records = [r for r in tune.Log(log).records() if not r.final]
    assert len(records) == 13
    assert [r.result.error for r in records] == [""] * 13
    assert all(r.result.cycles and not r.result.seconds for r in records)
