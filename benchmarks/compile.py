"""How long compiling takes: lower() and build() of a six-step matrix product, import of minitvm.

    python benchmarks/compile.py [--quick] [--json FILE]

The figures are medians in milliseconds; lower is better.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from _common import Row, arguments, report

flags = arguments(__doc__)

import minitvm as tvm
from minitvm import te

N = 1024


def six_steps() -> tuple[te.Schedule, list[te.Tensor]]:
    """The first notebook's matrix product: packed, tiled, unrolled, vectorized, parallel."""
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    c = te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    packed = s.cache_read(b, "global", [c])
    tile = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*s[c].op.axis, 6, 64)
    s[c].reorder(jo, io, ii, ji)
    s[c].parallel(jo)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[tile].compute_at(s[c], io)
    (i, j), (k,) = s[tile].op.axis, s[tile].op.reduce_axis
    vectors, lanes = s[tile].split(j, factor=16)
    s[tile].reorder(k, i, vectors, lanes)
    s[tile].unroll(i)
    s[tile].unroll(vectors)
    s[tile].vectorize(lanes)
    s[packed].compute_at(s[c], jo)
    s[packed].transform_layout(lambda k, j: (j // 64, k, j % 64))
    return s, [a, b, c]


def median_ms(run: Callable[[], object], rounds: int) -> float:
    """The median milliseconds of a call; two calls are not counted."""
    found: list[float] = []
    for n in range(rounds + 2):
        start = time.perf_counter()
        run()
        if n >= 2:
            found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def import_ms(module: str) -> None:
    """Import `module` in a new interpreter."""
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


if __name__ == "__main__":
    rounds = 11 if flags.quick else 31
    s, args = six_steps()
    rows = [
        Row("schedule", 1, "ms", median_ms(six_steps, rounds)),
        Row("lower", 1, "ms", median_ms(lambda: tvm.lower(s, args), rounds)),
        Row("build", 1, "ms", median_ms(lambda: tvm.build(s, args), rounds)),
    ]
    bare = median_ms(lambda: import_ms("sys"), rounds // 2)
    for module in ("numpy", "minitvm"):
        whole = median_ms(partial(import_ms, module), rounds // 2)
        rows.append(Row(f"import {module}", 1, "ms", whole - bare))
    report(rows, flags.json, ())
