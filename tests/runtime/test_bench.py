"""A bench compares outputs, guards its arrays, and measures only as long as it must."""

import ctypes
import itertools
import math
import sys
import time

import numpy as np
import pytest

from minitvm.runtime.aligned import Array
from minitvm.runtime.bench import Argument, Bench, Call, Job, clocked, difference, timed
from minitvm.runtime.guarded import damaged, frozen, guarded
from minitvm.runtime.jit import compile_ir

# void f(float *x, float *y) { *y = *x; }, and a function that packs a constant: p = c + 1
COPY = """
define i32 @f(ptr %x, ptr %y) {
 %v = load float, ptr %x
 store float %v, ptr %y
 ret i32 0
}"""
ADD = """
define i32 @f(ptr %c, ptr %y, ptr %p) {
 %v = load float, ptr %p
 store float %v, ptr %y
 ret i32 0
}"""
PACK = """
define i32 @pack(ptr %c, ptr %p) {
 %v = load float, ptr %c
 %w = fadd float %v, 1.0
 store float %w, ptr %p
 ret i32 0
}"""


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (16,), (1024,), (1000, 1000), ()])
def test_guarded_arrays_start_at_a_cache_line(shape: tuple[int, ...]) -> None:
    a = guarded(shape, np.dtype("float32"))
    assert a.shape == shape
    assert a.ctypes.data % 64 == 0
    a[...] = 1
    assert a.sum() == a.size
    assert not damaged(a)
    room = -a.nbytes % 64
    assert sys.platform == "win32" or (a.ctypes.data + a.nbytes + room) % 4096 == 0
    if room:
        ctypes.memset(a.ctypes.data + a.nbytes, 0, 1)
        assert damaged(a)
        assert not damaged(a)


def test_a_frozen_array_has_the_same_elements() -> None:
    a = np.arange(7.0)
    assert frozen(a).tolist() == a.tolist()
    with pytest.raises(ValueError, match="read-only"):
        frozen(a)[0] = 1


def f32(*values: float) -> Array:
    return np.array(values, "float32")


@pytest.mark.parametrize(
    ("got", "expected", "right"),
    [
        (f32(1, 2), f32(1, 2), True),
        (f32(1, 2.0019), f32(1, 2), True),
        (f32(1, 2.003), f32(1, 2), False),
        (f32(0.0009, 2), f32(0, 2), True),
        (f32(0.0019, 2), f32(0, 2), False),  # the limit of the other element does not count
        (f32(1, math.nan), f32(1, 2), False),
        (f32(1, math.inf), f32(1, 2), False),
        (f32(), f32(), True),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([10_000_000, 2]), np.array([10_000_001, 2]), False),
        (np.array([True]), np.array([False]), False),
    ],
)
def test_each_element_has_a_limit_of_its_own(got: Array, expected: Array, right: bool) -> None:
    limits = np.array([0.001, 0.002])[: len(got)]
    assert (difference(got, expected, limits) == "") is right


def test_a_difference_names_the_worst_element() -> None:
    got, expected, limits = f32(1, 2, 5), f32(1, 3, 3), np.array([0, 0.1, 0.3])
    found = difference(got, expected, limits)
    assert found == "[2] is 5.0 instead of 3.0; an error of 0.3 is allowed"


def busy(seconds: float) -> Call:
    def call() -> int:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        return 0

    return call


def test_a_slow_program_is_stopped_after_one_call() -> None:
    slow = Job(entry="", best=1e-4, early_stop=3.0, cpu_clock=False)
    seconds, calls = timed(clocked(itertools.repeat(busy(0.001)), slow.clock), slow)
    assert calls == 1
    assert seconds[0] >= 0.001


def test_a_fast_program_is_measured_until_the_time_is_over() -> None:
    job = Job(entry="", number=5, seconds=10.0, repeat=2, cpu_clock=False)
    seconds, calls = timed(clocked(itertools.repeat(busy(0.001)), job.clock), job)
    assert len(seconds) == 2
    assert calls == 1 + 2 * 5
    ends = Job(entry="", number=1000, seconds=0.01, cpu_clock=False)
    assert timed(clocked(itertools.repeat(busy(0.001)), ends.clock), ends)[1] <= 1 + 10


def test_short_calls_are_measured_together() -> None:
    job = Job(entry="", number=2, cpu_clock=False)
    assert timed(clocked(itertools.repeat(lambda: 0), job.clock), job)[1] > 50


def arguments(*kinds: str) -> list[Argument]:
    return [Argument(kind, f"x{n}", "float32", (1,)) for n, kind in enumerate(kinds)]  # type: ignore[arg-type]


NONE = np.zeros(1).tobytes()  # the largest error of one element


def test_a_program_runs_on_the_given_inputs() -> None:
    code = compile_ir(COPY).object
    bench = Bench(arguments("input", "output"), [f32(3).tobytes(), f32(3).tobytes(), NONE])
    right = bench.run(Job(entry="f", check=True, outputs=True), [code])
    assert right.error == ""
    assert right.outputs == (f32(3).tobytes(),)
    bench = Bench(arguments("input", "output"), [f32(3).tobytes(), f32(4).tobytes(), NONE])
    assert bench.run(Job(entry="f", check=True), [code]).error == "wrong answer"
    assert bench.run(Job(entry="f"), [code]).error == ""
    assert bench.run(Job(entry="g"), [code]).error == "compile"


@pytest.mark.parametrize("cold", [0, 1000, 1 << 40])  # bytes: one constant has four
def test_constants_are_packed(cold: int) -> None:
    code = [compile_ir(ADD).object, compile_ir(PACK).object]
    bench = Bench(arguments("input", "output"), [f32(3).tobytes(), f32(4).tobytes(), NONE])
    job = Job(
        entry="f",
        constants=(0,),
        packed=(("float32", 1),),
        pack="pack",
        check=True,
        cold=cold,
        outputs=True,
    )
    found = bench.run(job, code)
    assert (found.error, found.outputs) == ("", (f32(4).tobytes(),))
