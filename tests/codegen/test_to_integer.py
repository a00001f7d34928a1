"""Floats become integers: all limits and NaN in each type, and few instructions for vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import DTYPES, INT32, host

TARGETS = ["llvm -num-cores=1", "python"]
INTEGERS = [str(d) for d in DTYPES.values() if d.is_integer]
Array = np.ndarray[Any, Any]
needs_avx512 = pytest.mark.skipif("avx512f" not in host().features, reason="needs AVX-512")


def mapped(f: Callable[[Any], Any], n: int, dtype: str, lanes: int) -> tuple[Any, list[te.Tensor]]:
    """Return the schedule and arguments of y[i] = f(x[i]), in vectors of `lanes`."""
    x = te.placeholder((n,), dtype, name="x")
    y = te.compute((n,), lambda i: f(x(i)), name="y")
    s = te.create_schedule(y.op)
    if lanes > 1:
        s[y].vectorize(s[y].split(y.op.axis[0], factor=lanes)[1])
    return s, [x, y]


def run(f: Callable[[Any], Any], values: Array, target: str, lanes: int) -> Array:
    s, (x, y) = mapped(f, len(values), str(values.dtype), lanes)
    got = np.zeros(len(values), y.dtype)
    tvm.build(s, [x, y], target)(values, got)
    return got


def corners(dtype: str) -> Array:
    """Halves, the ends of all integer types and their neighbours, infinities and NaN."""
    ends = np.array([d.low for d in DTYPES.values()] + [d.high for d in DTYPES.values()], dtype)
    near = np.nextafter(ends, np.zeros(1, dtype))
    halves = np.arange(-300, 300, 0.25, dtype)
    values = np.concatenate([ends, near, ends + np.array(0.5, dtype), halves, [np.nan]])
    return np.resize(values, -(-len(values) // 16) * 16).astype(dtype)


def saturated(x: Array, to: str) -> Array:
    """Convert whole numbers to integers as Python does; NaN gives 0."""
    low, high = DTYPES[to].low, DTYPES[to].high
    inside = [0 if np.isnan(v) else low if v <= low else high if v >= high else int(v) for v in x]
    return np.array(inside, to)


@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_truncating_and_rounding_saturate(dtype: str, to: str, lanes: int) -> None:
    x = corners(dtype)
    for target in TARGETS:
        got = run(lambda v: v.astype(to), x, target, lanes)
        np.testing.assert_array_equal(got, saturated(np.trunc(x), to))
        got = run(lambda v: te.round(v).astype(to), x, target, lanes)
        np.testing.assert_array_equal(got, saturated(np.rint(x), to))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_limits_in_the_formula_change_no_result(dtype: str, target: str) -> None:
    x = corners(dtype)
    for low, high in [(0.0, 255.0), (-3e9, 10.5), (-7.25, 1e10)]:

        def limited(v: Any, low: float = low, high: float = high) -> Any:
            return te.round(te.min(te.max(v, low), high)).astype("int32")

        want = saturated(np.rint(np.minimum(np.maximum(x, low), high)), "int32")
        np.testing.assert_array_equal(run(limited, x, target, 16), want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("narrow", ["uint8", "uint16", "int8"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float_may_pass_through_integers(dtype: str, narrow: str, target: str) -> None:
    x = corners(dtype)
    got = run(lambda v: v.astype(narrow).astype(dtype), x, target, 16)
    np.testing.assert_array_equal(got, saturated(np.trunc(x), narrow).astype(dtype))
    assert not np.signbit(got[got == 0]).any()
    got = run(lambda v: (te.round(v) + 2).astype(narrow).astype(dtype), x, target, 16)
    np.testing.assert_array_equal(got, saturated(np.rint(x) + 2, narrow).astype(dtype))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("n", [3, -200, 65535])
def test_a_whole_number_may_be_added_before_the_conversion(n: int, to: str, target: str) -> None:
    x = corners("float32")
    got = run(lambda v: (te.round(v) + n).astype(to), x, target, 16)
    np.testing.assert_array_equal(got, saturated(np.rint(x) + np.float32(n), to))


FORMULAS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "truncate": (
        lambda v: v.astype("int32"),
        ["vmaxps", "vcmpltps", "vcvttps2dq", "vcmpordps", "vmovdqa32"],
    ),
    "bytes": (
        lambda v: te.round(v).astype("uint8"),
        ["vmaxps", "vminps", "vcvtps2dq", "vpmovdb"],
    ),
    "zero point": (
        lambda v: (te.round(v) + 3).astype("uint8"),
        ["vmaxps", "vminps", "vcvtps2dq", "vpmovdb", "vpaddb"],
    ),
    "limited": (
        lambda v: te.round(te.min(te.max(v, 0.0), 255.0)).astype("int32"),
        ["vmaxps", "vminps", "vcmpordps", "vcvtps2dq", "vmovdqa32"],
    ),
    "through bytes": (
        lambda v: te.round(v).astype("uint8").astype("float32"),
        ["vrndscaleps", "vmaxps", "vminps"],
    ),
}


@needs_avx512
@pytest.mark.parametrize("name", FORMULAS)
def test_vectors_are_converted_by_few_instructions(name: str) -> None:
    f, want = FORMULAS[name]
    target = "llvm -mcpu=skylake-avx512 -unroll=0 -num-cores=1"
    s, args = mapped(f, 1024, "float32", 16)
    assembly = tvm.build(s, args, target).source("asm")
    loops = re.findall(r"^\.LBB\w+:\n((?:\t[^j].*\n)+)\tj", assembly, flags=re.MULTILINE)
    names = [line.split()[0] for line in max(loops, key=len).splitlines()]
    moves = ("vmovups", "vmovaps", "vmovdqu", "vmovdqu64")
    assert sorted(n for n in names if n[0] == "v" and n not in moves) == sorted(want)


def test_the_range_of_int32_needs_no_limit_after_the_formula_has_set_it() -> None:
    def count(f: Callable[[Any], Any]) -> int:
        s, args = mapped(f, 16, "float32", 16)
        return tvm.build(s, args, "llvm -num-cores=1").source("ll").count("select")

    assert count(lambda v: v.astype(INT32)) == 3
    assert count(lambda v: te.max(te.min(v, 9.0), 0.0).astype(INT32)) == 1  # for NaN
