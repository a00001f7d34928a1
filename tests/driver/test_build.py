"""build(): what comes out runs, shows its sources, measures itself, refuses what does not fit."""

import pickle
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import DTYPES, ArgumentError, MeasureError

Array = np.ndarray[Any, Any]
TARGETS = ("llvm", "python")


def ones(*shape: int, dtype: str = "float32") -> Array:
    return np.ones(shape, dtype)


def refusal(act: Callable[[], Any], error: type[Exception] = ArgumentError) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def add_one(target: str = "llvm", shape: tuple[int, ...] = (4, 6)) -> tvm.Function:
    """C = A + 1"""
    A = te.placeholder(shape, name="A")
    C = te.compute(shape, lambda *i: A(*i) + 1.0, name="C")
    return tvm.build(te.create_schedule(C.op), [A, C], target, name="add_one")


@pytest.fixture(scope="module")
def f() -> tvm.Function:
    return add_one()


# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_are_written_in_place(target: str) -> None:
    a, c = np.arange(24, dtype="float32").reshape(4, 6), np.zeros((4, 6), "float32")
    assert add_one(target)(a, c) is None  # type: ignore[func-returns-value]
    np.testing.assert_array_equal(c, a + 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_copied_and_reversed(target: str, dtype: str) -> None:
    A = te.placeholder((20,), dtype, name="A")
    C = te.compute((20,), lambda i: A[19 - i], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[0], 8)[1])
    a = np.random.default_rng(0).integers(0, 2, 20).astype(dtype)
    c = np.zeros(20, dtype)
    tvm.build(s, [A, C], target)(a, c)
    np.testing.assert_array_equal(c, a[::-1])


@pytest.mark.parametrize("target", TARGETS)
def test_one_build_serves_all_sizes(target: str) -> None:
    n, m = te.size_var("n"), te.size_var("m")
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    C = te.compute((n, m), lambda i, j: A[i, j] + B[j], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], 8)[1])
    g = tvm.build(s, [A, B, C], target)
    for shape in ((1, 1), (3, 8), (5, 13), (0, 4), (2, 0)):
        a, b, c = ones(*shape), np.arange(shape[1], dtype="float32"), np.zeros(shape, "float32")
        g(a, b, c)
        np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("make", [te.var, te.size_var])
def test_a_symbolic_reduction_writes_its_own_rows_only(target: str, make: Any) -> None:
    """13 rows in parts of 8: the last three rows of the second part do not exist."""
    n = make("n")
    A = te.placeholder((n, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 8)
    memory = np.full(32, 99, "float32")
    tvm.build(s, [A, C], target)(ones(13, 6), memory[8:21])
    np.testing.assert_array_equal(memory, [99] * 8 + [6] * 13 + [99] * 11)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("factor", [1, 3, 4, 16, 64])
def test_nothing_outside_the_output_is_written(target: str, factor: int) -> None:
    A = te.placeholder((37,), name="A")
    C = te.compute((37,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[0], factor)[1])
    memory = np.full(37 + 128, 99, "float32")
    tvm.build(s, [A, C], target)(ones(37), memory[64:101])
    np.testing.assert_array_equal(memory, [99] * 64 + [2] * 37 + [99] * 64)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_arrays_of_no_elements_are_fine(target: str, shape: tuple[int, ...]) -> None:
    add_one(target, shape)(ones(*shape), ones(*shape))


@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_of_rank_zero_is_an_array_of_rank_zero(target: str) -> None:
    c = np.zeros((), "float32")
    add_one(target, ())(np.array(2, "float32"), c)
    assert c == 3


@pytest.mark.parametrize("target", TARGETS)
def test_a_scalar_is_passed_by_value(target: str) -> None:
    n = te.var("n")
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] * n, name="C")
    g = tvm.build(te.create_schedule(C.op), [n, A, C], target)
    c = np.zeros(4, "float32")
    for value in (3, -3, np.int64(7), np.int8(-1)):
        g(value, ones(4), c)
        np.testing.assert_array_equal(c, float(value))


@pytest.mark.parametrize("target", TARGETS)
def test_several_outputs_are_all_written(target: str) -> None:
    A = te.placeholder((4,), name="A")
    B, D = te.compute((4,), lambda i: (A[i] + 1.0, A[i] * 3.0), name="B")
    b, d = np.zeros(4, "float32"), np.zeros(4, "float32")
    tvm.build(te.create_schedule(B.op), [A, D, B], target)(ones(4), d, b)
    np.testing.assert_array_equal((b, d), ([2] * 4, [3] * 4))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("names", [("T", "T", "T"), ("lambda", "in", "np"), ("a b", "ü", "")])
def test_tensors_may_have_any_name(target: str, names: tuple[str, str, str]) -> None:
    A, B = te.placeholder((4,), name=names[0]), te.placeholder((4,), name=names[1])
    C = te.compute((4,), lambda i: A[i] + te.exp(B[i]), name=names[2])
    g = tvm.build(te.create_schedule(C.op), [A, B, C], target, name="my kernel")
    c = np.zeros(4, "float32")
    g(ones(4), np.zeros(4, "float32"), c)
    assert c.tolist() == [2, 2, 2, 2]


def test_building_leaves_the_schedule_as_it_was() -> None:
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    before = s.state
    tvm.build(s, [A, C])
    assert s.state is before


def test_a_lowered_program_can_be_built() -> None:
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] + 1.0, name="C")
    g = tvm.build(tvm.lower(te.create_schedule(C.op), [A, C], "late"))
    c = np.zeros(4, "float32")
    g(ones(4), c)
    assert (g.name, c.tolist()) == ("late", [2, 2, 2, 2])


def test_the_same_array_may_be_two_inputs() -> None:
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    C = te.compute((4,), lambda i: A[i] + B[i], name="C")
    a, c = ones(4), np.zeros(4, "float32")
    tvm.build(te.create_schedule(C.op), [A, B, C])(a, a, c)
    assert c.tolist() == [2, 2, 2, 2]


# --- threads -------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[None]:
    before = tvm.num_threads()
    yield
    tvm.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2"])
def test_a_parallel_loop_computes_the_same_with_any_number_of_threads(n: int, target: str) -> None:
    A = te.placeholder((37, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    B = te.compute((37, 64), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((37,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    s[C].parallel(outer)
    g = tvm.build(s, [A, C], target)
    a = np.random.default_rng(n).integers(-9, 9, (37, 64)).astype("float32")
    c = np.zeros(37, "float32")
    tvm.set_num_threads(n)
    for _ in range(3):
        g(a, c)
        np.testing.assert_array_equal(c, 2 * a.sum(axis=1))


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_is_what_was_set() -> None:
    tvm.set_num_threads(3)
    assert tvm.num_threads() == 3


# --- sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("tir", "def add_one(A: float32[4, 6], C: float32[4, 6]):"),
        ("python", "def add_one("),
        ("ll", "define"),
        ("asm", "add_one"),
    ],
)
def test_a_function_shows_what_it_was_made_from(f: tvm.Function, kind: str, holds: str) -> None:
    assert holds in f.source(kind)


def test_the_source_is_the_loops_if_no_kind_is_named(f: tvm.Function) -> None:
    assert f.source() == f.source("tir")


@pytest.mark.parametrize(
    ("target", "known"), [("llvm", "tir, python, ll, asm"), ("python", "tir, python")]
)
def test_a_source_that_a_target_has_not_is_refused(target: str, known: str) -> None:
    assert refusal(lambda: add_one(target).source("ptx")) == (
        f"source('ptx'): the function has no such source\n  try: one of {known}"
    )


def test_the_python_of_a_vectorized_function_has_plain_loops() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    assert "for i in range(8)" in tvm.build(s, [A, C]).source("python")


def test_the_python_of_a_function_is_that_of_the_schedule_when_it_was_built() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    g = tvm.build(s, [A, C])
    s[C].split(C.op.axis[0], 4)
    assert "outer" not in g.source("python")


def test_a_function_prints_as_its_signature(f: tvm.Function) -> None:
    assert repr(f) == "<minitvm function add_one(A: float32[4, 6], C: float32[4, 6])>"


# --- arguments -----------------------------------------------------------------------------------


def read_only() -> Array:
    a = ones(4, 6)
    a.setflags(write=False)
    return a


def unaligned() -> Array:
    return np.frombuffer(bytearray(97), "float32", 24, offset=1).reshape(4, 6)


c = np.zeros((4, 6), "float32")
overlap = np.zeros(30, "float32")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((c,), "add_one(A, C): takes 2 arguments, 1 given"),
        ((c, c, c), "add_one(A, C): takes 2 arguments, 3 given"),
        ((ones(4, 6, dtype="float64"), c), "add_one: argument A: has dtype float64, not float32\n"
         "  try: A.astype('float32')"),
        ((ones(4, 6, dtype=">f4"), c), "add_one: argument A: has dtype >f4, not float32\n"
         "  try: A.astype('float32')"),
        ((ones(24), c), "add_one: argument A: has 1 dimensions, not 2\n  try: reshape it"),
        ((ones(4, 7), c), "add_one: argument A: has shape (4, 7), not (4, 6)\n"
         "  try: arrays of the declared shape"),
        ((ones(4, 6), ones(6, 4)), "add_one: argument C: has shape (6, 4), not (4, 6)\n"
         "  try: make it with numpy.empty((4, 6), 'float32')"),
        ((ones(6, 4).T, c), "add_one: argument A: is not C-contiguous\n"
         "  try: numpy.ascontiguousarray(...)"),
        ((ones(4, 12)[:, ::2], c), "add_one: argument A: is not C-contiguous\n"
         "  try: numpy.ascontiguousarray(...)"),
        ((ones(4, 6), ones(8, 6)[::2]), "add_one: argument C: is not C-contiguous\n"
         "  try: make it with numpy.empty((4, 6), 'float32')"),
        ((unaligned(), c), "add_one: argument A: starts at an address that is not aligned\n"
         "  try: pass a copy"),
        ((ones(4, 6), read_only()), "add_one: argument C: is an output, but read-only\n"
         "  try: make it with numpy.empty((4, 6), 'float32')"),
        ((c, c), "add_one: argument C: is an output, but shares memory with A\n"
         "  try: separate arrays"),
        ((overlap[:24].reshape(4, 6), overlap[6:].reshape(4, 6)),
         "add_one: argument C: is an output, but shares memory with A\n  try: separate arrays"),
        ((c.tolist(), c), "argument A: is list, not an array\n  try: a numpy array"),
        ((1.0, c), "argument A: is float, not an array\n  try: a numpy array"),
        ((ones(4, 6), None), "argument C: is NoneType, not an array\n  try: a numpy array"),
    ],
    ids=["few", "many", "dtype", "byte order", "rank", "shape", "output shape", "transposed",
         "strided", "strided output", "unaligned", "read-only", "same", "overlapping", "list",
         "number", "none"],
)  # fmt: skip
def test_an_argument_that_does_not_fit_is_refused(
    f: tvm.Function, args: tuple[Any, ...], says: str
) -> None:
    assert refusal(lambda: f(*args)) == says


def test_a_scalar_input_may_be_a_number_of_numpy() -> None:
    x = te.placeholder((), name="x")
    C = te.compute((3,), lambda i: x() + 1.0, name="C")
    D = te.compute((), lambda: x() + 1.0, name="D")
    c = np.zeros(3, "float32")
    tvm.build(te.create_schedule(C.op), [x, C])(np.float32(3), c)
    assert (c == 4).all()
    g = tvm.build(te.create_schedule(D.op), [x, D])
    assert "argument D: is an output, but read-only" in refusal(lambda: g(c[0], c[1]))


def test_an_input_may_be_read_only(f: tvm.Function) -> None:
    f(read_only(), c)
    assert (c == 2).all()


@pytest.fixture(scope="module")
def sized() -> tvm.Function:
    """C[i, j] = A[i, j] + B[j], n x m"""
    n, m = te.size_var("n"), te.size_var("m")
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    C = te.compute((n, m), lambda i, j: A[i, j] + B[j], name="C")
    return tvm.build(te.create_schedule(C.op), [A, B, C])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((ones(2, 3), ones(4), ones(2, 3)), "main: B.shape[0]: is 4, not 3"),
        ((ones(2, 3), ones(3), ones(3, 3)), "main: C.shape[0]: is 3, not 2"),
        ((ones(3), ones(3), ones(2, 3)), "main: argument A: has 1 dimensions, not 2\n"
         "  try: reshape it"),
        ((ones(2, 3, dtype="int32"), ones(3), ones(2, 3)),
         "main: argument A: has dtype int32, not float32\n  try: A.astype('float32')"),
    ],
)  # fmt: skip
def test_sizes_that_contradict_each_other_are_refused(
    sized: tvm.Function, args: tuple[Any, ...], says: str
) -> None:
    assert refusal(lambda: sized(*args)) == says


def with_size(make: Any) -> tvm.Function:
    """C = A + 1 of n elements, n given as an argument"""
    n = make("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    return tvm.build(te.create_schedule(C.op), [n, A, C])


def test_a_size_that_is_given_is_compared_with_the_shapes() -> None:
    assert refusal(lambda: with_size(te.var)(5, ones(4), ones(4))) == (
        "main: A.shape[0]: is 4, not 5"
    )


@pytest.mark.parametrize(
    ("n", "says"),
    [
        (4.0, "main: argument n: is float, not an int\n  try: an int"),
        (ones(1), "main: argument n: is ndarray, not an int\n  try: an int"),
        (2**63, "main: argument n: is 9223372036854775808, which does not fit in 64 bits\n"
         "  try: a smaller int"),
    ],
)  # fmt: skip
def test_a_scalar_that_is_no_int_is_refused(n: Any, says: str) -> None:
    assert refusal(lambda: with_size(te.var)(n, ones(4), ones(4))) == says


def test_a_size_is_not_negative() -> None:
    n = te.size_var("n")
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] * n, name="C")
    g = tvm.build(te.create_schedule(C.op), [A, n, C])
    assert refusal(lambda: g(ones(4), -3, ones(4))) == "main: n = -3: is not in 0 .. inf"


class Foreign:
    """An array of another library, as seen through DLPack."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_read_and_written_in_place(f: tvm.Function) -> None:
    out = np.zeros((4, 6), "float32")
    f(Foreign(ones(4, 6)), Foreign(out))
    assert (out == 2).all()


def test_a_foreign_array_is_checked_like_any_other(f: tvm.Function) -> None:
    assert "is not C-contiguous" in refusal(lambda: f(Foreign(ones(6, 4).T), c))


class Elsewhere(Foreign):
    """An array in memory that a CPU does not reach."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it lives on another device")


def test_a_foreign_array_elsewhere_is_refused(f: tvm.Function) -> None:
    assert refusal(lambda: f(Elsewhere(ones(4, 6)), c)) == (
        "argument A: cannot be read in place: it lives on another device\n  try: a numpy array; "
        "of a tensor in bfloat16: x.view(torch.int16).numpy().view('bfloat16')"
    )


# --- time ----------------------------------------------------------------------------------------


def clock(step: float) -> Callable[[], float]:
    """A timer by which every look takes `step` seconds longer than the one before."""
    ticks = count(0)
    return lambda: next(ticks) ** 2 * step


def test_time_is_an_average_over_calls_and_one_entry_a_repeat(f: tvm.Function) -> None:
    times = f.time_evaluator(number=2, repeat=3, timer=clock(1.0))(ones(4, 6), c)
    assert times.results == (0.5, 2.5, 4.5)  # 1 - 0, 9 - 4, 25 - 16, each over 2 calls
    assert (times.min, times.median, times.mean) == (0.5, 2.5, 2.5)


def test_short_repeats_are_made_longer(f: tvm.Function) -> None:
    times = f.time_evaluator(number=1, repeat=1, min_repeat_ms=4000, timer=clock(1.0))(
        ones(4, 6), c
    )
    assert times.results[0] < 5.0  # the repeat that lasted 5 seconds made more than one call


def test_times_print_in_milliseconds(f: tvm.Function) -> None:
    times = f.time_evaluator(number=2, repeat=3, timer=clock(1.0))(ones(4, 6), c)
    assert str(times) == "median 2500 ms, min 500 ms of 3"


@pytest.mark.parametrize("options", [{"name": "other"}, {"number": 0}, {"repeat": 0}])
def test_a_measurement_without_meaning_is_refused(f: tvm.Function, options: dict[str, Any]) -> None:
    assert "the function is 'add_one'; number and repeat must be ints of at least 1" in refusal(
        lambda: f.time_evaluator(**options), MeasureError
    )


def test_a_measurement_checks_its_arguments(f: tvm.Function) -> None:
    assert refusal(lambda: f.time_evaluator()(c)) == "add_one(A, C): takes 2 arguments, 1 given"


# --- targets -------------------------------------------------------------------------------------


def test_a_target_is_read_from_its_text() -> None:
    t = tvm.Target("llvm -mcpu=znver3 -mattr=+avx2,-avx512f -num-cores=4")
    assert (t.kind, t.mcpu, t.mattr, t.num_cores) == ("llvm", "znver3", "+avx2,-avx512f", 4)


@pytest.mark.parametrize(
    "text", ["llvm", "python", "llvm -mcpu=generic -num-cores=3", "llvm -unroll=0"]
)
def test_a_target_survives_its_text_and_pickling(text: str) -> None:
    t = tvm.Target(text)
    assert tvm.Target(str(t)) == tvm.Target(t) == pickle.loads(pickle.dumps(t)) == t


def test_the_current_target_is_the_default_of_all_that_take_one() -> None:
    A = te.placeholder((4, 64), name="A")
    C = topi.relu(A)
    assert topi.schedule(C).steps
    with tvm.target.Target("python"):
        s = topi.schedule(C)
        f = tvm.build(s, [A, C])
        assert "def main" in f.source("python")
        assert not s.steps
        assert topi.schedule(C, "llvm").steps
        assert "vectorize" in str(tvm.lower(topi.schedule(C, "llvm"), [A, C]))
    assert refusal(lambda: f.source("asm")).startswith("source('asm')")


def test_a_vector_holds_as_many_elements_as_fit() -> None:
    t = tvm.Target("llvm -mattr=-avx512f,+avx2")
    assert (t.lanes(DTYPES["float32"]), t.lanes(DTYPES["int8"])) == (8, 32)


OPTIONS = "\n  try: -mcpu=NAME, -mattr=+a,-b, -num-cores=N or -unroll=0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("opencl", "target 'opencl': no such kind of target"),
        ("", "target '': no such kind of target"),
        ("llvm -O3", "target 'llvm -O3': '-O3': no such option" + OPTIONS),
        ("llvm -mcpu", "target 'llvm -mcpu': '-mcpu': the value is missing" + OPTIONS),
        ("llvm -num-cores=0",
         "target 'llvm -num-cores=0': '-num-cores=0': not a number of cores" + OPTIONS),
        ("llvm -num-cores=x",
         "target 'llvm -num-cores=x': '-num-cores=x': not a number of cores" + OPTIONS),
        ("llvm -unroll=2", "target 'llvm -unroll=2': '-unroll=2': not 0 or 1" + OPTIONS),
        ("llvm -unroll", "target 'llvm -unroll': '-unroll': the value is missing" + OPTIONS),
        ("numba -unroll=0", "target 'numba -unroll=0': '-unroll=0': the target numba has no such"),
    ],
)  # fmt: skip
def test_a_target_that_is_none_is_refused(text: str, says: str) -> None:
    assert refusal(lambda: tvm.Target(text)).startswith(says)


# --- arrays --------------------------------------------------------------------------------------


def test_an_array_is_a_contiguous_copy() -> None:
    a = ones(4, 6)
    made = tvm.nd.array(a.T)
    made[:] = 5
    assert (made.shape, made.flags.c_contiguous, a.sum()) == ((6, 4), True, 24)


def test_arrays_under_the_names_of_tvm_are_arguments(f: tvm.Function) -> None:
    a, out = tvm.nd.array(ones(4, 6), tvm.cpu(0)), tvm.nd.empty((4, 6), ctx=tvm.cpu(0))
    f(a, out)
    assert type(out.numpy()) is np.ndarray
    assert (out.asnumpy() == 2).all()


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_a_masked_array_is_refused_with_its_mask(target: str) -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1, name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B], target)
    a, b = np.ma.array(np.ones(3, "float32"), mask=[0, 1, 0]), np.zeros(3, "float32")
    says = r"argument A: is a masked array, .*\n  try: A.filled\(0\), or A.data"
    with pytest.raises(ArgumentError, match=says):
        f(a, b)
    f(a.filled(0), b)
    assert b.tolist() == [2, 1, 2]


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
def test_names_may_be_long_and_differ_at_the_end(target: str) -> None:
    name = "x" * 5000
    A = te.placeholder((3,), name=f"{name}A")
    B = te.compute((3,), lambda i: A[i] + 1, name=f"{name}B")
    C = te.compute((3,), lambda i: A[i] + B[i], name=f"{name}C")
    f = tvm.build(te.create_schedule(C.op), [A, C], target, name=name)
    a, c = np.ones(3, "float32"), np.zeros(3, "float32")
    f(a, c)
    assert c.tolist() == [3, 3, 3]


def test_an_array_is_overwritten_by_copyfrom() -> None:
    assert tvm.nd.empty((2,), "int32").copyfrom([1.5, -2.7]).tolist() == [1, -2]


@pytest.mark.parametrize(
    "act", [lambda: tvm.nd.array(ones(2, dtype="complex64")), lambda: tvm.nd.empty(2, "complex64")]
)
def test_an_array_of_an_unknown_dtype_is_refused(act: Callable[[], Any]) -> None:
    assert refusal(act, tvm.ExprError).startswith("dtype 'complex64': there is no such type")


def test_an_array_on_a_device_that_is_not_there_is_refused() -> None:
    assert refusal(lambda: tvm.nd.array(ones(2), tvm.Device("cuda"))) == (
        "array on cuda(0): arrays are in main memory only\n  try: cpu(0)"
    )


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
def test_remarks_of_a_user_change_nothing(target: str) -> None:
    """On loops of every kind, and on those in which another stage is computed."""
    A, B = te.placeholder((20, 12), name="A"), te.placeholder((12, 8), name="B")
    D = te.compute((20, 12), lambda i, j: A[i, j] + 1.0, name="D")
    k = te.reduce_axis((0, 12), name="k")
    C = te.compute((20, 8), lambda i, j: te.sum(D[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 8)
    s[C].reorder(io, k, ii, C.op.axis[1])
    s[C].parallel(io)
    s[C].unroll(ii)
    s[C].vectorize(C.op.axis[1])
    s[D].compute_at(s[C], io)
    for stage in (s[C], s[D]):
        for loop in stage.leaf_iter_vars:
            stage.pragma(loop, "lab.mark", "here")
    a, b = np.random.default_rng(0).random((20, 12)), np.random.default_rng(1).random((12, 8))
    c = np.zeros((20, 8), "float32")
    f = tvm.build(s, [A, B, C], target)
    f(a.astype("float32"), b.astype("float32"), c)
    np.testing.assert_allclose(c, (a + 1) @ b, rtol=1e-5)
    assert "# pragma lab.mark = 'here'" in f.source("tir")
