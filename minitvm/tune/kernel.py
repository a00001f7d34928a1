"""The loops over candidates that numba compiles: one set for all sketches.

A statement is data: the arrays of `Packed`. The functions run over candidates, one after the other,
and never call each other. cachesim.compiled compiles them on first use and keeps the code on disk.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]
LINE = 64  # bytes of a cache line


class Packed(NamedTuple):
    """One statement of N candidates as arrays; loops, digits and dimensions outermost first.

    extent     [L, N] of the loops; digit_of [L + 1]: loop l has the digits digit_of[l : l+1]
    radix      [G, N] of the digits; term_of [G + 1]: digit g has the terms term_of[g : g+1]
    part       [T] the part that a term belongs to; coef [T, N]
    dim        [P] the dimension that a part belongs to; factor, div, mod [P, N]; plain [P]: the
               part has neither div nor mod
    base       [D] what a dimension touches at least, less one; stride [D, N]
    dim_of     [B + 1]: access b has the dimensions dim_of[b : b+1]; part_of [D + 1]
    access     [P] the access that a part belongs to
    """

    extent: Floats
    digit_of: Ints
    radix: Floats
    term_of: Ints
    part: Ints
    coef: Floats
    dim: Ints
    factor: Floats
    div: Floats
    mod: Floats
    plain: Ints
    base: Floats
    stride: Floats
    dim_of: Ints
    part_of: Ints
    access: Ints


def footprints(s: Packed, touched: Floats, step: Floats, run: Floats) -> None:
    """Find what the accesses of a statement touch at every loop level.

    touched  [N, L + 1, B] elements that the loops l, l + 1, ... touch; [:, L]: one iteration
    step     [N, L, B] elements from one iteration of loop l to the next, -1 if it does not move
    run      [N, B] contiguous elements among all that are touched
    """
    loops, count = s.extent.shape
    accesses = len(s.dim_of) - 1
    total, width = np.zeros(len(s.plain)), np.zeros(len(s.part_of))
    for n in range(count):
        for p in range(len(total)):
            total[p] = 0.0
        for level in range(loops, -1, -1):
            if level < loops:
                for b in range(accesses):
                    step[n, level, b] = -1.0
                innermost = True
                for g in range(s.digit_of[level + 1] - 1, s.digit_of[level] - 1, -1):
                    more = s.radix[g, n] - 1.0
                    if more <= 0.0:
                        continue
                    for t in range(s.term_of[g], s.term_of[g + 1]):
                        p, c = s.part[t], abs(s.coef[t, n])
                        jump = c
                        if not s.plain[p]:
                            if c * more < s.div[p, n]:
                                jump = 0.0
                            else:
                                jump = math.floor(c / s.div[p, n])
                            if s.mod[p, n] > 0.0:
                                if c % (s.div[p, n] * s.mod[p, n]) == 0.0:
                                    continue
                                jump %= s.mod[p, n]
                        total[p] += c * more
                        if c * more >= s.div[p, n]:
                            b = s.access[p]
                            step[n, level, b] = max(step[n, level, b], 0.0)
                            if innermost:
                                step[n, level, b] += jump * s.factor[p] * s.stride[s.dim[p], n]
                    innermost = False
                if s.extent[level, n] == 1.0:
                    for b in range(accesses):
                        touched[n, level, b] = touched[n, level + 1, b]
                    continue
            for b in range(accesses):
                product = 1.0
                for d in range(s.dim_of[b], s.dim_of[b + 1]):
                    wide = s.base[d] + 1.0
                    for p in range(s.part_of[d], s.part_of[d + 1]):
                        reach = total[p]
                        if not s.plain[p]:
                            reach = math.floor(reach / s.div[p, n])
                            if s.mod[p, n] > 0.0:
                                reach = min(reach, s.mod[p, n] - 1.0)
                        wide += s.factor[p] * reach
                    width[d] = wide
                    product *= wide
                touched[n, level, b] = product
        for b in range(accesses):
            run[n, b] = 1.0
            for d in range(s.dim_of[b + 1] - 1, s.dim_of[b] - 1, -1):
                if s.stride[d, n] != run[n, b]:
                    break
                run[n, b] *= width[d]


def accesses(
    extent: Floats,
    touched: Floats,
    step: Floats,
    run: Floats,
    about: Floats,
    first: Ints,
    out: Floats,
    most: int,
    width: int,
) -> None:
    """Write the columns of the accesses of a statement, those with the most cache lines first.

    about   [B, 5]: bytes of an element, reads, writes, shared loops, other statements
    first   [N] the column of the first access, -1 to leave the candidate out
    most    accesses that have `width` columns each
    """
    loops, count = extent.shape
    number = len(about)
    found, order = np.zeros((number, width)), np.zeros(number, np.int64)
    for n in range(count):
        if first[n] < 0:
            continue
        times, inner = 1.0, loops
        for level in range(loops):
            times *= extent[level, n]
            inner = level if extent[level, n] > 1.0 else inner
        for b in range(number):
            size, ratio, moved = about[b, 0], 1.0, 0.0
            for level in range(loops - 1, -1, -1):
                if extent[level, n] > 1.0:
                    if step[n, level, b] >= 0.0:
                        moved = step[n, level, b]
                        break
                    ratio *= extent[level, n]
            kind, uses, between, around = 2, 0.0, 1.0, 0.0
            for level in range(loops - 1, -1, -1):
                if extent[level, n] > 1.0:
                    if step[n, level, b] < 0.0:
                        kind, uses = 0, extent[level, n]
                        for c in range(number):
                            around += about[c, 0] * touched[n, level + 1, c]
                        break
                    between *= extent[level, n]
            if kind == 2:
                between = 0.0
                if about[b, 3] >= 0.0:
                    kind, uses, between = 1, about[b, 4], 1.0
                    for level in range(int(about[b, 3]), loops):
                        between *= extent[level, n]
                    for c in range(number):
                        around += about[c, 0] * touched[n, int(about[b, 3]), c]
            f = found[b]
            for c in range(width):
                f[c] = 0.0
            f[0 if about[b, 2] == 0.0 else (1 if about[b, 1] == 0.0 else 2)] = 1.0
            f[3], f[4] = times * size, touched[n, 0, b] * size
            f[5] = max(1.0, times / ratio * min(1.0, moved * size / LINE))
            f[6] = max(1.0, f[4] / min(run[n, b] * size, LINE))
            f[7 + kind] = 1.0
            f[10], f[11], f[12] = between, around, uses
            for c in range(4):
                f[13 + c] = f[3 + c] / (uses if uses > 0.0 else 0.5)
            f[17] = max(0.0, step[n, inner, b]) if inner < loops else 0.0
            at = b  # insert it behind those with as many lines and bytes
            while at > 0 and (
                found[order[at - 1], 5] < f[5]
                or (found[order[at - 1], 5] == f[5] and found[order[at - 1], 3] < f[3])
            ):
                order[at] = order[at - 1]
                at -= 1
            order[at] = b
        for x in range(min(number, most)):
            for c in range(width):
                out[n, first[n] + x * width + c] = found[order[x], c]


def marks(
    extent: Floats, kind: Ints, reduce: Ints, first: Ints, out: Floats, kinds: int, width: int
) -> None:
    """Write the columns of loops that are vectorized, unrolled or parallel, `width` for each kind.

    kind     [L] 0, 1, ... for the kinds, -1 for other loops
    reduce   [L] 1 for loops over reduce axes
    The columns: number of loops, product of extents, extent of the innermost, eight positions.
    """
    loops, count = extent.shape
    ends = np.zeros((2, 2), np.int64)  # innermost and outermost loop over data, over reduce axes
    for n in range(count):
        if first[n] < 0:
            continue
        for r in range(2):
            ends[r, 0], ends[r, 1] = -1, loops
        for level in range(loops):
            if extent[level, n] > 1.0:
                ends[reduce[level], 0] = max(ends[reduce[level], 0], level)
                ends[reduce[level], 1] = min(ends[reduce[level], 1], level)
        for k in range(kinds):
            at, place, number, product, inner = first[n] + k * width, 0, 0, 0.0, 0.0
            for level in range(loops):
                if kind[level] == k and extent[level, n] > 1.0:
                    here = 3 if level == ends[reduce[level], 1] else 2
                    here = 1 if level == ends[reduce[level], 0] else here
                    here += 3 * reduce[level]
                    place = here if place in (0, here) else 7
                    inner = extent[level, n]
                    product = max(product, 1.0) * inner
                    number += 1
            out[n, at], out[n, at + 1], out[n, at + 2] = number, product, inner
            out[n, at + 3 + place] = 1.0


def curve(
    extent: Floats, touched: Floats, sizes: Floats, operations: float, first: Ints, out: Floats,
    points: int,
) -> None:  # fmt: skip
    """Write the curve of arithmetic intensity: operations per byte of the inner loops.

    Point k of K is the intensity where the inner loops do total**(k/K) operations, between the
    loops that do fewer and more, linear in the logarithm.
    """
    loops, count = extent.shape
    size, high = np.zeros(loops + 1), np.zeros(loops + 1)
    for n in range(count):
        if first[n] < 0 or operations == 0.0:
            continue
        work = operations
        for level in range(loops, -1, -1):
            if level < loops:
                work *= extent[level, n]
                if extent[level, n] == 1.0:
                    size[level], high[level] = size[level + 1], high[level + 1]
                    continue
            moved = 0.0
            for b in range(len(sizes)):
                moved += sizes[b] * touched[n, level, b]
            size[level], high[level] = math.log2(work), work / moved
        level = loops
        for k in range(points):
            want = size[0] * (k + 1) / points
            while level > 0 and size[level] < want - 1e-9:
                level -= 1
            value = high[level]
            if level < loops and size[level] > size[level + 1]:
                part = (want - size[level + 1]) / (size[level] - size[level + 1])
                value = high[level + 1] + (value - high[level + 1]) * max(0.0, part)
            out[n, first[n] + k] = value
