"""dot4: four products of bytes added to an int32, in every kind of code."""

import re
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm.base import INT8, INT32, UINT8, DType, ExprError, VerifyError, host
from minitvm.base.host import VPDPBUSD, dot2_instructions, dot4_instructions
from minitvm.codegen import emit_llvm
from minitvm.runtime.jit import LLVMSource
from minitvm.tir import (
    DOT4,
    Buffer,
    Call,
    For,
    Index,
    PrimFunc,
    Stmt,
    Store,
    Var,
    add,
    const,
    dot4,
    interpret,
    lane,
    load,
    mul,
    text,
    verify,
)

Arrays = tuple[np.ndarray[Any, Any], ...]
ARM = "neon" in host().features
WITHOUT = f"llvm -num-cores=1 -mattr={'-dotprod,-i8mm' if ARM else '-avx512vnni,-avxvnni'}"
NARROW = f"llvm -num-cores=1 -mattr={'-i8mm' if ARM else '-avx512f'}"
INSTRUCTION = re.compile(r"\b(vpdpbusd|sdot|udot|usdot)\b")
has_vnni = pytest.mark.skipif(VPDPBUSD[0] not in tvm.Target().dot4, reason="needs VNNI")
Types = tuple[DType, DType]
each_types = pytest.mark.parametrize("types", DOT4.values(), ids=list(DOT4))


def program(
    lanes: int, body: Callable[[Buffer, Buffer, Buffer], Stmt], types: Types = (UINT8, INT8)
) -> PrimFunc:
    """A function of A and B, with four bytes a lane, and C (int32)."""
    a, b = (Buffer(name, (4 * lanes,), kind) for name, kind in zip("AB", types, strict=True))
    c = Buffer("C", (lanes,), INT32)
    return PrimFunc("f", (a, b, c), body(a, b, c), (c,))


def step(a: Buffer, b: Buffer, c: Buffer, i: Index, start: Index) -> Store:
    """c[i] = dot4(c[i], a[start : start + 4], b[i*4 : i*4 + 4])"""
    x = [load(a, add(start, n)) for n in range(4)]
    y = [load(b, add(mul(i, 4), n)) for n in range(4)]
    return Store(c, (i,), dot4(load(c, i), x, y))


def by_lanes(lanes: int, same: bool = True, types: Types = (UINT8, INT8)) -> PrimFunc:
    """All lanes at once, with the same four bytes of A for all, or four for each."""

    def body(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        i = lane(lanes)
        return step(a, b, c, i, 4 if same else mul(i, 4))

    return program(lanes, body, types)


def by_loop(lanes: int, types: Types = (UINT8, INT8)) -> PrimFunc:
    """One lane after the other, each with its four bytes of A."""
    i = Var("i", 0, lanes - 1)
    return program(lanes, lambda a, b, c: For(i, lanes, step(a, b, c, i, mul(i, 4))), types)


def numbers(lanes: int, types: Types = (UINT8, INT8)) -> Arrays:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, 4 * lanes, "uint8").view(kind) for kind in types)
    a.view("uint8")[:8], b.view("uint8")[:8] = 255, 128
    c = rng.integers(-(2**31), 2**31, lanes).astype("int32")
    c[:2] = -(2**31)  # which wraps
    return a, b, c


def wanted(arrays: Arrays, same: bool = False) -> np.ndarray[Any, Any]:
    a, b, c = (x.astype("int64") for x in arrays)
    fours = np.broadcast_to(a[4:8], (len(c), 4)) if same else a.reshape(-1, 4)
    return (c + (fours * b.reshape(-1, 4)).sum(1)).astype("int32")


# --- what it means -------------------------------------------------------------------------------


def test_it_prints_as_a_call() -> None:
    x, y = Buffer("x", (4,), UINT8), Buffer("y", (4,), INT8)
    made = dot4(0, [load(x, n) for n in range(4)], [load(y, n) for n in range(4)])
    assert text(made) == "dot4(0, x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3])"


@each_types
@pytest.mark.parametrize("form", [by_loop, partial(by_lanes, same=False)], ids=["loop", "lanes"])
def test_the_interpreter_wraps_as_int32_does(form: Callable[..., PrimFunc], types: Types) -> None:
    arrays = numbers(16, types)
    want = wanted(arrays)
    interpret(form(16, types=types), *arrays)
    np.testing.assert_array_equal(arrays[2], want)


@each_types
@pytest.mark.parametrize("target", ["llvm", WITHOUT, "python", "numba -num-cores=1"])
def test_a_loop_computes_it_on_every_target(target: str, types: Types) -> None:
    arrays = numbers(16, types)
    want = wanted(arrays)
    tvm.build(by_loop(16, types), target=target)(*arrays)
    np.testing.assert_array_equal(arrays[2], want)


@each_types
@pytest.mark.parametrize("target", ["llvm", NARROW, WITHOUT])
def test_vectors_of_all_types_compute_it(target: str, types: Types) -> None:
    arrays = numbers(24, types)
    want = wanted(arrays)
    tvm.build(by_lanes(24, same=False, types=types), target=target)(*arrays)
    np.testing.assert_array_equal(arrays[2], want)


@each_types
@pytest.mark.parametrize("lanes", [4, 16, 24])
@pytest.mark.parametrize("target", ["llvm", NARROW, WITHOUT])
def test_the_four_bytes_of_a_lane_may_be_in_four_vectors(
    target: str, lanes: int, types: Types
) -> None:
    def body(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        x, y = ([load(t, add(lane(lanes), n * lanes)) for n in range(4)] for t in (a, b))
        return Store(c, (lane(lanes),), load(c, lane(lanes)) + dot4(0, x, y))

    arrays = a, b, c = numbers(lanes, types)
    fours = *(np.ascontiguousarray(x.reshape(4, -1).T).reshape(-1) for x in (a, b)), c
    want = wanted(fours)
    tvm.build(program(lanes, body, types), target=target)(*arrays)
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("same", [True, False], ids=["one four for all", "a four for each"])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 24, 64])
@pytest.mark.parametrize("target", ["llvm", NARROW, WITHOUT])
def test_vectors_of_any_length_compute_it(target: str, lanes: int, same: bool) -> None:
    arrays = numbers(lanes)
    want = wanted(arrays, same)
    tvm.build(by_lanes(lanes, same), target=target)(*arrays)
    np.testing.assert_array_equal(arrays[2], want)


@pytest.mark.parametrize("target", ["llvm", WITHOUT])
def test_bytes_that_lie_apart_are_put_together(target: str) -> None:
    def body(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        i = lane(16)
        x, y = ([load(t, add(i, 16 * n)) for n in range(4)] for t in (a, b))
        return Store(c, (i,), dot4(load(c, i), x, y))

    arrays = numbers(16)
    a, b, c = (x.astype("int64") for x in arrays)
    want = (c + (a * b).reshape(4, 16).sum(0)).astype("int32")
    tvm.build(program(16, body), target=target)(*arrays)
    np.testing.assert_array_equal(arrays[2], want)


# --- the instruction -----------------------------------------------------------------------------


@has_vnni
@pytest.mark.parametrize("lanes", [8, 16, 64])
def test_it_is_one_instruction_for_a_vector(lanes: int) -> None:
    target = tvm.Target()
    widest = next(d.lanes for d in target.dot4 if lanes % d.lanes == 0)
    assembly = tvm.build(by_lanes(lanes), target=target).source("asm")
    assert assembly.count("vpdpbusd") == lanes // widest


@pytest.mark.parametrize(
    ("cpu", "types", "instructions"),
    [
        ("apple-m1", (INT8, INT8), {"sdot": 4}),
        ("apple-m1", (UINT8, UINT8), {"udot": 4}),
        ("apple-m1", (UINT8, INT8), {"sdot": 8, "eor": 1, "sub": 4}),
        ("neoverse-v1", (UINT8, INT8), {"usdot": 4}),
    ],
)
def test_on_arm_it_is_the_instruction_for_its_types(
    cpu: str, types: Types, instructions: dict[str, int]
) -> None:
    dot4 = tvm.Target(f"llvm -mcpu={cpu}").dot4
    text = emit_llvm(by_lanes(16, types=types), dot4=dot4)
    source = LLVMSource(text, cpu, "", triple="aarch64-unknown-linux-gnu")
    lines = source.made("asm").decode().splitlines()
    counts = Counter(line.split()[0] for line in lines if line)
    for name in ("sdot", "udot", "usdot", "eor", "sub"):
        assert counts[name] == instructions.get(name, 0), name


def test_without_the_feature_there_is_no_such_instruction() -> None:
    assert not INSTRUCTION.search(tvm.build(by_lanes(16), target=WITHOUT).source("asm"))


@pytest.mark.parametrize(
    ("cpu", "products"), [("nehalem", 8), ("haswell", 4), ("skylake-avx512", 2)]
)
@each_types
def test_without_it_bytes_are_multiplied_as_pairs_of_int16(
    cpu: str, products: int, types: Types
) -> None:
    target = tvm.Target(f"llvm -mcpu={cpu}")
    text = emit_llvm(by_lanes(16, types=types), dot4=target.dot4, dot2=target.dot2)
    assembly = LLVMSource(text, cpu, "", triple="x86_64-unknown-linux-gnu").made("asm").decode()
    assert len(re.findall(r"\tv?pmaddwd\t", assembly)) == products
    assert "pmulld" not in assembly


def test_operands_are_loaded_as_numbers_of_32_bits() -> None:
    code = emit_llvm(by_lanes(16), dot4=(VPDPBUSD[0],))
    assert code.count("load <16 x i32>") == 2  # c and b
    assert code.count("load i32") == 1  # a, for all lanes


def test_a_sum_with_a_dot4_from_zero_is_one_dot4() -> None:
    def body(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        i = lane(16)
        x, y = ([load(t, add(mul(i, 4), n)) for n in range(4)] for t in (a, b))
        return Store(c, (i,), load(c, i) + dot4(0, x, y))

    code = emit_llvm(program(16, body), dot4=(VPDPBUSD[0],))
    assert " add <" not in code


BASE = frozenset(["sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c"])
ALL = BASE | {"avx512f", "avx512vl", "avx512vnni"}


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        (ALL, (16, 8, 4)),
        (ALL - {"avx512vl"}, (16,)),
        (ALL - {"avx512vnni"}, ()),
        (ALL - {"avx512f"} | {"avxvnni"}, (8, 4)),
        (ALL - {"avx2"} | {"avxvnni"}, ()),
        (ALL | {"avxvnni"}, (16, 8, 4)),
        ({"neon", "dotprod"}, (4, 4)),
        ({"neon", "dotprod", "i8mm"}, (4, 4, 4)),
        ({"dotprod"}, ()),
        (set[str](), ()),
    ],
)
def test_the_widths_follow_from_the_features(
    features: AbstractSet[str], lanes: tuple[int, ...]
) -> None:
    assert tuple(d.lanes for d in dot4_instructions(frozenset(features))) == lanes


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        (ALL | {"avx512bw"}, (16, 8, 4)),
        (ALL, (8, 4)),
        ({"sse2"}, (4,)),
        ({"avx512f", "avx512bw"}, ()),
        ({"neon", "dotprod"}, ()),
    ],
)
def test_the_widths_of_pairs_follow_from_the_features(
    features: AbstractSet[str], lanes: tuple[int, ...]
) -> None:
    assert tuple(d.lanes for d in dot2_instructions(frozenset(features))) == lanes


def test_a_target_has_the_instructions_of_this_machine() -> None:
    assert tvm.Target().dot4 == dot4_instructions(host().features)
    assert tvm.Target().dot2 == dot2_instructions(host().features)


# --- what is refused -----------------------------------------------------------------------------


def test_the_types_of_the_bytes_are_checked() -> None:
    x, y = ([load(Buffer("x", (4,), kind), n) for n in range(4)] for kind in (INT8, UINT8))
    with pytest.raises(ExprError, match="dot4: operand 1 is int8: it must be uint8"):
        dot4(0, x, y)


def test_three_bytes_are_refused() -> None:
    with pytest.raises(ExprError, match="a has 3 numbers and b 4, not four each"):
        dot4(0, [0] * 3, [0] * 4)


def test_the_verifier_knows_the_types() -> None:
    wrong = Call("dot4", (const(0, "int32"),) * 9, INT32)
    with pytest.raises(VerifyError, match="dot4 of int32, int32"):
        verify(program(1, lambda a, b, c: Store(c, (0,), wrong)))
