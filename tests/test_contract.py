"""The names that labs, papers and lectures use are there and take the arguments they give.

Other tests say what the calls do; this one that none is lost or renamed. A line is a call, its
arguments as they may be given; those before * also by their place.
"""

import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import auto_scheduler, autotvm, graph, lowering, te, testing, tir, topi, vta

NOT_YET = {  # name -> what brings it
    "cuda": "the target cuda, and its simulator",
}
CALLS = """
te.placeholder(shape, dtype, name)
te.compute(shape, fcompute, name, tag, attrs)
te.var(name, dtype)
te.size_var(name, dtype)
te.const(value)
te.sum(expr, axis, where, init)
te.prod(expr, axis)
te.comm_reducer(fcombine, fidentity, name)
te.extern(shape, inputs, fcompute, name, dtype)
te.scan(init, update, state, inputs, name)
te.thread_axis(dom, tag)
te.create_schedule(ops)
te.decl_tensor_intrin(op, fcompute, *, binds, name)
te.decl_tensor_intrinsic(op, fcompute)
te.hardware_intrinsic(name)
te.if_then_else(cond, a, b)
te.exp(x)
te.log(x)
te.tanh(x)
te.sqrt(x)
te.sigmoid(x)
te.erf(x)
te.floor(x)
te.floordiv(a, b)
te.floormod(a, b)
te.truncdiv(a, b)
te.truncmod(a, b)
te.indexdiv(a, b)
te.indexmod(a, b)
s.cache_read(tensor, scope, readers)
s.cache_write(tensor, scope)
s.rfactor(tensor, axis, factor_axis)
s.undo()
s.explain()
s.diff(step)
s.python()
s.to_json()
s.from_json(text, ops)
s[C].split(axis, factor, nparts)
s[C].vectorize(axis)
s[C].unroll(axis)
s[C].parallel(axis)
s[C].bind(axis, thread)
s[C].pragma(axis, key, value)
s[C].compute_at(target, axis)
s[C].compute_inline()
s[C].compute_root()
s[C].store_at(target, axis)
s[C].set_scope(scope)
s[C].storage_align(axis, factor, offset)
s[C].double_buffer()
s[C].tensorize(axis, intrin)
s[C].prefetch(tensor, axis, offset)
s[C].set_store_predicate(cond)
s[C].transform_layout(fn)
tir.decl_buffer(shape, dtype, name, *, scope, strides, offset_factor)
tir.ir_builder.create()
tir.call_packed(name)
tir.Select(cond, a, b)
tir.max(a, b)
tir.min(a, b)
tir.exp(x)
tir.if_then_else(cond, a, b)
tvm.lower(s, args, name, *, target, passes, until, watch, simple_mode, binds)
tvm.build(s, args, target, name, *, target_host, binds)
tvm.load(path)
tvm.cpu(index)
tvm.nd.array(source, device, *, ctx)
tvm.nd.empty(shape, dtype, device, *, ctx)
tvm.target.Target(text)
tvm.target.cuda()
tvm.testing.assert_allclose(actual, desired, rtol, atol)
tvm.testing.random_schedule(ops, rng)
tvm.lowering.insert(passes, phase, *)
tvm.lowering.swap(passes)
f.time_evaluator(name, dev, number, repeat, min_repeat_ms)
f.source(kind)
f.export(path)
topi.matmul(a, b, *, transpose_a, transpose_b)
topi.conv2d(data, kernel, strides, padding, dilation, groups)
topi.nn.conv2d(data, kernel, strides, padding, dilation)
topi.nn.dense(data, weight, bias)
topi.nn.relu(x)
topi.nn.softmax(x, axis)
topi.mean(x, axis, keepdims)
topi.where(condition, x, y)
topi.take(x, indices, axis)
topi.schedule(outs, target)
autotvm.template(name)
autotvm.task.create(task_name, args, target)
auto_scheduler.register_workload(func_name, f)
auto_scheduler.make_workload_key(func, args)
auto_scheduler.ComputeDAG(compute)
auto_scheduler.SearchTask(func, args, *, compute_dag, workload_key, target, hardware_params)
auto_scheduler.SearchTask.tune(tuning_options, search_policy)
auto_scheduler.SearchTask.apply_best(log_file, include_compatible)
auto_scheduler.SearchTask.print_best(log_file, print_mode)
auto_scheduler.TuningOptions(num_measure_trials, early_stopping, num_measures_per_round, verbose)
auto_scheduler.RecordToFile(filename)
auto_scheduler.SketchPolicy(task, program_cost_model, *, seed, verbose, init_search_callbacks)
auto_scheduler.PreloadMeasuredStates(filename)
auto_scheduler.PreloadCustomSketchRule(meet_condition_func, apply_func, rule_name)
auto_scheduler.XGBModel(*, seed)
auto_scheduler.XGBModel.update_from_file(file_name, n_lines)
auto_scheduler.XGBModel.save(file_name)
auto_scheduler.XGBModel.load(file_name)
auto_scheduler.load_records(filename)
auto_scheduler.load_best_record(filename, workload_key, target, include_compatible)
auto_scheduler.ApplyHistoryBest(records)
auto_scheduler.loop_state.LoopState(state_object)
graph.Builder(name)
graph.evaluate(graph)
graph.from_onnx(model)
graph.from_torch(module, args)
graph.parse(source)
vta.get_env()
vta.Environment(config)
vta.lower(s, args, name)
vta.build(s, args, target, target_host, name)
vta.simulate(program, config, inputs)
vta.verify(program, config)
"""
NAMES = (
    *("te.all", "te.any", "te.max", "te.min", "te.reduce_axis", "te.Schedule.from_json"),
    *("tir.all", "tir.any"),
    *("s.outputs", "s.stages", "s.steps", "s.trace", "s[C].op", "s[C].tile", "s[C].fuse"),
    *("s[C].reorder", "s[C].leaf_iter_vars", "s[C].relations", "f.entry_name", "tvm.Target"),
    *("te.schedule.AutoInlineInjective", "te.schedule.AutoInlineElemWise"),
    *("te.schedule.AutoInlineBroadcast",),
    *("env.inp_scope", "env.wgt_scope", "env.acc_scope", "env.dma_copy", "env.alu", "env.gemm"),
    *("env.BATCH", "env.BLOCK_IN", "env.BLOCK_OUT", "vta.vdla.gemm8x8", "vta.vdla.acc_buffer"),
)
OLD = (
    *("var", "placeholder", "compute", "const", "reduce_axis", "sum", "max", "min", "prod", "all"),
    *("any", "scan", "extern", "create_schedule", "thread_axis", "comm_reducer", "decl_buffer"),
    *("decl_tensor_intrin", "if_then_else", "exp", "log", "tanh", "sqrt", "sigmoid", "select"),
    *("call_packed", "ir_builder"),
)
PACKAGES: dict[str, Any] = {
    "te": te,
    "tir": tir,
    "topi": topi,
    "auto_scheduler": auto_scheduler,
    "autotvm": autotvm,
    "graph": graph,
    "vta": vta,
    "env": vta.Environment(),
    "tvm": SimpleNamespace(
        **{n: getattr(tvm, n) for n in tvm.__all__}, testing=testing, lowering=lowering
    ),
    "s": te.Schedule,
    "s[C]": te.StageView,
    "f": tvm.Function,
}


def named(name: str) -> Any:
    package, *path = name.split(".")
    thing = PACKAGES[package]
    for part in path:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("line", CALLS.split("\n")[1:-1])
def test_a_call_takes_its_arguments_in_their_order(line: str) -> None:
    name, _, args = line.removesuffix(")").partition("(")
    known = [p for p in inspect.signature(named(name)).parameters if p != "self"]
    by_place, _, by_name = args.partition("*")
    wanted = [a for a in by_place.split(", ") if a]
    assert known[: len(wanted)] == wanted
    assert [a for a in by_name.split(", ") if a and a not in known] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_there(name: str) -> None:
    assert named(name) is not None


@pytest.mark.parametrize("name", OLD)
def test_a_name_of_formulas_is_there_at_the_top_too(name: str) -> None:
    assert any(getattr(tvm, name) is getattr(package, name, None) for package in (te, tir)) or (
        name == "select" and tvm.select is tir.Select
    )
    assert name in dir(tvm)


@pytest.mark.parametrize(
    "text", ["llvm", "numba", "python", "llvm -mcpu=generic -num-cores=2", "vta"]
)
def test_a_target_is_known(text: str) -> None:
    assert tvm.target.Target(text).kind == text.split(maxsplit=1)[0]


def test_what_is_excused_is_not_there() -> None:
    """Whoever brings one of them adds its calls above."""
    assert [name for name in NOT_YET if name in dir(tvm)] == []


def test_a_name_that_is_misspelled_at_the_top_is_guessed() -> None:
    with pytest.raises(AttributeError) as caught:
        tvm.placehodler  # noqa: B018  # asking for it is the test
    assert str(caught.value) == "tvm has no 'placehodler'\n  try: tvm.placeholder"


# --- arguments of lower and build that TVM has ----------------------------------------------------

A = te.placeholder((4, 8), name="A")
B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")


def refused(**options: Any) -> str:
    with pytest.raises(tvm.ArgumentError) as caught:
        tvm.build(te.create_schedule(B.op), [A, B], **options)
    return str(caught.value)


def test_the_host_of_a_cpu_and_a_buffer_without_gaps_change_nothing() -> None:
    binds = {A: tir.decl_buffer((4, 8), name="Ab")}
    f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", target_host="llvm", binds=binds)
    a, b = np.ones((4, 8), "float32"), np.zeros((4, 8), "float32")
    f(a, b)
    assert (b == 2).all()


def test_another_host_is_refused() -> None:
    assert refused(target="python", target_host="llvm") == (
        "target_host='llvm' for target 'python': the machine that runs the function "
        "also calls it\n"
        "  try: leave target_host out"
    )


@pytest.mark.parametrize(
    ("binds", "says"),
    [
        (5, "binds=5: not a Mapping"),
        ({A: 5}, "binds: Tensor A: float32[4, 8] to 5: not a tensor and a buffer"),
        ({A: tir.decl_buffer((8, 4), name="Ab")},
         "binds: A to Ab: the tensor is float32[4, 8], the buffer float32[8, 4]"),
        ({A: tir.decl_buffer((4, 8), name="Ab", strides=[16, 1])},
         "binds: A to Ab: arguments are contiguous arrays in main memory"),
        ({A: tir.decl_buffer((4, 8), name="Ab", scope="local")},
         "binds: A to Ab: arguments are contiguous arrays in main memory"),
    ],
)  # fmt: skip
def test_a_buffer_that_lies_otherwise_than_arguments_do_is_refused(binds: Any, says: str) -> None:
    assert refused(binds=binds).startswith(says)


# --- tensor intrinsics in both orders -------------------------------------------------------------


@pytest.mark.parametrize("tvm_order", [False, True])
def test_an_intrinsic_takes_its_name_and_buffers_in_either_order(tvm_order: bool) -> None:
    buffers = {t: tir.decl_buffer((4, 8), name=t.name) for t in (A, B)}
    body = lambda ins, outs: tir.call_packed("plus_one", ins[0], outs[0])  # noqa: E731
    pair = ("plus", buffers) if tvm_order else (buffers, "plus")
    made = te.decl_tensor_intrin(B.op, body, *pair)
    assert (made.name, dict(made.buffers)) == ("plus", buffers)


@pytest.mark.parametrize(
    ("binds", "says"),
    [(5, "binds=5: not a dict"), ({A: 5}, "A is bound to 5, which is not a buffer")],
)
def test_binds_of_an_intrinsic_are_a_table_of_buffers(binds: Any, says: str) -> None:
    with pytest.raises(tvm.ExprError, match=says):
        te.decl_tensor_intrin(B.op, lambda ins, outs: None, binds)


def test_an_operator_that_is_misspelled_is_guessed() -> None:
    with pytest.raises(AttributeError) as caught:
        topi.softmaxx  # noqa: B018  # asking for it is the test
    assert str(caught.value) == "topi has no 'softmaxx'\n  try: topi.softmax"


def test_processors_are_counted_from_zero() -> None:
    with pytest.raises(tvm.ArgumentError, match=r"cpu\(-1\): not an int of at least 0"):
        tvm.cpu(-1)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda s: s[B].env_threads, "s[B].env_threads is not supported: the loop of a te.scan"),
        (lambda s: s[B].rolling_buffer, "s[B].rolling_buffer is not supported: store_at has this"),
        (lambda s: s.create_group, "s.create_group is not supported: stages are placed one by"),
        (lambda s: te.popcount, "te.popcount is not supported: no target counts bits yet"),
    ],
)
def test_a_step_of_tvm_that_is_missing_says_why(ask: Any, says: str) -> None:
    with pytest.raises(AttributeError) as caught:
        ask(te.create_schedule(B.op))
    assert str(caught.value).startswith(says)
