"""Emit AMX: buffers in the memory "amx.tile" are tile registers, and calls are instructions.

    amx.zero(T)          tilezero
    amx.load(T, A, n)    tileloadd     rows of at most 64 bytes, any distance apart
    amx.dp(C, A, B)      tdpbusd, tdpbssd, tdpbsud, tdpbuud or tdpbf16ps, by the types of A and B
    amx.store(D, T)      tilestored

The last two dimensions of a buffer are one tile; three, if the last one is a word of four bytes.
Each tile is one register. Its number is part of the instruction, so loops over tiles are unrolled.
A function loads the shapes of its registers when it begins, and releases the registers when it
ends. LLVM ends the process for a tile number above 7 and for a CPU without the unit: both are
refused before.
"""

from __future__ import annotations

import math

from minitvm import tir
from minitvm.base import BuildError

from ..common import flat
from .code import Code
from .expr import index, pointer

CALLS = (tir.amx.ZERO, tir.amx.LOAD, tir.amx.DP, tir.amx.STORE)
PRODUCTS = {  # the types of A, B and C -> the instruction, and what the unit must multiply
    ("uint8", "int8", "int32"): ("tdpbusd", "int8"),
    ("int8", "int8", "int32"): ("tdpbssd", "int8"),
    ("int8", "uint8", "int32"): ("tdpbsud", "int8"),
    ("uint8", "uint8", "int32"): ("tdpbuud", "int8"),
    ("bfloat16", "bfloat16", "float32"): ("tdpbf16ps", "bf16"),
}
PALETTE, FIRST_WIDTH, FIRST_ROWS = 1, 16, 48  # of the configuration: bytes of its fields


def allocate(c: Code, b: tir.Buffer) -> None:
    """Reserve registers for the buffer `b`; the copies of an unrolled allocation share them."""
    if b in c.tiles:
        return
    if not c.module.amx:
        what = f"{b.name} in {tir.amx.SCOPE!r}"
        fix = "-mattr=+amx-tile,+amx-int8, or target='python'"
        raise BuildError(what, "the target's CPU has no matrix unit", fix)
    rows, width = _shape(b)
    count = _elements(b.shape) * b.dtype.bytes // (rows * width)
    c.tiles[b] = len(c.tile_shapes)
    c.tile_shapes += [(rows, width)] * count
    if len(c.tile_shapes) > tir.amx.REGISTERS:
        why = f"the CPU has {tir.amx.REGISTERS} tile registers"
        raise BuildError(f"{len(c.tile_shapes)} tiles in one function", why, "fewer accumulators")


def _elements(shape: tuple[tir.Index, ...]) -> int:
    sizes = [n for n in shape if isinstance(n, int)]
    if len(sizes) < len(shape):
        raise BuildError(
            "a tile of symbolic size", "registers have a fixed shape", "constant sizes"
        )
    return math.prod(sizes)


def _shape(b: tir.Buffer) -> tuple[int, int]:
    """Return the rows and the bytes of a row of the tiles of a buffer."""
    is_word = b.dtype.bytes < 4 and _elements(b.shape[-1:]) * b.dtype.bytes == 4
    inner = 2 if is_word and len(b.shape) > 2 else 1
    rows = _elements(b.shape[-1 - inner : -inner])
    width = _elements(b.shape[-inner:]) * b.dtype.bytes
    if rows > tir.amx.ROWS or width > tir.amx.ROW_BYTES:
        why = f"a register has {tir.amx.ROWS} rows of {tir.amx.ROW_BYTES} bytes"
        raise BuildError(f"{b.name}: a tile of {rows} rows of {width} bytes", why, "smaller tiles")
    return rows, width


def instruction(c: Code, e: tir.Call) -> None:
    """Emit the instruction of a call in CALLS."""
    if c.mask is not None:
        raise BuildError(e.name, "it is in a vectorized condition", "another loop for vectors")
    match e.name, e.args:
        case tir.amx.ZERO, (tile,):
            _emit(c, "tilezero", _register(c, tile))
        case tir.amx.LOAD, (tile, memory, step):
            _move(c, "tileloadd64", tile, memory, step)
        case tir.amx.STORE, (memory, tile):
            _move(c, "tilestored64", tile, memory, 1)
        case tir.amx.DP, (sums, a, b):
            types = str(a.dtype), str(b.dtype), str(sums.dtype)
            if types not in PRODUCTS or PRODUCTS[types][1] not in c.module.amx:
                why = "the target's CPU has no such instruction"
                raise BuildError(f"{e.name} of {', '.join(types)}", why, "uint8 and int8")
            _emit(c, PRODUCTS[types][0], *(_register(c, tile) for tile in (sums, a, b)))
        case _:
            raise BuildError(e.name, f"it has {len(e.args)} arguments", "topi.amx")


def _emit(c: Code, name: str, *registers: int) -> None:
    c.module.declare(f"llvm.x86.{name}", "void", ", ".join(["i8 immarg"] * len(registers)))
    c.emit(f"call void @llvm.x86.{name}({', '.join(f'i8 {n}' for n in registers)})")


def _move(c: Code, name: str, tile: tir.Expr, memory: tir.Expr, step: tir.Expr | int) -> None:
    """Emit a load or a store of a tile: `step` rows of `memory` lie between two of its rows."""
    every = step.value if isinstance(step, tir.Const) else step
    if not isinstance(memory, tir.View) or not isinstance(every, int):
        raise BuildError(name, "its operands are not a view and a constant", "topi.amx")
    distance = index(c, tir.mul(memory.strides[0], memory.dtype.bytes * every))
    c.module.declare(f"llvm.x86.{name}", "void", "i8 immarg, ptr, i64")
    where = f"ptr {pointer(c, memory)}, {distance}"
    c.emit(f"call void @llvm.x86.{name}(i8 {_register(c, tile)}, {where})")


def _register(c: Code, tile: tir.Expr) -> int:
    """Return the number of the register of a view of a tile."""
    if not isinstance(tile, tir.View) or tile.first.buffer not in c.tiles:
        fix = f"set_scope({tir.amx.SCOPE!r})"
        raise BuildError(
            f"{tir.text(tile)} of an AMX instruction", "it is not a tile register", fix
        )
    buffer = tile.first.buffer
    first, at = c.tiles[buffer], flat(buffer, tile.first.indices)
    rows, width = c.tile_shapes[first]
    if not isinstance(at, int) or at * buffer.dtype.bytes % (rows * width):
        what = f"tile {tir.text(at)} of {buffer.name}"
        raise BuildError(what, "registers have no addresses", "unroll the loops over tiles")
    return first + at * buffer.dtype.bytes // (rows * width)


def configure(c: Code) -> None:
    """Load the shapes of the registers when the function begins; release them when it ends."""
    if not c.tile_shapes:
        return
    if c.calls_python:  # another kernel with tiles, called by the function, would release ours
        why = "the called function may use the registers, too"
        raise BuildError("a call of Python in a function with tiles", why, "call it outside")
    fields = bytearray(64)
    fields[0] = PALETTE
    for n, (rows, width) in enumerate(c.tile_shapes):
        fields[FIRST_WIDTH + 2 * n], fields[FIRST_ROWS + n] = width, rows
    symbol = f"@amx.config.{len(c.module.declarations)}"
    text = "".join(f"\\{byte:02X}" for byte in fields)
    c.module.declarations[symbol] = f'{symbol} = internal constant [64 x i8] c"{text}", align 64'
    c.module.declare("llvm.x86.ldtilecfg", "void", "ptr")
    c.module.declare("llvm.x86.tilerelease", "void", "")
    c.entry.append(f"  call void @llvm.x86.ldtilecfg(ptr {symbol})")
    release = "  call void @llvm.x86.tilerelease()"
    for n in reversed([n for n, line in enumerate(c.lines) if line.startswith("  ret ")]):
        c.lines.insert(n, release)
    c.lines.append(release)
