"""Values that make no sense are refused with an error of ours, wherever they are handed in."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir, topi
from minitvm.base import ArgumentError, BuildError, ExprError, MeasureError, ScheduleError, TVMError
from minitvm.runtime import set_num_threads
from minitvm.tir import cast_to

V: Any = te.placeholder((8,), name="V")
X: Any = te.placeholder((4, 6), name="X")
IMAGE = te.placeholder((1, 3, 8, 8), name="image")
KERNEL = te.placeholder((3, 4, 3, 3), name="kernel")
TAPS = te.placeholder((4, 3, 3, 3), name="taps")
W: Any = te.compute((8,), lambda i: V[i] + 1.0, name="W")
P: Any = te.compute((8, 8), lambda i, j: V[i], name="P")
Q: Any = te.compute((8, 8), lambda i, j: P[i, j], name="Q")
k = te.reduce_axis((0, 8), name="k")
n = te.var("n")
v = np.zeros(8, "float32")

Mistake = Callable[[], Any]


def told(mistake: Mistake, kind: type[TVMError]) -> str:
    with pytest.raises(kind) as error:
        mistake()
    return str(error.value)


def vector(formula: Any, **options: Any) -> Any:
    return te.compute((8,), formula, **({"name": "C"} | options))


def folded(combine: Callable[..., Any], identity: Callable[..., Any]) -> Any:
    C = vector(lambda i: te.comm_reducer(combine, identity, name="R")(V[k], axis=k))
    return tvm.build(te.create_schedule(C.op), [V, C])


def zero(kind: str) -> Any:
    return te.const(0, kind)


FORMULAS: list[tuple[Mistake, str]] = [
    (lambda: vector(lambda i: ()), "compute C: the formula returns nothing"),
    (lambda: vector(lambda i: te.sum((), axis=k)), "te.sum: there is nothing to reduce"),
    (lambda: vector(max), "its arguments cannot be inspected"),
    (lambda: vector(int), "its arguments cannot be inspected"),
    (
        lambda: folded(lambda x, y: (x, y), zero),
        "fcombine: it returns 2 value(s), but 1 are reduced",
    ),
    (lambda: folded(lambda x, y: x + y, lambda t: ()), "fidentity: it returns 0 value(s)"),
    (lambda: te.const("x"), "not a number"),
    (lambda: te.const(None), "not a number"),
    (lambda: te.const(1j), "not a number"),
    (lambda: vector(lambda i: V[i] + 10**400), "too large for a float"),
    (lambda: cast_to(float("inf"), "int32"), "const(inf, int32): int32 holds -2147483648 .. "),
    (lambda: cast_to(float("nan"), "int32"), "const(nan, int32)"),
    (lambda: n + 10**400, "indices have 64 bits"),
    (lambda: n < 2**63, "indices have 64 bits"),
    (lambda: vector(lambda i: V[i], name=3), "compute: name=3: a name is a string"),
    (lambda: te.placeholder((8,), name=None), "placeholder: name=None"),
    (lambda: te.reduce_axis((0, 8), name=3), "reduce_axis: name=3"),
    (lambda: te.var(3), "var: name=3"),
    (lambda: te.size_var(None), "size_var: name=None"),
    (lambda: te.define(5), "te.define(5)"),
    (lambda: te.comm_reducer(5, zero), "comm_reducer reduce: 5: not a function"),
    (lambda: te.scan(5, 6, 7), "scan scan: 5 is not a tensor"),
    (lambda: te.decl_tensor_intrin(W.op, 5), "5: not a function"),
    (lambda: tir.decl_buffer((4,), name=5), "decl_buffer(name=5): a name is a string"),
    (lambda: tir.decl_buffer((4,), scope=5), "decl_buffer(scope=5): a scope is a string"),
    (lambda: tir.decl_buffer((4,), offset_factor="a"), "decl_buffer(buffer, offset_factor='a')"),
]

OPERATORS: list[tuple[Mistake, str]] = [
    (lambda: topi.layer_norm(X, axis=None), "topi.layer_norm of X over axis None: it works along"),
    (lambda: topi.argmax(X, axis=None), "topi.argmax of X over axis None"),
    (lambda: topi.argmax(X, axis=(0, 1)), "topi.argmax of X over axis (0, 1)"),
    (lambda: topi.batch_norm(X, V, V, V, V, axis=None), "topi.batch_norm of X over axis None"),
    (lambda: topi.conv2d(IMAGE, TAPS, padding=(1, 2, 3, "a")), "padding: 'a': not an integer"),
    (lambda: topi.conv2d(IMAGE, TAPS, groups=None), "topi.conv2d: groups: None"),
    (lambda: topi.conv2d(IMAGE, TAPS, groups=0), "groups is 0"),
    (lambda: topi.conv2d_transpose(IMAGE, KERNEL, padding=-1), "padding (-1, -1, -1, -1) >= 0"),
    (lambda: topi.conv2d_transpose(IMAGE, KERNEL, strides=0), "strides (0, 0) must be >= 1"),
    (lambda: topi.max_pool2d(X, 2), "it has 2 dimensions, not 4"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "says"), FORMULAS + OPERATORS)
def test_a_formula_without_meaning_is_refused(mistake: Mistake, says: str) -> None:
    assert says in told(mistake, ExprError)


# --- schedules -----------------------------------------------------------------------------------


def replayed(*steps: Any) -> Any:
    return te.Schedule.from_json(json.dumps(steps), [W.op, Q.op])


def step(name: str, **fields: Any) -> Mistake:
    return lambda: replayed((name, fields))


def layout(*texts: Any) -> Mistake:
    return step("transform_layout", stage="P", axes=["i", "j"], layout=texts)


STEPS: list[tuple[Mistake, str]] = [
    (lambda: te.Schedule.from_json("[" * 100000, W.op), "steps from JSON: not a list of steps"),
    (lambda: te.Schedule.from_json(None, W.op), "steps from JSON"),
    (step("split", stage="W", axis="i", factor=10**400), "factor of split is 1000000"),
    (step("split", stage="W", axis="i", factor=2, disable_predication=1),
     "disable_predication of split is 1"),
    (step("cache_read", stage="V", output="x", scope="local", readers=["W"]),
     "output of cache_read is 'x'"),
    (step("cache_read", stage="V", output=0.0, scope="local", readers=["W"]),
     "output of cache_read is 0.0"),
    (step("rfactor", stage="W", axis="i", factor_axis="x"), "factor_axis of rfactor is 'x'"),
    (step("rfactor", stage="W", axis="i", factor_axis=None), "factor_axis of rfactor is None"),
    (step("tensorize", stage="W", axis="i", intrin={}), "intrin of tensorize is {}"),
    (step("reorder", stage="W", axes=["i", 1]), "axes of reorder is ['i', 1]"),
    (layout(5, "j"), "layout of transform_layout is [5, 'j']"),
    (layout("i +", "j"), "formula 'i +' in a step: invalid syntax"),
    (layout("", "j"), "formula '' in a step"),
    (layout("i\0", "j"), "formula 'i\\x00' in a step"),
    (layout("i" + " + 0" * 5000, "j"), "it has 20001 characters, at most 500 are read"),
    (layout("i * 99999999999999999999", "j"), "it is not made of i, j, integers"),
    (layout("i // 0", "j"), "formula 'i // 0': a divisor is an integer >= 1"),
    (layout("i % j", "j"), "formula 'i % j': a divisor is an integer >= 1"),
    (layout("i", "j", "True"), "formula 'True': it is not made of i, j"),
    (step("transform_layout", stage="P", axes=["i", "i"], layout=["i"]), "axes i, i are equal"),
    (step("set_store_predicate", stage="W", axes=["i"], conds=["i <"]), "formula 'i <' in a step"),
    (lambda: te.Schedule.from_json("[]", W.op, 5), "tensorize with 5: not a tensor intrinsic"),
    (lambda: te.thread_axis((0, 1, 2), "vthread"), "the range starts at 0"),
    (lambda: te.create_schedule(W.op).apply(5), "5 is not a step"),
    (lambda: te.create_schedule(W.op).explain_guard([]), "guards on []: it is not an axis of"),
    (lambda: te.create_schedule(W.op).diff("a"), "step 'a': a step number is"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "says"), STEPS)
def test_a_step_without_meaning_is_refused(mistake: Mistake, says: str) -> None:
    assert says in told(mistake, ScheduleError)


class Layouts:
    """Keeps what its method computes with, as an instructor's class may."""

    last = 7

    def turned(self, i: Any, j: Any) -> Any:
        return j, self.last - i


def test_a_method_may_be_a_layout_and_count_backwards() -> None:
    s = te.create_schedule(Q.op)
    s[P].transform_layout(Layouts().turned)
    assert s.steps[-1].layout == ("j", "7 - i")  # type: ignore[union-attr]


@pytest.mark.parametrize("first", ["-i + 7", "7 - i"])
def test_a_layout_with_a_minus_is_replayed(first: str) -> None:
    s = replayed(("transform_layout", {"stage": "P", "axes": ["i", "j"], "layout": [first, "j"]}))
    out, w = np.empty((8, 8), "float32"), np.empty(8, "float32")
    a = np.arange(8, dtype="float32")
    tvm.build(s, [V, W, Q])(a, w, out)
    np.testing.assert_array_equal(out, np.repeat(a[:, None], 8, 1))


# --- building and running ------------------------------------------------------------------------


def built(**options: Any) -> Any:
    return tvm.build(te.create_schedule(W.op), [V, W], **options)


def lowered(**options: Any) -> Any:
    return tvm.lower(te.create_schedule(W.op), **({"args": [V, W]} | options))


class Foreign:
    """An array of another library that fails in its own way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


VALUES: list[tuple[Mistake, str]] = [
    (lambda: lowered(args=None), "args: None"),
    (lambda: lowered(args=5), "args: 5"),
    (lambda: lowered(passes=5), "passes=5: not a tuple of named functions"),
    (lambda: lowered(passes=(1,)), "passes=(1,)"),
    (lambda: lowered(passes=(lambda s: None,)), "pass <lambda>: it returns NoneType"),
    (lambda: lowered(name=5), "name=5"),
    (lambda: lowered(watch=5), "watch=5: not a function"),
    (lambda: tvm.Target("llvm -num-cores=²"), "'-num-cores=²': not a number of cores"),
    (lambda: tvm.Target("llvm -num-cores=" + "9" * 5000), "not a number of cores"),
    (lambda: tvm.Target("llvm -mattr=avx2"), "each feature must begin with + or -"),
    (lambda: built()(Foreign(AttributeError("no export")), v), "argument V: cannot be read in"),
    (lambda: built()(Foreign(KeyError("lost")), v), "argument V: cannot be read in place: 'lost'"),
    (lambda: built().source([]), "source([])"),
    (lambda: built().export([]), "export([]): not a file name"),
    (lambda: built().export("no such folder/f"), "export('no such folder/f'): "),
    (lambda: tvm.load([]), "load([])"),
    (lambda: tvm.load("\0"), "load('\\x00')"),
    (lambda: tvm.nd.array([[1], [1, 2]]), "nd.array of a list: setting an array element"),
    (lambda: tvm.nd.array([1], 5), "array on 5: not a device"),
    (lambda: tvm.nd.empty((-1,)), "nd.empty((-1,)): negative dimensions"),
    (lambda: tvm.nd.empty("a"), "nd.empty('a')"),
    (lambda: tvm.nd.array([1.0]).copyfrom([1, 2, 3]), "copyfrom into shape (1,)"),
    (lambda: tvm.nd.array([1.0]).copyfrom(np.ma.array([1.0])), "copyfrom of a masked array"),
    (lambda: tvm.nd.array(np.ma.array([1.0])), "nd.array of a masked array: its mask would be"),
    (lambda: set_num_threads("a"), "set_num_threads('a')"),
    (lambda: set_num_threads(1.5), "set_num_threads(1.5)"),
]


@pytest.mark.parametrize(("mistake", "says"), VALUES)
def test_an_argument_without_meaning_is_refused(mistake: Mistake, says: str) -> None:
    assert says in told(mistake, ArgumentError)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"number": "a"}, "number='a'"),
        ({"repeat": 1.5}, "repeat=1.5"),
        ({"repeat": True}, "repeat=True"),
        ({"min_repeat_ms": float("inf")}, "min_repeat_ms=inf: not a number from 0 to 86400000"),
        ({"min_repeat_ms": float("nan")}, "min_repeat_ms=nan"),
        ({"min_repeat_ms": "a"}, "min_repeat_ms='a'"),
        ({"timer": 5}, "timer=5: it is not a function"),
        ({"timer": lambda: 0.0, "min_repeat_ms": 1}, "the timer does not advance"),
    ],
)
def test_a_measurement_that_cannot_be_made_is_refused(options: dict[str, Any], says: str) -> None:
    assert says in told(lambda: built().time_evaluator(**options)(v, v + 1), MeasureError)


@pytest.mark.parametrize(
    ("cpu", "says"),
    [
        ("-mcpu=foo", "code for -mcpu=foo: LLVM says 'foo' is not a recognized processor"),
        ("-mcpu=help", "code for -mcpu=help: 'help' is not a CPU"),
        ("-mattr=+foo", "code for -mattr=+foo: LLVM says '+foo' is not a recognized feature"),
    ],
)
def test_a_cpu_that_llvm_does_not_know_is_refused(cpu: str, says: str) -> None:
    assert says in told(lambda: built(target=f"llvm {cpu}"), BuildError)


# --- empty tensors are no mistake ----------------------------------------------------------------


def test_a_tensor_of_no_elements_is_reshaped() -> None:
    E = te.placeholder((0, 4), name="E")
    R = topi.reshape(E, (4, 0))
    out = np.empty((4, 0), "float32")
    tvm.build(topi.schedule(R), [E, R])(np.empty((0, 4), "float32"), out)


@pytest.mark.parametrize("method", ["rows", "direct"])
def test_a_convolution_may_have_no_output_channels(method: str) -> None:
    none = te.placeholder((0, 3, 3, 3), name="none")
    C = topi.conv2d(IMAGE, none, method=method)
    image = np.zeros((1, 3, 8, 8), "float32")
    weights, out = np.empty((0, 3, 3, 3), "float32"), np.empty((1, 0, 6, 6), "float32")
    tvm.build(topi.schedule(C), [IMAGE, none, C])(image, weights, out)
