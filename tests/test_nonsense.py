"""Nonsense in place of any argument of any public call: an error of ours, or it is understood."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import auto_scheduler, te, tir, topi, tune
from minitvm.base import TVMError
from minitvm.lowering import PASSES, insert, swap, tidy
from minitvm.schedule import Split

Call = tuple[Callable[..., Any], list[Any]]  # a public call, with arguments that make sense

Group = Callable[["Program"], dict[str, Call]]

NONSENSE: tuple[Any, ...] = (
    *(None, 5, -1, 1.5, True, 10**30, 2j, "x", "", [], (None,), {}),
    *(np.zeros(3), object()),
)
A = te.placeholder((8, 16), name="A")
B = te.placeholder((16, 8), name="B")
IMAGE, TAPS = te.placeholder((1, 3, 8, 8)), te.placeholder((3, 3, 3, 3))
ROW, ROW_TAPS = te.placeholder((1, 3, 8)), te.placeholder((4, 3, 3))
CUBE, CUBE_TAPS = te.placeholder((1, 3, 8, 8, 8)), te.placeholder((4, 3, 3, 3, 3))
CHANNELS = te.placeholder((16,), name="channels")
PLACES = te.placeholder((2,), "int32", name="places")
INTRIN = topi.gemm_intrin(8, 8, 16)
TWICE = te.compute((8, 16), lambda i, j: A[i, j] * 2.0, name="twice")
F = tvm.build(te.create_schedule(TWICE.op), [A, TWICE], target="python")
SCALE = te.placeholder((8,), name="scale", constant=True)
SCALED = te.compute((8,), lambda i: SCALE[i] * 2.0, name="scaled")
G = tvm.build(te.create_schedule(SCALED.op), [SCALE, SCALED], target="python")
ARRAYS = [np.zeros((8, 16), "float32"), np.zeros((8, 16), "float32")]


class Program:
    """C = rows of A @ B, through a stage D that is not an output, and its schedule."""

    def __init__(self) -> None:
        self.k = te.reduce_axis((0, 16), name="k")
        self.D: Any = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="D")
        self.C: Any = te.compute(
            (8, 8), lambda i, j: te.sum(self.D[i, self.k] * B[self.k, j], axis=self.k), name="C"
        )
        self.s = te.create_schedule(self.C.op)
        self.i, self.j = self.C.op.axis
        self.x: Any = self.D[self.i, self.j]
        self.s[self.D].unroll(self.D.op.axis[1])


def parameters(f: Callable[..., Any], optional: bool = False) -> list[str]:
    """The names of the parameters of `f` without a default, or of all."""
    known = inspect.signature(f).parameters.values()
    return [p.name for p in known if optional or p.default is p.empty]


def formulas(p: Program) -> dict[str, Call]:
    one = (
        *("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "atan"),
        *("sinh", "cosh", "tanh", "sigmoid", "erf", "floor", "ceil", "trunc", "round", "abs"),
        *("isnan", "isfinite", "isinf", "acos", "asin", "log1p"),
    )
    two = ("power", "fmod", "atan2", "hypot", "copysign")
    whole = ("floordiv", "floormod", "truncdiv", "truncmod", "indexdiv", "indexmod")
    cond = p.x > 0
    state = te.scan_state((4, 8))
    first = te.compute((1, 8), lambda _, i: 0.0)
    update = te.compute((4, 8), lambda t, i: state[t - 1, i] + 1.0)
    return {
        **{f"te.{name}": (getattr(te, name), [p.x]) for name in one},
        **{f"te.{name}": (getattr(te, name), [p.i, 3]) for name in whole},
        **{f"te.{name}": (getattr(te, name), [p.x, p.x]) for name in two},
        "te.clz": (te.clz, [p.i]),
        "te.placeholder": (te.placeholder, [(8,), "float32", "A"]),
        "te.compute": (te.compute, [(8,), lambda i: 1.0, "C", ""]),
        "te.define": (partial(te.define, A=A, B=B), ["C(i, j) +=! A(i, k) * B(k, j)"]),
        "te.reduce_axis": (te.reduce_axis, [(0, 8), "k"]),
        **{f"te.{n}": (getattr(te, n), [p.x, p.k]) for n in ("sum", "prod", "max", "min")},
        "te.comm_reducer": (te.comm_reducer, [lambda x, y: x + y, lambda t: te.const(0, t), "r"]),
        "te.var": (te.var, ["n"]),
        "te.size_var": (te.size_var, ["n"]),
        "te.const": (te.const, [1, "int32"]),
        "te.min_value": (te.min_value, ["int32"]),
        "te.max_value": (te.max_value, ["int32"]),
        "te.if_then_else": (te.if_then_else, [cond, p.x, p.x]),
        "te.all": (te.all, [cond, cond]),
        "te.any": (te.any, [cond, cond]),
        "te.extern": (te.extern, [(8,), [A], copied, "E"]),
        "te.scan": (te.scan, [first, update, state]),
        "te.scan_state": (te.scan_state, [(4, 8)]),
        "te.decl_tensor_intrin": (te.decl_tensor_intrin, [TWICE.op, copied]),
        "te.decl_tensor_intrinsic": (te.decl_tensor_intrinsic, [TWICE.op, copied]),
        "te.hardware_intrinsic": (te.hardware_intrinsic, ["ld.x", p.x]),
        "te.thread_axis": (te.thread_axis, [(0, 8), "threadIdx.x", "tx"]),
        "te.create_schedule": (te.create_schedule, [p.C.op]),
    }


def copied(ins: Any, outs: Any) -> Any:
    ib = tir.ir_builder.create()
    a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 8, name="i") as i:
        b[i] = a[i] * 2.0
    return ib.get()


def results(p: Program) -> dict[str, Call]:
    """What a user's function returns, and what stands in brackets or beside an operator."""

    def formula(made: Any) -> Any:
        return te.compute((8,), lambda i: made)

    def fold(made: Any) -> Any:
        fold = te.comm_reducer(lambda x, y: made, lambda t: made)
        C = te.compute((8,), lambda i: fold(A[i, p.k], axis=p.k))
        return tvm.lower(te.create_schedule(C.op), [A, C])

    def extern(made: Any) -> Any:
        return te.extern((8,), [A], lambda ins, outs: made)

    def layout(made: Any) -> Any:
        p.s[p.D].transform_layout(lambda i, j: made)

    return {
        "a formula": (formula, [1.0]),
        "a fold": (fold, [te.const(1.0)]),
        "an extern statement": (extern, [tir.NOTHING]),
        "a layout": (layout, [(p.j, p.i)]),
        "A[x]": (lambda i: A[i], [p.i]),
        "A[x, y]": (lambda i, j: A[i, j], [p.i, p.j]),
        "A(x, y)": (A, [p.i, p.j]),
        "x + y": (lambda y: p.x + y, [1.0]),
        "x // y": (lambda y: p.i // y, [2]),
        "x < y": (lambda y: p.x < y, [2]),
        "x == y": (lambda y: p.i == y, [2]),
        "x.astype": (p.x.astype, ["int32"]),
    }


def loops(p: Program) -> dict[str, Call]:
    ib = tir.ir_builder.create()
    row = ib.buffer_ptr(tir.decl_buffer((8,), name="row"))

    def loop(*args: Any, **options: Any) -> None:
        with ib.for_range(*args, **options):
            row[0] = 1.0

    def branch(cond: Any) -> None:
        with ib.if_scope(cond):
            row[0] = 1.0

    lowered = tvm.lower(te.create_schedule(TWICE.op), [A, TWICE])
    return {
        "tir.decl_buffer": (tir.decl_buffer, [(8,), "float32", "b"]),
        "tir.call_packed": (tir.call_packed, ["f", p.x]),
        "tir.call_extern": (tir.call_extern, ["int32", "f", p.x]),
        "tir.call_intrin": (tir.call_intrin, ["float32", "exp", p.x]),
        "tir.register_func": (tir.register_func, ["f", lambda a: None]),
        "tir.interpret": (tir.interpret, [lowered, *ARRAYS]),
        "tir.verify": (tir.verify, [lowered, "vector"]),
        "tir.floordiv": (tir.floordiv, [p.i, 3]),
        "tir.floormod": (tir.floormod, [p.i, 3]),
        "tir.max": (tir.max, [p.x, p.x]),
        "tir.min": (tir.min, [p.x, p.x]),
        "tir.Select": (tir.Select, [p.x > 0, p.x, p.x]),
        "tir.dot4": (tir.dot4, [te.const(0, "int32"), [1, 2, 3, 4], [1, 2, 3, 4]]),
        "ib.buffer_ptr": (ib.buffer_ptr, [row.buffer]),
        "ib.pointer": (ib.pointer, [row.buffer]),
        "ib.allocate": (ib.allocate, ["float32", (8,), "b", "local"]),
        "ib.emit": (ib.emit, [p.x]),
        "ib.for_range": (loop, [0, 8, "i", "int32", "serial"]),
        "ib.if_scope": (branch, [p.x > 0]),
        "ib.scope_attr": (ib.scope_attr, [p.i, "key", 1]),
        "row[x]": (row.__getitem__, [0]),
        "row[x] = y": (row.__setitem__, [0, 1.0]),
        "b.access_ptr": (row.buffer.access_ptr, ["r"]),
        "b.vload": (row.buffer.vload, [0]),
        "b.vstore": (row.buffer.vstore, [0, 1.0]),
        "insert": (insert, [PASSES["llvm"], 1, tidy]),
        "swap": (swap, [PASSES["llvm"]]),
    }


def steps(p: Program) -> dict[str, Call]:
    s, stage, inner = p.s, p.s[p.C], p.s[p.D]
    thread = te.thread_axis((0, 8), "threadIdx.x")
    return {
        "s[x]": (s.__getitem__, [p.C]),
        "s.cache_read": (s.cache_read, [A, "local", [p.D]]),
        "s.cache_write": (s.cache_write, [p.C, "local"]),
        "s.rfactor": (s.rfactor, [p.C, p.k, 0]),
        "s.apply": (s.apply, [Split("C", "i", 4)]),
        "s.explain": (s.explain, []),
        "s.warnings": (s.warnings, []),
        "s.explain_bound": (s.explain_bound, [p.D, "i"]),
        "s.explain_guard": (s.explain_guard, [p.i]),
        "s.diff": (s.diff, []),
        "s.step_text": (s.step_text, []),
        "s.from_json": (s.from_json, ["[]", p.C.op, [INTRIN]]),
        "s.undo": (s.undo, []),
        "s.copy": (s.copy, []),
        "s.python": (s.python, []),
        "s.to_json": (s.to_json, []),
        "s[C].split": (stage.split, [p.i, 4]),
        "s[C].tile": (stage.tile, [p.i, p.j, 4, 4]),
        "s[C].fuse": (stage.fuse, [p.i, p.j]),
        "s[C].reorder": (stage.reorder, [p.j, p.i]),
        **{  # vectorize, unroll, parallel, ...
            f"s[C].{name}": (getattr(stage, name), [p.j])
            for name, f in vars(te.StageView).items()
            if inspect.isfunction(f) and parameters(f, optional=True) == ["self", "axis"]
        },
        "s[C].bind": (stage.bind, [p.i, thread]),
        "s[C].pragma": (stage.pragma, [p.i, "auto_unroll_max_step", 16]),
        "s[C].tensorize": (stage.tensorize, [p.i, INTRIN]),
        "s[C].prefetch": (inner.prefetch, [A, inner.op.axis[0], 1]),
        "s[C].set_store_predicate": (stage.set_store_predicate, [p.i < 4]),
        "s[C].axis_name": (stage.axis_name, [p.i, "split"]),
        "s[C].compute_at": (inner.compute_at, [stage, p.i]),
        "s[C].store_at": (inner.store_at, [stage, p.i]),
        "s[C].compute_inline": (inner.compute_inline, []),
        "s[C].compute_root": (inner.compute_root, []),
        "s[C].double_buffer": (inner.double_buffer, []),
        "s[C].set_scope": (inner.set_scope, ["local"]),
        "s[C].storage_align": (inner.storage_align, [inner.op.axis[0], 16, 1]),
        "s[C].transform_layout": (inner.transform_layout, [lambda i, j: (j, i)]),
    }


def programs(p: Program) -> dict[str, Call]:
    return {
        "tvm.lower": (tvm.lower, [p.s, [A, B, p.C], "main"]),
        "tvm.build": (tvm.build, [p.s, [A, B, p.C], "python", "main"]),
        "tvm.Target": (tvm.Target, ["llvm"]),
        "tvm.cpu": (tvm.cpu, [0]),
        "tvm.device": (tvm.device, ["cpu", 0]),
        "tvm.load": (tvm.load, ["stored"]),
        "tvm.nd.array": (tvm.nd.array, [[1.0, 2.0]]),
        "tvm.nd.empty": (tvm.nd.empty, [(3,), "float32"]),
        "tvm.num_threads": (tvm.num_threads, []),
        "tvm.set_num_threads": (tvm.set_num_threads, [tvm.num_threads()]),
        "f": (F, list(ARRAYS)),
        "f.check": (F.check, list(ARRAYS)),
        "f.bind": (lambda scale: G.bind(scale=scale), [np.zeros(8, "float32")]),
        "f.source": (F.source, ["tir"]),
        "f.export": (F.export, ["stored"]),
        "f.time_evaluator": (F.time_evaluator, ["main", None, 1, 1, 0]),
        "f.time_evaluator(...)": (F.time_evaluator(number=1, repeat=1), list(ARRAYS)),
    }


def operators(p: Program) -> dict[str, Call]:
    known = {n: getattr(topi, n) for n in topi.__all__ if n not in ("dispatch", "nn")}
    batch = te.placeholder((2, 8, 16)), te.placeholder((2, 16, 8))
    return {
        **{f"topi.{n}": (f, [A, TWICE][: len(parameters(f))]) for n, f in known.items()},
        "topi.schedule": (topi.schedule, [TWICE]),
        "topi.matmul": (topi.matmul, [A, B]),
        "topi.batch_matmul": (topi.batch_matmul, [*batch]),
        "topi.dense": (topi.dense, [A, A, te.placeholder((8,))]),
        "topi.conv1d": (topi.conv1d, [ROW, ROW_TAPS, 1, 1, 1]),
        "topi.conv2d": (topi.conv2d, [IMAGE, TAPS, 1, 1, 1]),
        "topi.conv2d_winograd": (
            topi.conv2d_winograd,
            [te.placeholder((1, 8, 8, 4)), te.placeholder((3, 3, 4, 8)), 1, 2],
        ),
        "topi.formulas": (topi.formulas, [topi.conv2d(IMAGE, TAPS)]),
        "topi.best_formula": (topi.best_formula, [topi.conv2d(IMAGE, TAPS)]),
        "topi.conv3d": (topi.conv3d, [CUBE, CUBE_TAPS, 1, 1, 1]),
        "topi.conv2d_transpose": (topi.conv2d_transpose, [IMAGE, TAPS, 1, 1]),
        "topi.max_pool2d": (topi.max_pool2d, [IMAGE, 2, 2, 0]),
        "topi.avg_pool2d": (topi.avg_pool2d, [IMAGE, 2, 2, 0]),
        "topi.global_avg_pool2d": (topi.global_avg_pool2d, [IMAGE]),
        "topi.depthwise_conv2d": (
            topi.depthwise_conv2d,
            [IMAGE, te.placeholder((*IMAGE.shape[1:2], 1, 3, 3)), 1, 1, 1, "NCHW"],
        ),
        "topi.layout_transform": (topi.layout_transform, [IMAGE, "NCHW", "NHWC"]),
        "topi.batch_norm": (topi.batch_norm, [A, *[CHANNELS] * 4]),
        "topi.clip": (topi.clip, [A, 0, 1]),
        "topi.where": (topi.where, [A, A, A]),
        "topi.take": (topi.take, [A, PLACES, 0]),
        "topi.cast": (topi.cast, [A, "int32"]),
        "topi.reshape": (topi.reshape, [A, (16, 8)]),
        "topi.concatenate": (topi.concatenate, [[A, A], 0]),
        "topi.pad": (topi.pad, [A, [1, 1], [1, 1], 0.0]),
        "topi.strided_slice": (topi.strided_slice, [A, [0, 0], [4, 4], [1, 1]]),
        "topi.quantise": (topi.quantise, [A, 0.5, 3, "uint8", 1]),
        "topi.dequantise": (topi.dequantise, [topi.cast(A, "int32"), 0.5, 3, 1]),
        "topi.requantise": (
            topi.requantise,
            [
                topi.cast(A, "int32"),
                te.placeholder((A.shape[1],), "int32"),
                te.placeholder((A.shape[1],)),
            ],
        ),
        "topi.add_requantised": (topi.add_requantised, [A, A, 0.5, 0.5, 1.0]),
        "topi.gemm_intrin": (topi.gemm_intrin, [4, 4, 4]),
    }


def log() -> str:
    """One measurement of the task of `searches`."""
    task = searches(Program())["task.apply_best"][0].__self__
    rows = task.sketches[0].space.sample(np.random.default_rng(0), 1)
    found = tune.Trial(tune.Candidate(0, tuple(rows[0].tolist())), tune.Result((1e-3,)))
    return tune.to_line(tune.record_of(task, found))


def searches(p: Program) -> dict[str, Call]:
    def product() -> list[te.Tensor]:
        return [A, B, te.compute((8, 8), lambda i, j: te.sum(A[i, p.k] * B[p.k, j], p.k), name="C")]

    auto_scheduler.register_workload("product", product)
    task = auto_scheduler.SearchTask("product", (), target="llvm -num-cores=1")
    dag = task.compute_dag
    rule = auto_scheduler.PreloadCustomSketchRule(lambda *_: 0, lambda *_: [], "rule")
    init = dag.get_init_state()
    i, j, k = init["C"].iters
    name = "log.json"
    best = auto_scheduler.load_best_record
    return {
        "auto_scheduler.register_workload": (auto_scheduler.register_workload, ["f", product]),
        "auto_scheduler.make_workload_key": (auto_scheduler.make_workload_key, ["product", ()]),
        "auto_scheduler.ComputeDAG": (auto_scheduler.ComputeDAG, [dag.tensors]),
        "dag.apply_steps_from_state": (dag.apply_steps_from_state, [init]),
        "auto_scheduler.SearchTask": (auto_scheduler.SearchTask, ["product", ()]),
        "task.apply_best": (task.apply_best, [name]),
        "task.print_best": (task.print_best, [name]),
        "auto_scheduler.TuningOptions": (auto_scheduler.TuningOptions, [8, 4, 2, 0]),
        "auto_scheduler.RecordToFile": (auto_scheduler.RecordToFile, [name]),
        "auto_scheduler.HardwareParams": (
            lambda *facts: auto_scheduler.HardwareParams(*facts).on(task.target),
            [2, 16],
        ),
        "auto_scheduler.SketchPolicy": (auto_scheduler.SketchPolicy, [task]),
        "auto_scheduler.PreloadMeasuredStates": (auto_scheduler.PreloadMeasuredStates, [name]),
        "auto_scheduler.PreloadCustomSketchRule": (
            auto_scheduler.PreloadCustomSketchRule,
            [rule.meet_condition_func, rule.apply_func, "rule"],
        ),
        "auto_scheduler.XGBModel": (auto_scheduler.XGBModel, []),
        "model.update_from_file": (auto_scheduler.XGBModel().update_from_file, [name]),
        "auto_scheduler.load_records": (lambda name: [*auto_scheduler.load_records(name)], [name]),
        "auto_scheduler.load_best_record": (best, [name]),
        "auto_scheduler.ApplyHistoryBest": (auto_scheduler.ApplyHistoryBest, [name]),
        "loop_state.State": (auto_scheduler.loop_state.State, [init]),
        "s0[...]": (lambda key: init[key], ["C"]),
        "s0.split": (init.split, ["C", i, [2]]),
        "s0.fuse": (init.fuse, ["C", [i, j]]),
        "s0.reorder": (init.reorder, ["C", [j, i]]),
        "s0.vectorize": (init.vectorize, ["C", j]),
        "s0.unroll": (init.unroll, ["C", j]),
        "s0.parallel": (init.parallel, ["C", i]),
        "s0.pragma": (init.pragma, ["C", i, "auto_unroll_max_step$16"]),
        "s0.compute_root": (init.compute_root, ["C"]),
        "s0.cache_write": (init.cache_write, ["C", "local"]),
        "s0.cache_read": (init.cache_read, ["A", "global", ["C"]]),
        "s0.rfactor": (init.rfactor, ["C", k, 2]),
    }


GROUPS = (formulas, results, loops, steps, programs, operators, searches)
LOG = log()
CALLS = [(group, name) for group in GROUPS for name in group(Program())]
IDS = [name for _, name in CALLS]
PLAIN = {  # tvm's names that are no calls, or are swept as others
    *("te", "tir", "topi", "nd", "target", "Device", "Function", "register_func"),
    *(name for name in tvm.__all__ if name.endswith("Error")),
}


def places(call: Call) -> Iterator[int | str]:
    """The arguments of a call: those that are given by their number, others by their name."""
    f, args = call
    yield from range(len(args))
    for n, p in enumerate(inspect.signature(f).parameters.values()):
        if p.kind is p.KEYWORD_ONLY or (p.kind is p.POSITIONAL_OR_KEYWORD and n >= len(args)):
            yield p.name


def run(call: Call, at: int | str, x: Any) -> None:
    f, args = call
    if isinstance(at, str):
        f(*args, **{at: x})
    else:
        f(*args[:at], x, *args[at + 1 :])


@pytest.fixture(autouse=True)
def left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are written elsewhere; threads and functions are what they were."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.json").write_text(LOG, encoding="utf-8")
    F.export("stored")
    threads = tvm.num_threads()
    yield
    tvm.set_num_threads(threads)
    tir.clear_functions()
    auto_scheduler.workload_registry.clear()


@pytest.mark.parametrize(("group", "name"), CALLS, ids=IDS)
def test_a_call_that_makes_sense_is_taken(group: Group, name: str) -> None:
    f, args = group(Program())[name]
    f(*args)


@pytest.mark.parametrize(("group", "name"), CALLS, ids=IDS)
def test_nonsense_is_understood_or_refused_with_an_error_of_ours(group: Group, name: str) -> None:
    raw: list[str] = []
    for at in places(group(Program())[name]):
        for x in NONSENSE:
            try:
                run(group(Program())[name], at, x)
            except TVMError:
                pass
            except Exception as e:
                raw.append(f"{at} = {x!r}: {type(e).__name__}: {e}")
    assert raw == []


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("te", {n for n in te.__all__ if not inspect.isclass(getattr(te, n))}),
        ("topi", set(topi.__all__) - {"dispatch", "nn"}),
        ("tvm", set(tvm.__all__) - PLAIN),
        *(
            (group, {n for n, f in vars(kind).items() if inspect.isfunction(f) and n[0] != "_"})
            for group, kind in (("s", te.Schedule), ("s[C]", te.StageView), ("f", tvm.Function))
        ),
    ],
)
def test_every_public_call_is_swept(group: str, names: set[str]) -> None:
    assert sorted(n for n in names if f"{group}.{n}" not in IDS) == []
