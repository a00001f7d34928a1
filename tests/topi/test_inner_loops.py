"""The innermost loops of default kernels, compiled for CPUs that are not here, and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import pytest

import minitvm as tvm
from minitvm import te, tir, topi
from minitvm.codegen import emit_llvm
from minitvm.runtime.jit import LLVMSource

X86, ARM, MAC = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx"
TILE = 8  # multiply-adds; loops with fewer are remainders
BRANCH = re.compile(r"\s+(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:[^.L\n]*,\s*)?(\.?L\w+)\s*$")
LABEL = re.compile(r"(\.?L\w+):")
MULTIPLY_ADD = re.compile(r"\s+(vfn?m(add|sub)\w+ps|fml[as])")
INSTRUCTION = re.compile(r"\s+[a-z{]")
PRODUCT = re.compile(r"\s+(?:\{vex\}\s)?([us]+dot|vpdpbusd|\w*m(?:ul|la|add)\w*)")
ON_STACK = re.compile(r"\(%rsp|-\d+\(%rbp|\[sp|\[x29, #-")  # else rbp and x29 are any pointers
VECTOR = re.compile(r"%[xyz]mm|\s[qv]\d")


class Cpu(NamedTuple):
    """LLVM's triple of a CPU, its L1 and L2, and the vectors in the tiles of the kernels below."""

    triple: str
    l1: int
    l2: int
    tile: int


CPUS = {
    "haswell": Cpu(X86, 32 << 10, 256 << 10, 12),
    "znver3": Cpu(X86, 32 << 10, 512 << 10, 12),
    "neoverse-n1": Cpu(ARM, 64 << 10, 1 << 20, 24),
    "apple-m1": Cpu(MAC, 64 << 10, 4 << 20, 24),
}


def place(*shape: int, weights: bool = False) -> te.Tensor:
    return te.placeholder(shape, name="W" if weights else "X", constant=weights)


def conv(image: te.Tensor, weights: te.Tensor) -> te.Tensor:
    """Define a convolution in NHWC whose result is as large as its image."""
    return topi.conv2d(image, weights, padding=weights.shape[0] // 2, layout="NHWC")


def depthwise(image: te.Tensor, weights: te.Tensor, stride: int = 1) -> te.Tensor:
    padding = weights.shape[0] // 2
    return topi.depthwise_conv2d(image, weights, stride, padding, layout="NHWC")


def max_pool(image: te.Tensor) -> te.Tensor:
    return topi.max_pool2d(image, 3, 2, 1, layout="NHWC")


Kernel = tuple[Callable[..., te.Tensor], *tuple[te.Tensor, ...]]
KERNELS: dict[str, Kernel] = {
    "matmul": (topi.matmul, place(512, 480), place(480, 480)),
    "dense": (topi.dense, place(128, 768), place(3072, 768, weights=True)),
    "conv 3x3": (conv, place(1, 28, 28, 128), place(3, 3, 128, 128, weights=True)),
    "conv 1x1": (conv, place(1, 14, 14, 256), place(1, 1, 256, 256, weights=True)),
}
UNROLLED: dict[str, Kernel] = {
    "depthwise 3x3": (depthwise, place(1, 56, 56, 128), place(3, 3, 128, 1, weights=True)),
    "depthwise 5x5": (depthwise, place(1, 28, 28, 240), place(5, 5, 240, 1, weights=True)),
    "depthwise 7x7": (depthwise, place(1, 7, 7, 768), place(7, 7, 768, 1, weights=True)),
    "strided": (
        partial(depthwise, stride=2),
        place(1, 56, 56, 128),
        place(3, 3, 128, 1, weights=True),
    ),
    "max pool": (max_pool, place(1, 112, 112, 64)),
    "softmax": (topi.softmax, place(1024, 1000)),
}
# strided tiles spill some vectors on ARM; 16 registers do not hold the constants of exp
NOT_CLEAN = {
    *product(("neoverse-n1", "apple-m1"), ("strided",)),
    *product(("haswell", "znver3"), ("softmax",)),
}


def innermost_loops(asm: str) -> Iterator[list[str]]:
    """Yield the lines of each loop in assembly text that contains no other loop."""
    lines = [line for line in asm.splitlines() if INSTRUCTION.match(line) or LABEL.match(line)]
    at = {m[1]: n for n, line in enumerate(lines) if (m := LABEL.match(line))}
    loops = [
        (at[m[1]], n)
        for n, line in enumerate(lines)
        if (m := BRANCH.match(line)) and at.get(m[1], n) < n
    ]
    for first, last in loops:
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in loops):
            yield lines[first : last + 1]


def multiply_adds(loop: list[str]) -> int:
    return sum(bool(MULTIPLY_ADD.match(line)) for line in loop)


def spills(loop: list[str]) -> list[str]:
    """Return the instructions that move a vector to or from the stack."""
    return [line for line in loop if ON_STACK.search(line) and VECTOR.search(line)]


def assembly(func: tir.PrimFunc, target: tvm.Target, triple: str) -> str:
    text = emit_llvm(func, vector_bytes=target.vector_bytes, dot4=target.dot4, dot2=target.dot2)
    return LLVMSource(text, target.mcpu, "", triple=triple).made("asm").decode()


def loops(cpu: str, kernel: Kernel) -> list[list[str]]:
    """Return the innermost loops of a kernel with its default schedule for `cpu`."""
    triple, l1, l2, _ = CPUS[cpu]
    target = tvm.Target(f"llvm -mcpu={cpu} -num-cores=1").on(l1=l1, l2=l2, l3=32 << 20)
    define, *inputs = kernel
    out = define(*inputs)
    func = tvm.lower(topi.schedule([out], target), [*inputs, out], target=target)
    return list(innermost_loops(assembly(func, target, triple)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cpu", CPUS)
def test_tiles_stay_in_registers(cpu: str, kernel: str) -> None:
    tiles = [x for x in loops(cpu, KERNELS[kernel]) if multiply_adds(x) >= TILE]
    assert max(map(multiply_adds, tiles)) == CPUS[cpu].tile
    assert [spills(x) for x in tiles] == [[]] * len(tiles)


@pytest.mark.parametrize(
    ("cpu", "kernel"), [each for each in product(CPUS, UNROLLED) if each not in NOT_CLEAN]
)
def test_no_vector_of_an_unrolled_loop_goes_to_the_stack(cpu: str, kernel: str) -> None:
    innermost = loops(cpu, UNROLLED[kernel])
    assert max(map(len, innermost)) > TILE
    assert [line for loop in innermost for line in spills(loop)] == []


@pytest.mark.parametrize(
    ("cpu", "triple", "types", "instruction", "tile"),
    [
        ("apple-m1", MAC, ("int8", "int8"), "sdot", 24),
        ("apple-m1", MAC, ("uint8", "int8"), "sdot", 24),
        ("apple-m1", MAC, ("uint8", "uint8"), "udot", 24),
        ("neoverse-n1", ARM, ("int8", "int8"), "sdot", 24),
        ("neoverse-v1", ARM, ("uint8", "int8"), "usdot", 24),
        ("neoverse-v1", ARM, ("int8", "uint8"), "udot", 24),
        ("znver4", X86, ("int8", "int8"), "vpdpbusd", 24),
        ("alderlake", X86, ("int8", "int8"), "vpdpbusd", 12),
        ("haswell", X86, ("uint8", "int8"), "vpmaddwd", 16),
        ("skylake-avx512", X86, ("int8", "int8"), "vpmaddwd", 40),
    ],
)
def test_products_of_bytes_are_dot_products(
    cpu: str, triple: str, types: tuple[str, str], instruction: str, tile: int
) -> None:
    with tvm.Target(f"llvm -mcpu={cpu} -num-cores=1") as target:
        inputs = [
            te.placeholder((96, 128), types[0], "A"),
            te.placeholder((128, 64), types[1], "B"),
        ]
        out = topi.matmul(*inputs, out_dtype="int32")
        func = tvm.lower(topi.schedule(out), [*inputs, out])
    products = [
        [m[1] for line in loop if (m := PRODUCT.match(line))]
        for loop in innermost_loops(assembly(func, target, triple))
    ]
    longest = max(products, key=len)  # which LLVM may have unrolled
    assert longest == [instruction] * max(tile, len(longest) // tile * tile)
