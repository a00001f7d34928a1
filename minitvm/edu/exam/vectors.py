"""Questions about vectors: which accesses are plain loads and stores, and which are gathers."""

from __future__ import annotations

import re

from minitvm import codegen, driver

from ..item import Rng
from .question import Question, pick, run

LANES = 8
TARGET = "llvm -mattr=+avx2,-avx512f -num-cores=1"  # notebook 06's machine: vectors of 8 numbers


def vectors(rng: Rng) -> Question:
    """Ask how many vectors a loop stores, and how many addresses it visits along either axis."""
    rows, columns = (LANES * int(n) for n in rng.integers(2, 8, 2))
    matrix = pick(rng, ("X[i, j]", "X[j, i]"))
    axis, other = pick(rng, ("ij", "ji"))
    vector = f"v[{pick(rng, 'ij')}]"
    shape = (rows, columns) if matrix == "X[i, j]" else (columns, rows)
    code = f"""\
X = te.placeholder({shape}, name="X")
v = te.placeholder(({rows if vector == "v[i]" else columns},), name="v")
Y = te.compute(({rows}, {columns}), lambda i, j: {matrix} * {vector}, name="Y")

s = te.create_schedule(Y.op)
i, j = s[Y].op.axis
outer, lanes = s[Y].split({axis}, factor={LANES})
s[Y].vectorize(lanes)"""
    times = rows * columns // LANES
    (plain, gathers), (swapped_plain, swapped_gathers) = (
        _accesses(code), _accesses(code.replace(f"split({axis}", f"split({other}"))
    )  # fmt: skip
    return Question(
        "Vectors",
        "This loop is compiled for vectors of 8 numbers. A plain load or store of a vector visits"
        " one address, and so does the load of a single number for all lanes. A gather or a scatter"
        " visits an address for each lane. The matrices are stored row by row, and each iteration"
        " of the vectorized loops loads from X and v.",
        code,
        ("How many vectors are stored in all, those that are scattered included?",
         "How many addresses do all loads and stores visit?",
         f"How many are these if {other} is split in place of {axis}?"),
        (str(times), str(times * (plain + LANES * gathers)),
         str(times * (swapped_plain + LANES * swapped_gathers))),
        f"{rows} x {columns} / {LANES} iterations, each with {plain} plain accesses and {gathers}"
        f" gathers or scatters; after the change {swapped_plain} and {swapped_gathers}.",
        "notebook 06, section 2",
        4,
    )  # fmt: skip


def _accesses(code: str) -> tuple[int, int]:
    """Count the lines of LLVM's text that are plain accesses, and those that are not."""
    scope = run(code)
    lowered = driver.lower(scope["s"], [scope[name] for name in "XvY"], target=TARGET)
    text = codegen.emit_llvm(lowered, vector_bytes=4 * LANES)
    lines = [line for line in text.splitlines() if not line.startswith("declare")]
    plain = sum(bool(re.match(r" *(store|%[\w.]+ = load) ", line)) for line in lines)
    return plain, sum("masked.gather" in line or "masked.scatter" in line for line in lines)
