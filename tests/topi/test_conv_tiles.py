"""Convolutions on AMX: they are exact, and their code has the unit's instructions."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import codegen, runtime, te, tir, topi

CPU = "llvm -mcpu=sapphirerapids -num-cores={}"
ZERO = 3  # the byte of the pixels outside the image


def layer(
    size: int, inputs: int, outputs: int, kernel: int, stride: int, **other: Any
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Return topi's schedule of a layer for a CPU with AMX; the last argument is the result."""
    data = te.placeholder(
        (other.get("batch", 1), size, size, inputs), other.get("dtype", "uint8"), name="data"
    )
    shape = (kernel, kernel, inputs, outputs)
    weights = te.placeholder(shape, "int8", name="weights", constant=True)
    with tvm.Target(CPU.format(1)):
        out = topi.conv2d(data, weights, stride, kernel // 2, layout="NHWC", pad_value=ZERO)
        args = [data, weights]
        if other.get("requantised", True):
            bias = te.placeholder((outputs,), "int32", name="bias")
            scale = te.placeholder((outputs,), name="scale")
            args += [bias, scale]
            out = topi.requantise(out, bias, scale)
        return topi.schedule([out]), [*args, out]


def expected(data: Any, weights: Any, stride: int) -> Any:
    """Return the convolution in integers, by numpy."""
    kernel, size = len(weights), data.shape[1]
    around = (kernel // 2, kernel // 2)
    padded = np.pad(data.astype("int64"), ((0, 0), around, around, (0, 0)), constant_values=ZERO)
    count = (size + 2 * (kernel // 2) - kernel) // stride + 1
    total = np.zeros((len(data), count, count, weights.shape[-1]), "int64")
    for y, x in np.ndindex(kernel, kernel):
        rows, columns = (slice(at, at + stride * (count - 1) + 1, stride) for at in (y, x))
        total += padded[:, rows, columns] @ weights[y, x].astype("int64")
    return total


def llvm(args: tuple[te.Schedule, list[te.Tensor]], to: tvm.Target) -> str:
    func = tvm.lower(*args, "layer", target=to)
    launch = "launch" if to.num_cores > 1 else ""
    return codegen.emit_llvm(
        func,
        vector_bytes=to.vector_bytes,
        parallel_launch=launch,
        dot4=to.dot4,
        amx=to.amx,
    )


def instructions(args: tuple[te.Schedule, list[te.Tensor]]) -> dict[str, int]:
    """Return how often the layer's code has each instruction of the unit."""
    to = tvm.Target(CPU.format(1))
    asm = runtime.LLVMSource(llvm(args, to), to.mcpu, to.mattr).made("asm").decode()
    return {n: asm.count(n) for n in ("ldtilecfg", "tileloadd", "tdpb", "vpdpb", "tilestored")}


@pytest.mark.parametrize(
    "sizes",
    [
        (7, 64, 32, 3, 1),  # a tile has the pixels of two rows
        (7, 64, 64, 1, 1),
        (9, 64, 32, 3, 1),  # three rows of tiles are not blocks of two
        (14, 96, 16, 3, 2),  # 48 bytes in a row of a tile; one group of channels
        (14, 32, 48, 3, 1),
        (14, 64, 32, 1, 2),
        (11, 32, 32, 5, 1),
    ],
)
@pytest.mark.parametrize("batch", [1, 2])
def test_a_quantised_layer_is_exact(sizes: tuple[int, int, int, int, int], batch: int) -> None:
    size, inputs, outputs, kernel, stride = sizes
    rng = np.random.default_rng(sum(sizes))
    data = rng.integers(0, 256, (batch, size, size, inputs)).astype("uint8")
    weights = rng.integers(-128, 128, (kernel, kernel, inputs, outputs)).astype("int8")
    bias = rng.integers(-1000, 1000, outputs).astype("int32")
    total = expected(data, weights, stride)
    scale = (rng.random(outputs) * 200 / np.abs(total).max()).astype("float32")
    s, args = layer(*sizes, batch=batch)
    result = np.zeros(total.shape, "uint8")
    tir.interpret(tvm.lower(s, args), data, weights, bias, scale, result)
    rounded = np.rint((total + bias).astype("float32") * scale)
    np.testing.assert_array_equal(result, np.clip(rounded, 0, 255).astype("uint8"))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("size", [7, 14])
def test_sums_without_requantisation_are_exact(size: int, dtype: str) -> None:
    rng, limits = np.random.default_rng(size), np.iinfo(dtype)
    data = rng.integers(limits.min, limits.max + 1, (1, size, size, 32)).astype(dtype)
    weights = rng.integers(-128, 128, (3, 3, 32, 32)).astype("int8")
    s, args = layer(size, 32, 32, 3, 1, dtype=dtype, requantised=False)
    result = np.zeros((1, size, size, 32), "int32")
    tir.interpret(tvm.lower(s, args), data, weights, result)
    np.testing.assert_array_equal(result, expected(data, weights, 1))


def test_a_block_of_four_tiles_needs_a_load_for_each_product() -> None:
    args = layer(14, 64, 32, 1, 1)
    assert instructions(args) == {
        "ldtilecfg": 1, "tileloadd": 4, "tdpb": 4, "vpdpb": 0, "tilestored": 4,
    }  # fmt: skip


def test_each_thread_configures_its_registers() -> None:
    _, args = layer(56, 64, 64, 3, 1)
    with tvm.Target(CPU.format(2)) as two:
        text = llvm((topi.schedule([args[-1]]), args), two)
    bodies = [body for body in text.split("define ")[1:] if "call void @llvm.x86.tdpbusd" in body]
    assert len(bodies) == 1
    assert "i64" in bodies[0].splitlines()[0]  # the body of a parallel loop: its begin and end
    assert bodies[0].index("@llvm.x86.ldtilecfg") < bodies[0].index("@llvm.x86.tdpbusd")
    assert "@llvm.x86.tilerelease" in bodies[0]


@pytest.mark.parametrize("sizes", [(8, 3, 32, 3, 1), (8, 64, 24, 3, 1), (5, 64, 32, 3, 2)])
def test_layers_that_fill_few_rows_of_a_tile_use_dot_products(
    sizes: tuple[int, int, int, int, int],
) -> None:
    counts = instructions(layer(*sizes))
    assert counts["tdpb"] == 0
    assert counts["vpdpb"] > 0
