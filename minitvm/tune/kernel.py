"""The loops over candidates that numba compiles; all sketches use the same machine code.

A statement is data: the arrays of `Packed`. Where possible, the innermost loop is over candidates,
so that LLVM vectorizes it. cachesim.compiled compiles the functions on first use and keeps the
machine code on disk. The functions do not call each other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]
LINE = 64  # bytes of a cache line
WIDTH = 18  # columns of an access
CHUNK = 512  # candidates at a time, few enough that their arrays stay in the cache


class Packed(NamedTuple):
    """One statement of N candidates as arrays; loops, digits and dimensions outermost first.

    extent     [L, N] of the loops; digit_of [L + 1]: loop l has the digits digit_of[l : l+1]
    radix      [G, N] of the digits; term_of [G + 1]: digit g has the terms term_of[g : g+1]
    part       [T] the part that a term belongs to; its digit [T]; coef [T, N]
    dim        [P] the dimension that a part belongs to; access [P]; factor [P]; ratio [P] the row
               of div and mod that has the numbers of this part, -1 if it has neither
    base       [D] what a dimension touches at least, less one; stride [D, N]
    dim_of     [B + 1]: access b has the dimensions dim_of[b : b+1]; part_of [D + 1]
    """

    extent: Floats
    digit_of: Ints
    radix: Floats
    term_of: Ints
    part: Ints
    digit: Ints
    coef: Floats
    dim: Ints
    access: Ints
    factor: Floats
    ratio: Ints
    div: Floats
    mod: Floats
    base: Floats
    stride: Floats
    dim_of: Ints
    part_of: Ints


def footprints(
    s: Packed, begin: int, unit: Floats, period: Floats, sets: Floats, touched: Floats, run: Floats
) -> None:
    """Count what the accesses of a statement touch at every loop level, in U ways of counting.

    Covers n candidates from number `begin` on; the size of `run` gives n.

    unit     [U, D] the size of a piece in each dimension: 1 to count elements
    sets     [U] the number of sets of a cache, or 0. Pieces that share few sets count as more
             lines, so that a tile fits if its count does. period [U, D, N]: steps along a
             dimension until the sets repeat
    touched  [U, L + 1, B, n] pieces that the loops l, l + 1, ... touch; entry L: one iteration
    run      [B, n] how many of the touched elements are contiguous
    """
    accesses, size = run.shape
    end, loops = begin + size, touched.shape[1] - 1
    total, width = np.zeros((len(s.ratio), size)), np.ones((len(s.part_of), size))
    moved, used = np.ones(accesses), np.ones(size)  # moved: whether a loop may move an access
    for level in range(loops, -1, -1):
        if level < loops:
            moved[:] = 0.0
            for t in range(s.term_of[s.digit_of[level]], s.term_of[s.digit_of[level + 1]]):
                moved[s.access[s.part[t]]] = 1.0
                sums, coef = total[s.part[t]], s.coef[t, begin:end]
                radix = s.radix[s.digit[t], begin:end]
                for i in range(size):
                    sums[i] += abs(coef[i]) * (radix[i] - 1.0)
        for b in range(accesses):
            if moved[b] == 0.0:
                for u in range(len(sets)):
                    counts, inner = touched[u, level, b], touched[u, level + 1, b]
                    for i in range(size):
                        counts[i] = inner[i]
                continue
            for d in range(s.dim_of[b], s.dim_of[b + 1]):
                wide, base = width[d], s.base[d] + 1.0
                for i in range(size):
                    wide[i] = base
                for p in range(s.part_of[d], s.part_of[d + 1]):
                    sums, f, r = total[p], s.factor[p], s.ratio[p]
                    for i in range(size if r < 0 else 0):
                        wide[i] += f * sums[i]
                    for i in range(size if r >= 0 else 0):
                        reach, top = sums[i] // s.div[r, begin + i], s.mod[r, begin + i]
                        wide[i] += f * (min(reach, top - 1.0) if top > 0.0 else reach)
            for u in range(len(sets)):
                counts = touched[u, level, b]
                for i in range(size):
                    counts[i] = used[i] = 1.0
                for d in range(s.dim_of[b], s.dim_of[b + 1]):
                    wide, per_unit, limit = width[d], 1.0 / unit[u, d], period[u, d, begin:end]
                    for i in range(size if sets[u] == 0.0 else 0):
                        counts[i] *= math.ceil(wide[i] * per_unit)
                    for i in range(size if sets[u] > 0.0 else 0):
                        pieces = math.ceil(wide[i] * per_unit)
                        counts[i] *= pieces
                        used[i] *= min(pieces, limit[i])
                for i in range(size if sets[u] > 0.0 else 0):
                    counts[i] *= max(1.0, sets[u] / used[i])
    for b in range(accesses):
        for i in range(size):
            length = 1.0
            for d in range(s.dim_of[b + 1] - 1, s.dim_of[b] - 1, -1):
                if s.stride[d, begin + i] != length:
                    break
                length *= width[d, i]
            run[b, i] = length


def transfers(extent: Floats, begin: int, touched: Floats, most: Floats, out: Floats) -> None:
    """Count the cache lines that each cache fetches.

    Each run of the outermost loop whose single iterations fit in a cache fetches its lines once.
    extent   [L, N] the extents of the loops
    touched  [1 + C, L + 1, B, n] as in `footprints`: lines, then lines as each cache counts them
    most     [C] the lines that a tile may have; out [C, N]: the lines that are fetched
    """
    _, levels, accesses, size = touched.shape
    outer, total, chosen = np.ones((levels, size)), np.zeros((levels, size)), np.zeros(size)
    for level in range(levels):
        for i in range(size if level > 0 else 0):
            outer[level, i] = outer[level - 1, i] * extent[level - 1, begin + i]
        for b in range(accesses):
            for i in range(size):
                total[level, i] += touched[0, level, b, i]
    for c in range(len(most)):
        out[c, begin : begin + size] = 0.0
        for b in range(accesses):
            for level in range(levels, -1, -1):
                at = min(max(0, level - 1), max(0, levels - 2))
                lines, crowded = touched[0, at, b], touched[c + 1, min(level, levels - 1), b]
                for i in range(size):
                    fits = level == levels or (total[level, i] <= most[c] and crowded[i] <= most[c])
                    chosen[i] = outer[at, i] * lines[i] if fits else chosen[i]
            for i in range(size):
                out[c, begin + i] += chosen[i]


def steps(s: Packed, begin: int, step: Floats) -> None:
    """Compute how far each access moves from the first iteration of each loop to the second.

    step   [L, B, n] the distance in elements, -1 where a loop does not move an access
    """
    loops, accesses, size = step.shape
    end = begin + size
    for level in range(loops):
        for b in range(accesses):
            row = step[level, b]
            for i in range(size):
                row[i] = -1.0
        fresh = np.ones(size)  # 1.0 until the innermost digit with several values has been found
        for g in range(s.digit_of[level + 1] - 1, s.digit_of[level] - 1, -1):
            radix = s.radix[g, begin:end]
            for t in range(s.term_of[g], s.term_of[g + 1]):
                p = s.part[t]
                row, f, r = step[level, s.access[p]], s.factor[p], s.ratio[p]
                coef, stride = s.coef[t, begin:end], s.stride[s.dim[p], begin:end]
                for i in range(size if r < 0 else 0):
                    c, before = abs(coef[i]), row[i]
                    after = max(before, 0.0) + fresh[i] * c * f * stride[i]
                    row[i] = after if c * (radix[i] - 1.0) >= 1.0 else before
                for i in range(size if r >= 0 else 0):
                    c, div, mod = abs(coef[i]), s.div[r, begin + i], s.mod[r, begin + i]
                    jump = (c // div) % mod if mod > 0.0 else c // div
                    if c * (radix[i] - 1.0) >= div:
                        row[i] = max(row[i], 0.0) + fresh[i] * jump * f * stride[i]
            for i in range(size):
                fresh[i] = fresh[i] if radix[i] == 1.0 else 0.0


def accesses(
    s: Packed, begin: int, touched: Floats, step: Floats, run: Floats, about: Floats, first: Ints,
    out: Floats, most: int,
) -> None:  # fmt: skip
    """Write the columns of a statement's accesses; accesses with the most cache lines come first.

    about   [B, 5]: bytes of an element, reads, writes, shared loops, other statements
    first   [N] the column of the first access, -1 to leave the candidate out
    most    how many accesses get columns, WIDTH columns each
    """
    loops, number, size = step.shape
    columns, order = np.zeros((number, WIDTH)), np.zeros(number, np.int64)
    active = np.zeros(loops, np.int64)  # the loops with more than one iteration
    for i in range(size):
        n = begin + i
        if first[n] < 0:
            continue
        times, real = 1.0, 0
        for level in range(loops):
            if s.extent[level, n] > 1.0:
                times *= s.extent[level, n]
                active[real] = level
                real += 1
        for b in range(number):
            item, ratio, moved = about[b, 0], 1.0, 0.0
            kind, uses, between, depth = 2, 0.0, 1.0, -1
            for x in range(real - 1, -1, -1):
                if step[active[x], b, i] >= 0.0:
                    moved = step[active[x], b, i]
                    break
                ratio *= s.extent[active[x], n]
            for x in range(real - 1, -1, -1):
                if step[active[x], b, i] < 0.0:
                    kind, uses, depth = 0, s.extent[active[x], n], active[x] + 1
                    break
                between *= s.extent[active[x], n]
            if kind == 2 and about[b, 3] >= 0.0:
                kind, uses, between, depth = 1, about[b, 4], 1.0, int(about[b, 3])
                for level in range(depth, loops):
                    between *= s.extent[level, n]
            f = columns[b]
            for c in range(WIDTH):
                f[c] = 0.0
            f[0 if about[b, 2] == 0.0 else (1 if about[b, 1] == 0.0 else 2)] = 1.0
            f[3], f[4] = times * item, touched[0, b, i] * item
            f[5] = max(1.0, times / ratio * min(1.0, moved * item / LINE))
            f[6] = max(1.0, f[4] / min(run[b, i] * item, LINE))
            f[7 + kind] = 1.0
            f[10], f[12] = between if kind < 2 else 0.0, uses
            for c in range(number if kind < 2 else 0):
                f[11] += about[c, 0] * touched[depth, c, i]
            for c in range(4):
                f[13 + c] = f[3 + c] / (uses if uses > 0.0 else 0.5)
            f[17] = max(0.0, step[active[real - 1], b, i]) if real > 0 else 0.0
            at = b  # insert access b after those with as many lines and bytes
            while at > 0 and (
                columns[order[at - 1], 5] < f[5]
                or (columns[order[at - 1], 5] == f[5] and columns[order[at - 1], 3] < f[3])
            ):
                order[at] = order[at - 1]
                at -= 1
            order[at] = b
        for x in range(min(number, most)):
            for c in range(WIDTH):
                out[n, first[n] + x * WIDTH + c] = columns[order[x], c]


def marks(
    s: Packed, kind: Ints, reduce: Ints, first: Ints, out: Floats, kinds: int, width: int
) -> None:
    """Write `width` columns for each kind of marked loops: vectorized, unrolled and parallel.

    kind     [L] the number of a loop's kind, -1 for other loops
    reduce   [L] 1 for loops over reduce axes
    The columns: number of loops, product of extents, extent of the innermost loop, eight positions.
    """
    loops, count = s.extent.shape
    ends = np.zeros((2, 2), np.int64)  # innermost and outermost loop over data, over reduce axes
    for n in range(count):
        if first[n] < 0:
            continue
        for r in range(2):
            ends[r, 0], ends[r, 1] = -1, loops
        for level in range(loops):
            if s.extent[level, n] > 1.0:
                ends[reduce[level], 0] = max(ends[reduce[level], 0], level)
                ends[reduce[level], 1] = min(ends[reduce[level], 1], level)
        for k in range(kinds):
            at, common, number, product, inner = first[n] + k * width, 0, 0, 0.0, 0.0
            for level in range(loops):
                if kind[level] == k and s.extent[level, n] > 1.0:
                    position = 3 if level == ends[reduce[level], 1] else 2
                    position = 1 if level == ends[reduce[level], 0] else position
                    position += 3 * reduce[level]
                    common = position if common in (0, position) else 7
                    inner = s.extent[level, n]
                    product = max(product, 1.0) * inner
                    number += 1
            out[n, at], out[n, at + 1], out[n, at + 2] = number, product, inner
            out[n, at + 3 + common] = 1.0


def curve(
    extent: Floats, logs: Floats, begin: int, touched: Floats, sizes: Floats, operations: float,
    first: Ints, out: Floats, points: int,
) -> None:  # fmt: skip
    """Write the curve of arithmetic intensity: operations per byte of the inner loops.

    Point k of K is the intensity where the inner loops do total**(k/K) operations. It is
    interpolated in the logarithm between the loops that do fewer operations and more. `extent`
    [L, N] has the extents of the loops, and `logs` their log2.
    """
    loops, count = len(logs), touched.shape[2]
    if operations == 0.0:
        return
    size, high = np.zeros(loops + 1), np.zeros(loops + 1)
    moved = np.zeros((loops + 1, count))
    for level in range(loops + 1):
        for b in range(len(sizes)):
            for i in range(count):
                moved[level, i] += sizes[b] * touched[level, b, i]
    for i in range(count):
        n = begin + i
        if first[n] < 0:
            continue
        work, operations_done, last = math.log2(operations), operations, -1
        for level in range(loops, -1, -1):
            if level < loops:
                if logs[level, n] == 0.0:
                    continue
                work += logs[level, n]
                operations_done *= extent[level, n]
            last += 1
            size[last], high[last] = work, operations_done / moved[level, i]
        x = 0
        for k in range(points):
            want = work * (k + 1) / points
            while x < last and size[x] < want - 1e-9:
                x += 1
            value = high[x]
            if x > 0:
                part = (want - size[x - 1]) / (size[x] - size[x - 1])
                value = high[x - 1] + (value - high[x - 1]) * max(0.0, part)
            out[n, first[n] + k] = value


def scatter(values: Floats, columns: Ints, first: Ints, out: Floats) -> None:
    """Write values[k, n] to column first[n] + columns[k] of candidate n."""
    for n in range(len(first)):
        if first[n] >= 0:
            for k in range(len(columns)):
                out[n, first[n] + columns[k]] = values[k, n]
