"""Products on AMX: the same program in Python, in the interpreter and as code for another CPU."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import codegen, runtime, te, tir, topi
from minitvm.base import ArgumentError, BuildError, amx_permitted, host

HAS_AMX = amx_permitted()
CPU = "llvm -mcpu=sapphirerapids -num-cores=1"


def product(m: int, n: int, k: int, a: str = "uint8", b: str = "int8") -> tuple[Any, list[Any]]:
    A, B = te.placeholder((m, k), a, name="A"), te.placeholder((k, n), b, name="B")
    C = topi.amx.matmul(A, B)
    return topi.amx.schedule(C), [A, B, C]


def drawn(m: int, n: int, k: int, a: str, b: str, seed: int) -> tuple[Any, Any, Any]:
    rng, (first, second) = np.random.default_rng(seed), (np.iinfo(a), np.iinfo(b))
    A = rng.integers(first.min, first.max + 1, (m, k)).astype(a)
    B = rng.integers(second.min, second.max + 1, (k, n)).astype(b)
    return A, B, A.astype("int32") @ B.astype("int32")


def assembly(s: Any, args: list[Any], target: str = CPU) -> str:
    """Return the code for a CPU that this machine need not be."""
    to = tvm.Target(target)
    func = tvm.lower(s, args, "product", target=to)
    text = codegen.emit_llvm(func, vector_bytes=to.vector_bytes, dot4=to.dot4, amx=to.amx)
    return runtime.LLVMSource(text, to.mcpu, to.mattr).made("asm").decode()


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("shape", [(32, 32, 64), (64, 32, 128), (10, 64, 192), (4, 32, 64)])
def test_a_product_is_exact(shape: tuple[int, int, int], types: tuple[str, str]) -> None:
    a, b, expected = drawn(*shape, *types, seed=sum(shape))
    s, args = product(*shape, *types)
    compiled, interpreted = (np.full(expected.shape, -1, "int32") for _ in range(2))
    tvm.build(s, args, "python")(a, b, compiled)
    tir.interpret(tvm.lower(s, args), a, b, interpreted)
    np.testing.assert_array_equal(compiled, expected)
    np.testing.assert_array_equal(interpreted, expected)


def test_the_loops_load_two_tiles_of_each_operand_for_four_products() -> None:
    loops = str(tvm.lower(*product(32, 32, 128), simple_mode=True))
    inner = loops[loops.index("for ko_1") :]
    inner = inner[: inner.index("amx.store")]
    assert [inner.count(f"amx.{name}(") for name in ("load", "dp")] == [2, 1]
    assert inner.count("unroll(2)") == 6  # 2 + 2 loads, 2 x 2 products; and the loops of the stores


def test_code_has_an_instruction_for_each_call() -> None:
    asm = assembly(*product(32, 32, 128))
    counts = {name: asm.count(name) for name in ("tilezero", "tileloadd", "tdpbusd", "tilestored")}
    assert counts == {"tilezero": 4, "tileloadd": 8, "tdpbusd": 8, "tilestored": 4}
    assert asm.count("ldtilecfg") == asm.count("tilerelease") == 1


@pytest.mark.parametrize(
    ("types", "name"), [(("int8", "int8"), "tdpbssd"), (("uint8", "uint8"), "tdpbuud")]
)
def test_the_instruction_has_the_signs_of_the_operands(types: tuple[str, str], name: str) -> None:
    assert name in assembly(*product(32, 32, 64, *types))


@pytest.mark.parametrize(
    ("m", "n", "k", "a"),
    [
        (33, 32, 64, "uint8"),
        (2, 32, 64, "uint8"),
        (32, 16, 64, "uint8"),
        (32, 32, 32, "uint8"),
        (32, 32, 64, "int16"),
    ],
)
def test_products_that_do_not_fit_are_refused(m: int, n: int, k: int, a: str) -> None:
    with pytest.raises(ArgumentError, match=r"divide into tiles|no such product"):
        product(m, n, k, a)


def test_a_cpu_without_the_unit_is_refused_before_llvm_sees_it() -> None:
    with pytest.raises(BuildError, match="no matrix unit"):
        assembly(*product(32, 32, 64), "llvm -mcpu=skylake-avx512 -num-cores=1")


def test_too_many_tiles_are_refused() -> None:
    s, args = product(64, 32, 64)
    C = args[-1]
    (sums,) = C.op.input_tensors
    s[sums].compute_at(s[C], s[C].leaf_iter_vars[0])  # the sums of four blocks of rows at once
    with pytest.raises(BuildError, match=r"12 tiles in one function: the CPU has 8"):
        assembly(s, args)


def test_a_function_with_tiles_does_not_call_python() -> None:
    s, args = product(32, 32, 64)
    func = tvm.lower(s, args, "product", target=tvm.Target(CPU))
    call = tir.Evaluate(tir.call_packed("report", 1))
    with pytest.raises(BuildError, match="a call of Python in a function with tiles"):
        codegen.emit_llvm(replace(func, body=tir.seq(func.body, call)), amx=frozenset({"int8"}))


def test_a_loop_over_tiles_must_be_unrolled() -> None:
    s, args = product(32, 32, 64)
    steps = json.loads(s.to_json())
    serial = [step for step in steps if step[1].get("kind") != "unroll"]
    assert len(serial) < len(steps)
    other = te.Schedule.from_json(json.dumps(serial), args[-1].op, s.state.intrins)
    with pytest.raises(BuildError, match="unroll the loops over tiles"):
        assembly(other, args)


@pytest.mark.skipif(HAS_AMX, reason="this CPU has the unit, and the system permits its use")
def test_code_is_not_loaded_where_tiles_are_not_permitted() -> None:
    with pytest.raises(BuildError, match="tile registers"):
        tvm.build(*product(32, 32, 64), "llvm -mattr=+amx-tile,+amx-int8 -num-cores=1")


@pytest.mark.skipif(not HAS_AMX, reason="the CPU has no AMX, or the system does not permit it")
@pytest.mark.parametrize("shape", [(32, 32, 64), (256, 128, 512)])
def test_the_unit_computes_the_same(shape: tuple[int, int, int]) -> None:
    a, b, expected = drawn(*shape, "uint8", "int8", seed=1)
    c = np.zeros(expected.shape, "int32")
    tvm.build(*product(*shape), "llvm -num-cores=1")(a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_targets_know_the_unit() -> None:
    assert tvm.Target("llvm -mcpu=sapphirerapids").amx == {"int8", "bf16"}
    assert tvm.Target("llvm -mcpu=znver4").amx == frozenset()
    assert tvm.Target("llvm -mcpu=x86-64 -mattr=+amx-tile,+amx-int8").amx == {"int8"}
    assert "amx-tile" in host().features or not HAS_AMX
