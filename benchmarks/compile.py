"""Measure how long compiling takes: schedules, lower(), build() and the import of minitvm.

    python benchmarks/compile.py [--quick] [--json FILE]

schedule, lower, build   the first notebook's matrix product: median milliseconds
replay                   applying ten recorded steps to a matrix product: least microseconds
lower conv2d+bias+relu   with topi's schedule: least milliseconds
lower 8 / 4 stages       the time for 8 stages over that for 4: 2.00 if the time is linear
import                   the time beyond that of a bare interpreter: median milliseconds

Lower is better throughout.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__)

import minitvm as tvm
from minitvm import te, topi
from minitvm.schedule import replay

N = 1024
SIZES = (4, 8, 16, 32, 64)  # numbers of stages or loops, to see how times grow


def six_steps() -> tuple[te.Schedule, list[te.Tensor]]:
    """Schedule the first notebook's matrix product: pack, tile, unroll, vectorize, parallelize."""
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


def product() -> te.Tensor:
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    return te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


def ten_on_one_stage(c: te.Tensor) -> te.Schedule:
    """Schedule the product `c` in ten steps: splits, reorders, a fuse and annotations."""
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*s[c].op.axis, 8, 32)
    ko, ki = s[c].split(s[c].op.reduce_axis[0], factor=4)
    s[c].reorder(io, jo, ko, ii, ki, ji)
    s[c].parallel(s[c].fuse(io, jo))
    s[c].unroll(ki)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    return s


def ten_on_two_stages(c: te.Tensor) -> te.Schedule:
    """Schedule the product `c` in ten steps that sum each tile in a cache stage."""
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    io, jo, _, _ = s[c].tile(*s[c].op.axis, 8, 32)
    s[c].parallel(io)
    s[cache].compute_at(s[c], jo)
    (i, j), (k,) = s[cache].op.axis, s[cache].op.reduce_axis
    ko, ki = s[cache].split(k, factor=4)
    s[cache].reorder(ko, ki, i, j)
    s[cache].unroll(i)
    s[cache].vectorize(j)
    return s


def replaying(make: Callable[[te.Tensor], te.Schedule]) -> Callable[[], object]:
    """Return a call that applies the ten steps of `make`'s schedule to a fresh product."""
    c = product()
    start, steps = te.create_schedule(c.op).state, make(c).steps
    assert len(steps) == 10
    return lambda: replay(start, steps)


def fused_conv2d() -> tuple[te.Schedule, list[te.Tensor]]:
    """Schedule a layer of a network: a 3x3 convolution of 64 channels of 56x56, bias and relu."""
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    b = te.placeholder((64,), name="b")
    c = topi.conv2d(x, w, padding=1)
    y = topi.relu(te.compute(c.shape, lambda n, o, i, j: c[n, o, i, j] + b[o], name="biased"))
    return topi.schedule(y), [x, w, b, y]


def many_stages(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Make `n` tiled and vectorized stages, each of which reads the stage before it."""
    a = te.placeholder((N, N), name="A")
    made = [a]
    for _ in range(n):
        made.append(topi.multiply(made[-1], 2.0))
    s = te.create_schedule(made[-1].op)
    for t in made[1:]:
        *_, lanes = s[t].tile(*s[t].op.axis, 7, 16)
        s[t].vectorize(lanes)
    return s, [a, made[-1]]


def many_loops(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Make one stage of `n` reduction loops over small tensors."""
    a = te.placeholder((n + 1,), name="A")
    axes = [te.reduce_axis((0, 2), name=f"k{d}") for d in range(n)]
    y = te.compute((1,), lambda _: te.sum(a[sum(axes[1:], axes[0])], axis=axes), name="Y")
    return te.create_schedule(y.op), [a, y]


def growth(what: str, make: Callable[[int], Any], rounds: int) -> list[Row]:
    """Return the time of lower() at size 2n over that at size n, for n in SIZES but the last."""
    programs = {str(n): make(n) for n in SIZES}
    runs = {n: partial(tvm.lower, *program) for n, program in programs.items()}
    best = best_seconds(runs, rounds)
    pairs = zip(best, list(best)[1:], strict=False)
    return [Row(f"lower {b} / {a} {what}", 1, "ratio", best[b] / best[a]) for a, b in pairs]


def short_calls(rounds: int) -> list[Row]:
    """Measure replay() and lower() of a layer by the shortest of many calls."""
    conv = fused_conv2d()
    runs: dict[str, Callable[[], object]] = {
        "replay 10 steps, 1 stage": replaying(ten_on_one_stage),
        "replay 10 steps, 2 stages": replaying(ten_on_two_stages),
        "lower conv2d+bias+relu": lambda: tvm.lower(*conv),
    }
    best = best_seconds(runs, rounds, burst=20)
    scale = {name: ("us", 1e6) if "replay" in name else ("ms", 1e3) for name in runs}
    return [Row(name, 1, scale[name][0], best[name] * scale[name][1]) for name in runs]


def median_ms(run: Callable[[], object], rounds: int) -> float:
    """Return the median milliseconds of a call; the first two calls are not counted."""
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
        *short_calls(rounds),
        *growth("stages", many_stages, rounds),
        *growth("loops", many_loops, rounds),
    ]
    bare = median_ms(lambda: import_ms("sys"), rounds // 2)
    for module in ("numpy", "minitvm"):
        whole = median_ms(partial(import_ms, module), rounds // 2)
        rows.append(Row(f"import {module}", 1, "ms", whole - bare))
    report(rows, flags.json, ())
