"""Unsigned types on every target: each operator gives what numpy gives."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ExprError
from minitvm.tir import truncdiv, truncmod

KINDS = ["uint8", "uint16", "uint32", "uint64"]
TARGETS = ["llvm", "vectors", "numba", "python"]
Results = dict[str, np.ndarray[Any, Any]]
FORMULAS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "truncdiv": truncdiv,
    "truncmod": truncmod,
    "min": tir.min,
    "max": tir.max,
    "<": lambda a, b: a < b,
    "& |": lambda a, b: (a & b) | (a ^ b),
    ">>": lambda a, b: a >> (b % 64),
    "<<": lambda a, b: a << (b % 64),
    "//3": lambda a, _: a // 3,
    "%8": lambda a, _: a % 8,
    ">>1": lambda a, _: a >> 1,
    "+1": lambda a, _: a + 1,
    "abs": lambda a, _: abs(a),
    "float64": lambda a, b: a.astype("float64") + b.astype("float32"),
    "from above": lambda a, _: (a.astype("float64") * 1.5).astype(a.dtype),
    "from below": lambda a, _: (0.5 - a.astype("float32")).astype(a.dtype),
    "int32": lambda a, _: a.astype("int32"),
    "from int32": lambda a, b: (a.astype("int32") - b.astype("int32")).astype(a.dtype),
}


def numbers(kind: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pairs of numbers of every size, both ends of the type among them."""
    rng, top = np.random.default_rng(0), int(np.iinfo(kind).max)
    ends = [0, 1, 2, 3, top, top - 1, top // 2, top // 2 + 1]
    a = np.array([*ends, *(int(top * x**8) for x in rng.random(24))], kind)
    return a, rng.permutation(a)


def stages(kind: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """A schedule of all formulas, each an output, and its arguments."""
    shape = numbers(kind)[0].shape
    A, B = te.placeholder(shape, kind, name="A"), te.placeholder(shape, kind, name="B")

    def output(formula: Callable[[Any, Any], Any]) -> te.Tensor:
        return te.compute(shape, lambda i: formula(A[i], B[i]), name="C")

    outs = list(map(output, FORMULAS.values()))
    return te.create_schedule([C.op for C in outs]), [A, B, *outs]


def results(run: Callable[..., Any], kind: str, args: list[te.Tensor]) -> Results:
    """What each formula is, by name."""
    a, b = numbers(kind)
    outs = [np.zeros(a.shape, C.dtype) for C in args[2:]]
    run(a, b, *outs)
    return dict(zip(FORMULAS, outs, strict=True))


@cache
def interpreted(kind: str) -> Results:
    s, args = stages(kind)
    f = tvm.lower(s, args)
    return results(lambda *arrays: tir.interpret(f, *arrays), kind, args)


def built(target: str, kind: str) -> Results:
    s, args = stages(kind)
    if target == "vectors":
        for C in args[2:]:
            _, inner = s[C].split(s[C].op.axis[0], factor=8)
            s[C].vectorize(inner)
    return results(tvm.build(s, args, "llvm" if target == "vectors" else target), kind, args)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_operators_agree_with_the_interpreter(target: str, kind: str) -> None:
    out, expected = built(target, kind), interpreted(kind)
    for name in FORMULAS:
        np.testing.assert_array_equal(out[name], expected[name], name)


@pytest.mark.parametrize("kind", KINDS)
def test_operators_are_those_of_numpy(kind: str) -> None:
    a, b = numbers(kind)
    with np.errstate(all="ignore"):
        for name in ("+", "-", "*", "//", "%", "<", "& |", "//3", "%8", ">>1"):
            np.testing.assert_array_equal(interpreted(kind)[name], FORMULAS[name](a, b), name)


def test_an_index_beside_an_unsigned_value_takes_its_type_if_that_can_hold_it() -> None:
    U, V = te.placeholder((8,), "uint32", name="U"), te.placeholder((8,), "uint64", name="V")
    i = tir.Var("i", 0, 7)
    assert (U[i] + i).dtype == "uint32"
    assert (U[i] + (i - 1)).dtype == "int64"
    assert (V[i] + i).dtype == "uint64"


def test_a_uint64_and_a_signed_integer_have_no_common_type() -> None:
    V = te.placeholder((8,), "uint64", name="V")
    with pytest.raises(ExprError, match="int32 with uint64: no integer type represents"):
        te.compute((8,), lambda i: V[i] + (i - 1), name="C")


INDICES: list[Callable[[te.Tensor, Any], Any]] = [
    lambda at, i: at[i],
    lambda at, i: tir.if_then_else(i < 3, at[i], tir.const(2**64 - 1, "uint64")),
    lambda at, i: tir.select(i > 0, at[i], at[0]),
]


@pytest.mark.parametrize("index", INDICES, ids=["element", "if_then_else", "select"])
def test_a_uint64_as_an_index_is_clipped_as_the_int64_of_its_bits(
    index: Callable[[te.Tensor, Any], Any],
) -> None:
    V, at = te.placeholder((8,), name="V"), te.placeholder((4,), "uint64", name="at")
    C = te.compute((4,), lambda i: V[index(at, i)], name="C")
    v, indices = np.arange(8, dtype="float32"), np.array([0, 7, 100, 2**64 - 1], "uint64")
    schedule = te.create_schedule(C.op)
    for target in ("llvm", "numba", "python"):
        out = np.zeros(4, "float32")
        tvm.build(schedule, [V, at, C], target)(v, indices, out)
        assert out.tolist() == [0, 7, 7, 0]
    out = np.zeros(4, "float32")
    tir.interpret(tvm.lower(schedule, [V, at, C]), v, indices, out)
    assert out.tolist() == [0, 7, 7, 0]
