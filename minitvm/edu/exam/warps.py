"""Questions about a GPU: the sectors and the bank conflicts of a warp."""

from __future__ import annotations

import numpy as np

from minitvm import driver, simt, te

from ..item import Rng
from .question import Question, pick, run

WARP = 32


def sectors(rng: Rng) -> Question:
    """Ask how many sectors a warp moves, and how many of their bytes it does not use."""
    start = int(rng.integers(1, 14))
    step = pick(rng, (2, 3, 5, 6, 7))
    width = pick(rng, (4, 8, 16))
    row = pick(rng, (12, 20, 24, 36, 40))
    index = pick(rng, (
        f"{step}*t + {start}",
        f"(t // {width})*{row} + t % {width}",
        f"(t // {width})*{row} + t % {width} + {start}",
        f"(t % {width})*{row} + t // {width}",
        f"t // {step} + {start}",
    ))  # fmt: skip
    cost = _load(index, "global")
    bytes_moved = cost.sectors * simt.SECTOR
    return Question(
        "Sectors",
        "The 32 lanes of a warp read elements of X, a float32 tensor in global memory, all at the"
        " same time. This is what lane t reads. X[0] is the first element of a sector, and a sector"
        " has 32 bytes.",
        f"X[{index}]",
        ("How many sectors does this access move?",
         "How many bytes of these sectors does no lane use?"),
        (str(cost.sectors), str(bytes_moved - cost.needed)),
        f"{cost.sectors} sectors are {bytes_moved} bytes; the lanes want"
        f" {cost.needed // 4} different numbers: {cost.useful:.1%} is useful.",
        "notebook 07, section 2",
        4,
    )  # fmt: skip


def banks(rng: Rng) -> Question:
    """Ask for the wavefronts of a column in shared memory, before and after padding."""
    while True:
        row, width = pick(rng, range(8, 68, 4)), pick(rng, (4, 8, 16, 32))
        padded = row + pick(rng, range(1, 8))
        narrow, wide = (_column(n, width) for n in (row, padded))
        before, after = (_load(index, "shared").wavefronts for index in (narrow, wide))
        if before != after:
            break
    return Question(
        "Banks",
        "Shared memory has 32 banks, each as wide as a float32. The 32 lanes of a warp read"
        " elements of a float32 tile in shared memory, all at the same time. This is what lane t"
        " reads, from a tile without padding and from one with padding.",
        f"tile[{narrow}]   # rows of {row} numbers\ntile[{wide}]   # rows of {padded} numbers",
        ("How many wavefronts does the access take without padding?",
         "How many wavefronts does it take with padding?"),
        (str(before), str(after)),
        f"For t = 0, 1, 2, ... the banks are {_banks(narrow)} before, {_banks(wide)} after; the"
        " bank with the most different numbers decides.",
        "notebook 07, section 6",
        4,
    )  # fmt: skip


def _column(row: int, height: int) -> str:
    """Return the element that lane t reads if a warp reads columns of `height` numbers."""
    return f"t*{row}" if height == WARP else f"(t % {height})*{row} + t // {height}"


def _banks(index: str) -> str:
    """Return the banks of the first lanes as text."""
    return ", ".join(str(eval(index, {"t": t}) % simt.BANKS) for t in range(6)) + ", ..."


def _load(index: str, space: str) -> simt.AccessCounts:
    """Return what the simulator counts if lane t of a warp reads element `index` in a memory."""
    size = 1 + max(eval(index, {"t": t}) for t in range(WARP))
    scope = run(
        f'X = te.placeholder(({size},), name="X")\n'
        f'Y = te.compute(({WARP},), lambda t: X[{index}] + 1.0, name="Y")'
    )
    x, y = scope["X"], scope["Y"]
    s = te.create_schedule(y.op)
    block, lane = s[y].split(y.op.axis[0], factor=WARP)
    if space == "shared":
        tile = s.cache_read(x, "shared", [y])
        s[tile].compute_at(s[y], block)
        _, filler = s[tile].split(s[tile].op.axis[0], factor=WARP)
        s[tile].bind(filler, te.thread_axis("threadIdx.x"))
    s[y].bind(block, te.thread_axis("blockIdx.x"))
    s[y].bind(lane, te.thread_axis("threadIdx.x"))
    zeros = np.zeros(size, "float32"), np.zeros(WARP, "float32")
    report: simt.Report = driver.build(s, [x, y], "cuda -sim").check(*zeros)
    loads = [a for a in report.kernels[0].accesses if a.space == space and not a.stores]
    return loads[-1]
