"""One matrix product, seven schedules: from the loops of the textbook to the speed of a library.

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

ROWS = 4  # of the tile that stays in registers
SLOW = 0.5  # seconds; a kernel that takes longer is timed once
FEW = 10  # calls of a faster one while its loops are shown; the table at the end takes REPEAT
REPEAT = 20
PEAK_REPEAT = 40  # a millisecond each
BAR = 32  # characters

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Product:
    """The formula C[i, j] = sum over k of A[i, k] * B[k, j], and the machine it is meant for."""

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
        """Width of the register tile: with ROWS rows it fills half of the vector registers."""
        return self.target.vector_registers // 2 // ROWS * self.target.lanes(FLOAT32)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One schedule of the story."""

    name: str
    why: str
    make: Callable[[Product], te.Schedule]
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the final table: a rate in GFLOP/s, and the threads that it took."""

    name: str
    rate: float
    threads: int


def product(size: int, target: Target | None = None) -> Product:
    """The product of two size x size matrices of float32."""
    A = te.placeholder((size, size), name="A")
    B = te.placeholder((size, size), name="B")
    return Product(A, B, topi.matmul(A, B, name="C"), target or Target())


# --- the schedules -------------------------------------------------------------------------------


def naive(p: Product) -> te.Schedule:
    """for i: for j: C[i, j] = 0; for k: C[i, j] += A[i, k] * B[k, j]"""
    return te.create_schedule(p.C.op)


def tiled(p: Product) -> te.Schedule:
    """Blocks of 32 x 256 of C, and 64 steps of k at a time."""
    s = naive(p)
    s[p.C].tile(*s[p.C].leaf_iter_vars, 32, 256, 64)
    return s


def vectorized(p: Product) -> te.Schedule:
    """The tiles, with 16 neighbours of a row in one go."""
    s = naive(p)
    *_, ii, ji, ki = s[p.C].tile(*s[p.C].leaf_iter_vars, 32, 256, 64)
    vectors, lanes = s[p.C].split(ji, factor=16)
    s[p.C].reorder(ii, ki, vectors, lanes)
    s[p.C].vectorize(lanes)
    return s


def register_tiled(p: Product) -> te.Schedule:
    """Sums of ROWS x columns elements of C in registers, written once."""
    s = naive(p)
    tile = s.cache_write(p.C, "local")
    _blocks(s, p, tile)
    return s


def packed(p: Product) -> te.Schedule:
    """The register tiles, with the columns of B that one panel needs copied together first."""
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


def threaded(p: Product) -> te.Schedule:
    """The packed schedule, panels shared out among the cores."""
    s = packed(p)
    s[p.C].parallel(s[p.C].leaf_iter_vars[0])
    return s


def chosen(p: Product) -> te.Schedule:
    """What topi chooses for this machine."""
    return topi.schedule(p.C, p.target)


def _blocks(s: te.Schedule, p: Product, tile: te.Tensor) -> te.Axis:
    """Compute `tile` in blocks of ROWS x columns; returns the loop over panels of columns."""
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
        "A few rows of C stay in vector registers while all of k streams by.",
        register_tiled,
    ),
    Chapter(
        "pack B",
        "Rows of B lie a page apart and crowd into a few cache sets: copy what is read together.",
        packed,
    ),
    Chapter("parallel", "Panels of C go to all cores.", threaded, parallel=True),
    Chapter("topi.schedule", "What minitvm does by itself.", chosen, parallel=True),
)


# --- telling it ----------------------------------------------------------------------------------


def run(size: int = 1024, say: Callable[[str], None] = print, json_file: str = "") -> None:
    """Tell the story for size x size matrices, about half a minute for 1024; `say` prints a line.

    json_file  where to store the table: the machine, and one row a schedule
    """
    if size < 1:
        raise ArgumentError(f"demo of size {size}", "a matrix has at least one row", "1024")
    p = product(size)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype="float32") for _ in "ab")
    here = f"{host().cpu}, {p.target.num_cores} cores, {p.target.lanes(FLOAT32)} floats a vector"
    say(f"C = A * B with {size} x {size} matrices of float32, on {here}")
    slow, fast = dict[str, float](), dict[str, Callable[[], object]]()
    for n, chapter in enumerate(STORY, 1):
        say(f"\n{n}/{len(STORY)}  {chapter.name}\n     {chapter.why}\n")
        call, seconds = tell(chapter, p, a, b, say)
        if seconds >= SLOW:
            slow[chapter.name] = seconds
        else:
            fast[chapter.name] = call
    c = np.empty_like(a)
    say("\nOnce more in turns, beside numpy and a loop of nothing but multiply-adds ...\n")
    seconds = slow | testing.interleaved(fast | {"numpy": lambda: np.matmul(a, b, out=c)}, REPEAT)
    rows = table(seconds, size, p.target.num_cores)
    for line in [*drawn(rows), *held_back(os.environ)]:
        say(line)
    if json_file:
        Path(json_file).write_text(as_json(rows, size), encoding="utf-8")


def tell(
    chapter: Chapter, p: Product, a: Array, b: Array, say: Callable[[str], None]
) -> tuple[Callable[[], object], float]:
    """Show, build and check one schedule; returns a call of it and its best seconds so far."""
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
    """GFLOP/s of a product: a multiplication and an addition for every i, j, k."""
    return 2e-9 * size**3 / seconds


def table(seconds: Mapping[str, float], size: int, cores: int) -> list[Row]:
    """The rates of all schedules, then numpy's, then the peaks of one core and of all."""
    threads = {chapter.name: cores if chapter.parallel else 1 for chapter in STORY}
    threads["numpy"] = numpy_threads(os.environ, cores)
    rows = [Row(name, _rate(size, t), threads[name]) for name, t in seconds.items()]
    return rows + [
        Row("fma peak", testing.fma_peak(n, PEAK_REPEAT), n) for n in dict.fromkeys((1, cores))
    ]


def drawn(rows: list[Row]) -> list[str]:
    """The table as lines of text, with bars."""
    most = max(row.rate for row in rows)
    lines = [f"{'schedule':14}{'threads':>9}{'GFLOP/s':>10}"]
    for row in rows:
        bar = "#" * max(1, round(BAR * row.rate / most))
        lines.append(f"{row.name:14}{row.threads:9}{row.rate:10.1f}  {bar}")
    return lines


def numpy_threads(environ: Mapping[str, str], cores: int) -> int:
    """How many threads numpy's library takes: all cores, unless the environment says otherwise."""
    wish = environ.get("OPENBLAS_NUM_THREADS") or environ.get("OMP_NUM_THREADS") or ""
    return min(cores, int(wish)) if wish.isdigit() and int(wish) > 0 else cores


def held_back(environ: Mapping[str, str]) -> list[str]:
    """A warning if the environment keeps numpy from doing its best here; usually nothing."""
    cpu = environ.get("OPENBLAS_CORETYPE")
    return [f"numpy runs code for another CPU here: OPENBLAS_CORETYPE={cpu} is set"] if cpu else []


def as_json(rows: list[Row], size: int) -> str:
    """The table and the machine it was measured on, as JSON: one row a schedule, and its peers."""
    here = host()
    machine = {"cpu": here.cpu, "cores": here.cores, "system": here.system}
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
