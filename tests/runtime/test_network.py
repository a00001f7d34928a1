"""Networks run from a plan: inputs, outputs, parameters, memory and errors."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import codegen, driver, runtime, te, tir
from minitvm.base import FLOAT32, ArgumentError, BuildError, MeasureError, Target
from minitvm.runtime import (
    Call,
    Library,
    NetworkModule,
    NetworkPlan,
    Place,
    TensorSpec,
    network_module,
)
from minitvm.runtime.network_calls import PythonCalls

N = 64
TARGETS = ["llvm -num-cores=1", "llvm -num-cores=2", "numba", "python"]


def built(tensors: list[Any], name: str, target: str, s: Any = None) -> tvm.Function:
    """The kernel of the last of `tensors`, with its temporaries as parameters."""
    s = te.create_schedule(tensors[-1].op) if s is None else s
    func = driver.lower(s, tensors, name, target=target)
    return driver.build(codegen.lifted(func, Target(target)), (), target)


def dense(target: str) -> tvm.Function:
    """y = x W, with W packed."""
    x = te.placeholder((N, N), name="x")
    w = te.placeholder((N, N), name="w", constant=True)
    k = te.reduce_axis((0, N), name="k")
    y = te.compute((N, N), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[w].transform_layout(lambda k, j: (j // 16, k, j % 16))
    s[y].parallel(s[y].op.axis[0])
    return built([x, w, y], "dense", target, s)


def twice(target: str) -> tvm.Function:
    """y = (x + b) * 2 through a temporary array that does not fit on the stack."""
    x = te.placeholder((N, N), name="x")
    b = te.placeholder((N,), name="b", constant=True)
    t = te.compute((4, N, N), lambda r, i, j: x[i, j] + b[j], name="t")
    y = te.compute((N, N), lambda i, j: t[0, i, j] + t[3, i, j], name="y")
    return built([x, b, y], "twice", target)


def network(target: str) -> tuple[NetworkPlan, Library]:
    """out = 2 (2 (x W1 + b1) W2 + b2): four calls of two kernels."""
    lib = Library((dense(target), twice(target)))
    size = 4 * N * N
    scratch = [Place("arena", 2 * size + 0)] * len(lib.kernels[1].func.scratch)

    def arena(n: int) -> Place:
        return Place("arena", n * size)

    def param(n: int) -> Place:
        return Place("param", n)

    calls = (
        Call(0, (Place("input", 0), param(0), arena(0)), "dense1", 2 * N**3),
        Call(1, (arena(0), param(1), arena(1), *scratch), "bias1", N * N),
        Call(0, (arena(1), param(2), arena(0)), "dense2", 2 * N**3),
        Call(1, (arena(0), param(3), Place("output", 0), *scratch), "bias2", N * N),
    )
    square = (N, N)
    specs = (("w1", square), ("b1", (N,)), ("w2", square), ("b2", (N,)))
    plan = NetworkPlan(
        "two_layers",
        inputs=(TensorSpec("data", square, FLOAT32),),
        outputs=(TensorSpec("out", square, FLOAT32),),
        params=tuple(TensorSpec(name, shape, FLOAT32) for name, shape in specs),
        calls=calls,
        arena_bytes=2 * size + 4 * size,
    )
    return plan, lib


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype("float32")


def values() -> dict[str, Any]:
    square = (N, N)
    shapes = {"w1": square, "b1": (N,), "w2": square, "b2": (N,)}
    return {name: numbers(shape, n) for n, (name, shape) in enumerate(shapes.items())}


def expected(x: Any, p: dict[str, Any]) -> Any:
    hidden = (x @ p["w1"] + p["b1"]) * 2
    return (hidden @ p["w2"] + p["b2"]) * 2


@pytest.fixture(scope="module")
def native() -> tuple[NetworkPlan, Library]:
    return network("llvm -num-cores=1")


@pytest.fixture
def module(native: tuple[NetworkPlan, Library]) -> NetworkModule:
    m = runtime.create(*native, tvm.cpu(0))
    m.set_input(**values())
    return m


@pytest.mark.parametrize("target", TARGETS)
def test_the_talks_lines_run_a_network(target: str) -> None:
    graph, lib = network(target)
    x = numbers((N, N), 9)
    module = runtime.create(graph, lib, tvm.cpu(0))
    module.set_input(**values())
    module.run(data=x)
    output = tvm.nd.empty((N, N), ctx=tvm.cpu(0))
    module.get_output(0, output)
    np.testing.assert_array_equal(output, expected(x, values()))
    assert module.get_num_outputs() == 1


def test_python_makes_the_same_calls(
    native: tuple[NetworkPlan, Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "CompiledCalls", PythonCalls)
    module = runtime.create(*native)
    module.set_input(**values())
    x = numbers((N, N), 9)
    np.testing.assert_array_equal(module(x), expected(x, values()))


def test_a_call_returns_new_arrays_and_changes_no_input(module: NetworkModule) -> None:
    x, other = numbers((N, N), 9), numbers((N, N), 10)
    module.set_input("data", other)
    first = module(x)
    second = module(np.asfortranarray(x))
    module.run()
    np.testing.assert_array_equal(first, expected(x, values()))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(module.get_output(0), expected(other, values()))


def test_inputs_are_copied_when_they_are_set(module: NetworkModule) -> None:
    x = tvm.nd.array(numbers((N, N), 9))
    module.set_input(0, x)
    x[...] = 0
    module.run()
    np.testing.assert_array_equal(module.get_output(0), expected(numbers((N, N), 9), values()))


def test_numbers_are_converted_to_the_type_of_the_input(module: NetworkModule) -> None:
    x = numbers((N, N), 9)
    np.testing.assert_array_equal(module(x.astype("float64")), expected(x, values()))


def test_constants_are_packed_again_when_a_parameter_is_set_again(module: NetworkModule) -> None:
    x, w1 = numbers((N, N), 9), numbers((N, N), 20)
    module.set_input("w1", w1)
    np.testing.assert_array_equal(module(x), expected(x, values() | {"w1": w1}))
    np.testing.assert_array_equal(module.params["w1"], w1)


def test_calls_with_the_same_parameters_share_the_packed_constants(
    native: tuple[NetworkPlan, Library],
) -> None:
    plan, lib = native
    one, _, two, _ = plan.calls
    shared = replace(two, args=(two.args[0], one.args[1], two.args[2]))
    plan = replace(plan, calls=(one, plan.calls[1], shared, plan.calls[3]))
    module = runtime.create(plan, lib)
    module.set_input(**values())
    x = numbers((N, N), 9)
    assert len(module._constants) == 1
    p = values()
    np.testing.assert_array_equal(module(x), expected(x, p | {"w2": p["w1"]}))


def test_memory_is_aligned_to_cache_lines(module: NetworkModule) -> None:
    arrays = [*module._params, *module._constants, *module._inputs, *module._outputs]
    assert all(a.ctypes.data % 64 == 0 for a in arrays)


@pytest.mark.parametrize("cores", [1, 2])
def test_kernels_allocate_no_memory(cores: int) -> None:
    _, lib = network(f"llvm -num-cores={cores}")
    assert lib.kernels[1].func.scratch
    assert not any("malloc" in f.source("ll") for f in lib.kernels)
    plain = dict.fromkeys(("x", "b", "y"), None)
    assert [p.name for p in lib.kernels[1].func.params] == [*plain, "t"]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Call work(0), work(1), ... in threads of their own; raise the first exception of one."""
    with ThreadPoolExecutor(count) as executor:
        for future in [executor.submit(work, n) for n in range(count)]:
            future.result(timeout=300)


@pytest.mark.parametrize("target", TARGETS[:3])
def test_threads_call_two_modules_at_the_same_time(target: str) -> None:
    plan, lib = network(target)
    modules = [runtime.create(plan, lib) for _ in range(2)]
    for m in modules:
        m.set_input(**values())

    def work(thread: int) -> None:
        x = numbers((N, N), thread)
        wanted = expected(x, values())
        for _ in range(20):
            np.testing.assert_array_equal(modules[thread % 2](x), wanted)

    in_threads(8, work)


def test_calls_of_one_module_overlap_and_have_their_own_arenas() -> None:
    """Each call stores its number in the arena, waits for the other call, and reads it back."""
    both = threading.Barrier(2)

    @tvm.register_func("tests.network.meet", override=True)
    def meet(_: Any) -> None:
        both.wait(timeout=300)

    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * 2, name="y")
    z = te.extern(
        (16,),
        [x],
        lambda ins, outs: tir.call_packed("tests.network.meet", outs[0]),
        name="z",
    )
    target = "llvm -num-cores=1"
    lib = Library((built([x, y], "double", target), built([x, z], "meet", target)))
    arena = (Place("arena", 0), Place("arena", 64))
    calls = (
        Call(0, (Place("input", 0), arena[0])),
        Call(1, (arena[0], arena[1])),
        Call(0, (arena[0], Place("output", 0))),
    )
    x_spec, y_spec = (TensorSpec(name, (16,), FLOAT32) for name in "xy")
    module = runtime.create(NetworkPlan("net", (x_spec,), (y_spec,), (), calls, 128), lib)

    def work(thread: int) -> None:
        for n in range(20):
            data = np.full(16, 100 * thread + n, "float32")
            np.testing.assert_array_equal(module(data), 4 * data)

    in_threads(2, work)
    assert 1 <= len(module._arenas._idle) <= 2


def test_a_call_reads_parameters_that_were_set_together(module: NetworkModule) -> None:
    x, old = numbers((N, N), 9), values()
    new = {name: a + 1 for name, a in old.items()}
    answers = [expected(x, old), expected(x, new)]
    end = threading.Event()

    def work(thread: int) -> None:
        if thread == 0:
            for n in range(100):
                module.set_input(**{k: a.copy() for k, a in (old, new)[n % 2].items()})
            end.set()
        while not end.is_set():
            y = module(x)
            assert any(np.array_equal(y, a) for a in answers)

    in_threads(3, work)


def test_an_exception_of_a_python_function_names_itself() -> None:
    @tvm.register_func("tests.network.fails", override=True)
    def fails(_: Any) -> None:
        raise ZeroDivisionError("in a kernel")

    x = te.placeholder((4,), name="x")
    y = te.extern(
        (4,), [x], lambda ins, outs: tir.call_packed("tests.network.fails", outs[0]), name="y"
    )
    target = "llvm -num-cores=1"
    plan = NetworkPlan(
        "one",
        inputs=(TensorSpec("x", (4,), FLOAT32),),
        outputs=(TensorSpec("y", (4,), FLOAT32),),
        params=(),
        calls=(Call(0, (Place("input", 0), Place("output", 0))),),
        arena_bytes=0,
    )
    module = runtime.create(plan, Library((built([x, y], "failing", target),)))
    with pytest.raises(ZeroDivisionError, match="in a kernel"):
        module(np.zeros(4, "float32"))


def test_the_times_of_a_profile_are_those_of_one_run(
    module: NetworkModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, another kernel is slow in each run."""
    runs = iter(
        [[0.0, 0.0, 0.0, 0.0, 0.0], [0, 5e-6, 6e-6, 7e-6, 8e-6], [0, 1e-6, 2e-6, 7e-6, 8e-6]]
    )
    monkeypatch.setattr(module._calls, "stamps", lambda *_: next(runs))
    calls = module.profile(numbers((N, N), 9), number=2).calls
    assert sum(c.seconds for c in calls) == pytest.approx(8e-6)


def test_a_profile_has_a_row_for_each_call(module: NetworkModule) -> None:
    profile = module.profile(numbers((N, N), 9), number=3)
    assert [c.name for c in profile.calls] == ["dense1", "bias1", "dense2", "bias2"]
    assert all(c.seconds > 0 for c in profile.calls)
    assert sum(c.seconds for c in profile.calls) + profile.outside == pytest.approx(profile.seconds)
    first = profile.calls[0]
    assert (first.read, first.written) == (2 * 4 * N * N, 4 * N * N)
    assert first.gflops == first.operations / first.seconds / 1e9
    assert re.search(r"dense2 .*%.*dense\n", str(profile))
    assert "outside the kernels" in str(profile)


def test_traffic_counts_bytes(native: tuple[NetworkPlan, Library]) -> None:
    plan, lib = native
    square, row = 4 * N * N, 4 * N
    found = runtime.traffic(plan, lib)
    assert (found.calls, found.arena) == (4, 6 * square)
    assert (found.read, found.written) == (6 * square + 2 * row, 4 * square)
    assert found.temporaries == 3 * square + 2 * 4 * square


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m(), "takes 1 inputs, 0 given"),
        (lambda m: m(np.zeros((2, 2), "float32")), "has shape (2, 2)"),
        (lambda m: m([[1.0]]), "is list, not an array"),
        (lambda m: m.set_input("dat", 1), "no input or parameter 'dat'"),
        (lambda m: m.set_input(3, 1), "input 3: the network has 1"),
        (lambda m: m.set_input(data=np.zeros((N, N), complex)), "has dtype complex128"),
        (lambda m: m.run(), "data is not set"),
        (lambda m: m.get_output(1), "output 1: the network has 1"),
        (lambda m: m.get_output(0, np.zeros(3)), "has shape (3,)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(module: Any, call: Any, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(module)
    assert words in str(caught.value)


def test_parameters_must_be_set(native: tuple[NetworkPlan, Library]) -> None:
    with pytest.raises(ArgumentError, match="w1 is not set"):
        runtime.create(*native)(numbers((N, N), 9))


def test_a_profile_takes_at_least_one_run(module: NetworkModule) -> None:
    with pytest.raises(MeasureError):
        module.profile(numbers((N, N), 9), number=0)


def test_networks_run_on_the_cpu(native: tuple[NetworkPlan, Library]) -> None:
    with pytest.raises(ArgumentError, match="networks run on the CPU"):
        runtime.create(*native, runtime.Device("cuda"))


@pytest.mark.parametrize(
    ("argument", "place", "words"),
    [
        (0, Place("arena", 6 * 4 * N * N), "of an arena of"),
        (0, Place("arena", 4), "x is at byte 4"),
        (0, Place("arena", -64), "x is at byte -64"),
        (0, Place("input", 1), "x is input 1, which does not exist"),
        (0, Place("param", 1), "is given b1: float32[64]"),
        (0, Place("arena", 64), "y, which it writes, overlaps with x"),
        (1, Place("input", 0), "w is constant, but not a parameter"),
        (2, Place("input", 0), "it writes y to a place of space 'input'"),
    ],
)
def test_a_plan_that_does_not_fit_its_kernels_is_refused(
    native: tuple[NetworkPlan, Library], argument: int, place: Place, words: str
) -> None:
    plan, lib = native
    args = list(plan.calls[0].args)
    args[argument] = place
    calls = (replace(plan.calls[0], args=tuple(args)), *plan.calls[1:])
    with pytest.raises(BuildError, match="call 0 of dense") as caught:
        runtime.create(replace(plan, calls=calls), lib)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: {"calls": p.calls[:3]}, "output out: no call computes it"),
        (lambda p: {"calls": (replace(p.calls[0], kernel=7),)}, "no kernel 7"),
        (lambda p: {"calls": (replace(p.calls[0], args=()),)}, "takes 3 arguments, not 0"),
        (lambda p: {"inputs": p.params[:1]}, "2 inputs or parameters have this name"),
    ],
)
def test_an_incomplete_plan_is_refused(
    native: tuple[NetworkPlan, Library], change: Any, words: str
) -> None:
    plan, lib = native
    with pytest.raises(BuildError) as caught:
        runtime.create(replace(plan, **change(plan)), lib)
    assert words in str(caught.value)
