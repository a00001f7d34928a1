"""Print the instructions of tensor cores; a lane's registers of a tile are a local array."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, simt, tir
from minitvm.base import BuildError

from ..python import TAB
from .copies import CopyPrinter

LANE = "lane"  # the variable with the number of a thread in its warp
KINDS = {"float16": "mma_f16", "bfloat16": "mma_bf16"}
STORE_TILE = '''
@cuda.jit(device=True)
def store_tile(a, i, stride, c, j, lane):
    """Store a lane's elements c[j : j + 4] of a tile of 16 x 8 that begins at a[i]."""
    at = i + (lane >> 2) * stride + (lane & 3) * 2
    st(a, at, c[j])
    st(a, at + 1, c[j + 1])
    st(a, at + 8 * stride, c[j + 2])
    st(a, at + 8 * stride + 1, c[j + 3])
'''


def in_registers(b: tir.Buffer) -> bool:
    """Return whether each thread has the memory, or a part of it, in its registers."""
    return b.scope == simt.SCOPE or schedule.scope_kind(b.scope) == "local"


def has_instructions(s: tir.Stmt) -> bool:
    """Return whether `s` has instructions for tensor cores."""
    return any(
        isinstance(x, tir.Evaluate)
        and isinstance(x.value, tir.Call)
        and x.value.name in simt.INSTRUCTIONS
        for x in tir.every(s)
    )


class TensorPrinter(CopyPrinter):
    """A printer that also knows the instructions of tensor cores."""

    def number(self, e: tir.Expr) -> str:
        """Print an operand that must be a plain Python number."""
        return repr(e.value) if isinstance(e, tir.Const) else self.expr(e)

    def instruction(self, e: tir.Call, depth: int) -> Iterator[str]:
        """Print one instruction, which all lanes of a warp execute together."""
        tab, pointers = TAB * depth, [a for a in e.args if isinstance(a, tir.Pointer)]
        operands = [f"{self.name(p.first.buffer)}, {self.expr(_start(p))}" for p in pointers]
        match e.name:
            case simt.ZERO:
                b, start = pointers[0].first.buffer, self.expr(_start(pointers[0]), 4)
                yield f"{tab}for r in range(4):"
                yield f"{tab}{TAB}{self.name(b)}[{start} + r] = np.{b.dtype}(0.0)"
            case simt.SYNC:
                kind = pointers[1].first.buffer.dtype
                if kind not in KINDS:
                    what, fix = f"{e.name} of {kind}", f"one of {', '.join(KINDS)}"
                    raise BuildError(what, "tensor cores do not multiply it", fix)
                yield f"{tab}{KINDS[kind]}({', '.join(operands)})"
            case simt.STORE:
                stride = self.number(e.args[2])
                yield f"{tab}store_tile({operands[0]}, {stride}, {operands[1]}, {LANE})"
            case _:
                stride = self.number(e.args[2])
                row = f"({LANE} & 15)*{stride}" + (
                    f" + ({LANE} >> 4)*8" if e.name == simt.LOAD_A else ""
                )
                name = "ldmatrix_a" if e.name == simt.LOAD_A else "ldmatrix_b"
                yield f"{tab}{name}({operands[0]}, {operands[1]} + {row})"


def _start(p: tir.Pointer) -> tir.Index:
    """Return the index of the first element; in registers, in the lane's own array."""
    at = tir.add(p.first.indices[0], p.offset)
    return tir.floordiv(at, schedule.WARP) if p.first.buffer.scope == simt.SCOPE else at
