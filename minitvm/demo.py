"""One matrix product, seven schedules: from textbook loops to the speed of a library.

notebooks/00_start_here.ipynb tells the same story with more words and more pictures.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from minitvm import driver, te, testing, topi
from minitvm.base import FLOAT32, ArgumentError, Target, VerifyError, host

ROWS = 4  # rows of the register tile
SLOW = 0.5  # seconds; a kernel that takes longer is timed once
FEW = 10  # calls that time a faster kernel; the final table uses REPEAT calls
REPEAT = 20
Calls = Mapping[str, Callable[[], object]]
BAR = 32  # characters

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Matmul:
    """The formula C[i, j] = sum over k of A[i, k] * B[k, j], and the target that runs it."""

    A: te.Tensor
    B: te.Tensor
    C: te.Tensor
    target: Target

    @property
    def args(self) -> list[te.Tensor]:
        """The parameters of the compiled function."""
        return [self.A, self.B, self.C]

    @property
    def columns(self) -> int:
        """The columns of a register tile, chosen so that its ROWS rows fill half the registers."""
        return self.target.vector_registers // 2 // ROWS * self.target.lanes(FLOAT32)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One schedule of the demo: its name, why it is faster, and the function that makes it."""

    name: str
    why: str
    make: Callable[[Matmul], te.Schedule]
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """One line of the final table: a rate in GFLOP/s and its number of threads."""

    name: str
    rate: float
    threads: int


def product(size: int, target: Target | None = None) -> Matmul:
    """Define the product of two size x size matrices of float32."""
    A = te.placeholder((size, size), name="A")
    B = te.placeholder((size, size), name="B")
    return Matmul(A, B, topi.matmul(A, B, name="C"), target or Target())


# --- the schedules -------------------------------------------------------------------------------


def naive(p: Matmul) -> te.Schedule:
    """Use the default loops: for i: for j: C[i, j] = 0; for k: C[i, j] += A[i, k] * B[k, j]."""
    return te.create_schedule(p.C.op)


def tiled(p: Matmul) -> te.Schedule:
    """Tile C into blocks of 32 x 256, and split k into blocks of 64."""
    s = naive(p)
    s[p.C].tile(*s[p.C].leaf_iter_vars, 32, 256, 64)
    return s


def vectorized(p: Matmul) -> te.Schedule:
    """Tile as `tiled` does, and compute 16 adjacent columns with one vector instruction."""
    s = naive(p)
    *_, ii, ji, ki = s[p.C].tile(*s[p.C].leaf_iter_vars, 32, 256, 64)
    vectors, lanes = s[p.C].split(ji, factor=16)
    s[p.C].reorder(ii, ki, vectors, lanes)
    s[p.C].vectorize(lanes)
    return s


def register_tiled(p: Matmul) -> te.Schedule:
    """Sum ROWS x columns elements of C in registers, and store each element once."""
    s = naive(p)
    tile = s.cache_write(p.C, "local")
    _blocks(s, p, tile)
    return s


def packed(p: Matmul) -> te.Schedule:
    """Use register tiles, and first copy each panel of B to contiguous memory."""
    s = naive(p)
    panel = s.cache_read(p.B, "global", [p.C])
    tile = s.cache_write(p.C, "local")
    outer = _blocks(s, p, tile)

    def layout(k: Any, j: Any) -> tuple[Any, ...]:
        return j // p.columns, k, j % p.columns

    s[panel].transform_layout(layout)
    s[panel].compute_at(s[p.C], outer)
    s[panel].vectorize(s[panel].leaf_iter_vars[1])
    return s


def threaded(p: Matmul) -> te.Schedule:
    """Use the packed schedule, with the panels distributed over the cores."""
    s = packed(p)
    s[p.C].parallel(s[p.C].leaf_iter_vars[0])
    return s


def chosen(p: Matmul) -> te.Schedule:
    """Use the schedule that topi chooses for this machine."""
    return topi.schedule(p.C, p.target)


def _blocks(s: te.Schedule, p: Matmul, tile: te.Tensor) -> te.Axis:
    """Compute C in register tiles of ROWS x columns; return the loop over panels of columns.

    tile   the tensor in which one register tile is summed
    """
    io, jo, ii, ji = s[p.C].tile(*s[p.C].leaf_iter_vars, ROWS, p.columns)
    s[p.C].reorder(jo, io, ii, ji)
    s[p.C].unroll(ii)
    s[p.C].vectorize(ji)
    s[tile].compute_at(s[p.C], io)
    i, j, k = s[tile].leaf_iter_vars
    s[tile].reorder(k, i, j)
    s[tile].unroll(i)
    s[tile].vectorize(j)
    return jo


STORY = (
    Chapter("naive", "The formula as three loops. B is read down its columns.", naive),
    Chapter("tile", "Blocks small enough for the caches: what was fetched is used again.", tiled),
    Chapter("vectorize", "One instruction works on 16 neighbours of a row.", vectorized),
    Chapter(
        "register tile",
        "A few rows of C stay in vector registers while the loop over k runs.",
        register_tiled,
    ),
    Chapter(
        "pack B",
        "Rows of B lie a page apart and crowd into a few cache sets: copy what is read together.",
        packed,
    ),
    Chapter("parallel", "All cores share the panels of C.", threaded, parallel=True),
    Chapter("topi.schedule", "What minitvm does by itself.", chosen, parallel=True),
)


# --- telling it ----------------------------------------------------------------------------------


def run(size: int = 1024, say: Callable[[str], None] = print, json_file: str = "") -> None:
    """Run the demo for size x size matrices; a size of 1024 takes half a minute.

    say        prints one line of the output
    json_file  the path of a JSON file for the results; "" writes none
    """
    if size < 1:
        raise ArgumentError(f"demo of size {size}", "a matrix has at least one row", "size 1024")
    p = product(size)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype="float32") for _ in "ab")
    machine = f"{host().cpu}, {p.target.num_cores} cores, {p.target.lanes(FLOAT32)} floats a vector"
    say(f"C = A * B with {size} x {size} matrices of float32, on {machine}")
    slow, calls = dict[str, float](), dict[str, Callable[[], object]]()
    for n, chapter in enumerate(STORY, 1):
        say(f"\n{n}/{len(STORY)}  {chapter.name}\n     {chapter.why}\n")
        calls[chapter.name], seconds = tell(chapter, p, a, b, say)
        if seconds >= SLOW:
            slow[chapter.name] = seconds
    c, fast = np.empty_like(a), {name: calls[name] for name in calls if name not in slow}
    say("\nOnce more, alternating with numpy; then with a loop that only does multiply-adds ...\n")
    seconds = slow | testing.interleaved(fast | {"numpy": lambda: np.matmul(a, b, out=c)}, REPEAT)
    rows = table(seconds, calls, size, p.target.num_cores)
    for line in [*drawn(rows), *held_back(os.environ)]:
        say(line)
    if json_file:
        Path(json_file).write_text(as_json(rows, size), encoding="utf-8")


def tell(
    chapter: Chapter, p: Matmul, a: Array, b: Array, say: Callable[[str], None]
) -> tuple[Callable[[], object], float]:
    """Print, build, check and time one schedule.

    Return a function that runs it on `a` and `b`, and its best time in seconds.
    """
    s = chapter.make(p)
    for line in str(driver.lower(s, p.args, until="nest")).splitlines():
        say(f"     {line}")
    f, c = driver.build(s, p.args), np.empty_like(a)
    start = time.perf_counter()
    f(a, b, c)
    seconds = time.perf_counter() - start
    if not np.allclose(c, a @ b, rtol=1e-3, atol=1e-2):
        raise VerifyError(f"demo: schedule {chapter.name!r}", "its result differs from numpy's")
    runs = "one call"
    if seconds < SLOW:  # one call says little on a busy machine
        runs = f"the best of {FEW} calls"
        seconds = testing.interleaved({"again": lambda: f(a, b, c)}, FEW)["again"]
    say(f"\n     {_rate(len(a), seconds):.1f} GFLOP/s, {runs}; the result is numpy's")
    return lambda: f(a, b, c), seconds


def _rate(size: int, seconds: float) -> float:
    """Return the GFLOP/s of a size x size product: two operations for every i, j and k."""
    return 2e-9 * size**3 / seconds


def table(seconds: Mapping[str, float], calls: Calls, size: int, cores: int) -> list[Rate]:
    """Return the rates of all entries of `seconds`, then the peaks of one core and of all cores.

    seconds   the time of each schedule and of "numpy", by name
    calls     the schedules; a peak is that at the clock of the fastest one
    """
    threads = {chapter.name: cores if chapter.parallel else 1 for chapter in STORY}
    rows = [Rate(name, _rate(size, seconds[name]), threads[name]) for name in calls]
    peaks = list[Rate]()
    for n in dict.fromkeys((1, cores)):
        best = max((row for row in rows if row.threads == n), key=lambda row: row.rate)
        run, target = calls[best.name], f"llvm -num-cores={n}"
        share = testing.share_of_peak(run, 2.0 * size**3, target).share
        peaks.append(Rate("fma peak", best.rate / share, n))
    numpy = Rate("numpy", _rate(size, seconds["numpy"]), numpy_threads(os.environ, cores))
    return [*rows, numpy, *peaks]


def drawn(rows: list[Rate]) -> list[str]:
    """Format the final table: a header, then one line with a bar per row."""
    most = max(row.rate for row in rows)
    lines = [f"{'schedule':14}{'threads':>9}{'GFLOP/s':>10}"]
    for row in rows:
        bar = "#" * max(1, round(BAR * row.rate / most))
        lines.append(f"{row.name:14}{row.threads:9}{row.rate:10.1f}  {bar}")
    return lines


def numpy_threads(environ: Mapping[str, str], cores: int) -> int:
    """Return how many threads numpy uses: all `cores` unless the environment limits them."""
    wish = environ.get("OPENBLAS_NUM_THREADS") or environ.get("OMP_NUM_THREADS") or ""
    return min(cores, int(wish)) if wish.isdigit() and int(wish) > 0 else cores


def held_back(environ: Mapping[str, str]) -> list[str]:
    """Return a list of one warning if an environment variable slows numpy down, else []."""
    cpu = environ.get("OPENBLAS_CORETYPE")
    return [f"numpy runs code for another CPU here: OPENBLAS_CORETYPE={cpu} is set"] if cpu else []


def as_json(rows: list[Rate], size: int) -> str:
    """Return a JSON document that describes the machine and has one row per schedule.

    The "peers" of a row are numpy and the peak rate, if they use as many threads as the row.
    """
    facts = host()
    machine = {"cpu": facts.cpu, "cores": facts.cores, "system": facts.system}
    names = {chapter.name for chapter in STORY}
    measured = [
        {
            "case": f"{size}x{size}x{size} {row.name}",
            "threads": row.threads,
            "unit": "GFLOP/s",
            "ours": round(row.rate, 2),
            "peers": {
                peer.name.replace(" ", "_"): round(peer.rate, 2)
                for peer in rows
                if peer.name not in names and peer.threads == row.threads
            },
        }
        for row in rows
        if row.name in names
    ]
    return json.dumps({"machine": machine, "rows": measured}, indent=1) + "\n"
