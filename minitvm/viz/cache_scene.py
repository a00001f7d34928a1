"""CacheLens as a picture: the cache, the tensors as cache lines, a strip of hits and misses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from minitvm import cachesim
from minitvm.accesses import AccessTrace

from .cache_run import (
    USED,
    CachedLine,
    CacheRun,
    cache_text,
    cached_lines,
    footprint_table,
    labels,
    titles,
    totals_table,
)
from .chart import legend
from .controls import Frame
from .kinds import ink
from .scene import Group, Line, Rect, Scene, Shape, Text, clipped, marked

WIDTH, MARGIN, MIDDLE = 900, 12, 520  # pixels; MIDDLE: where the histogram begins
WAY, SET, SIDE = 44, 21, 14  # pixels: width and height of a way; side of a tensor's line
MOST_COLUMNS, MOST_ROWS = 8, 16  # ways per row; rows
MOST_LINES, MOST_BUFFERS, ACROSS = 128, 6, 16  # lines per tensor; tensors; lines per row
WINDOW, BINS = 200, 200  # accesses per window; bins of the whole run
STRIP, TALLEST, HISTOGRAM, LINE = 26, 20, 110, 16
LEFT = 76  # pixels for the names to the left of the strips
UNDER = 1.5  # pixels between the bars and the base line, so that borders do not hide the line
SERIES = ("pale_sky", "pale_orange", "pale_pink", "pale_yellow", "pale_blue")
LOOKS = (("green", 5), ("blue", 10), ("orange", 15), ("red", 20))  # outcome: kind, bar height


@dataclass(frozen=True, slots=True, eq=False)
class AccessRange:
    """The accesses `start` to `stop` - 1, and what to draw for them.

    sets    the numbers of the sets that are drawn
    shown   for each tensor, the numbers of its lines that are drawn
    """

    run: CacheRun
    start: int
    stop: int
    cached_lines: tuple[CachedLine, ...]
    sets: tuple[int, ...]
    shown: tuple[tuple[int, ...], ...]


def window(run: CacheRun, start: int) -> AccessRange:
    """Return the window of at most WINDOW accesses that begins at access `start` of a run."""
    stop = min(start + WINDOW, len(run.trace))
    used = sorted({int(x) % run.cache.sets for x in run.lines[start:stop]})
    rows = max(1, MOST_ROWS // -(-run.ways // MOST_COLUMNS))
    sets = tuple(range(run.cache.sets) if run.cache.sets <= rows else used[:rows])
    drawn = [t for t in cached_lines(run, start, stop) if t.set in sets]
    ways = MOST_ROWS * MOST_COLUMNS
    shown = tuple(_shown(run, n, start, stop) for n in range(len(run.trace.buffers)))
    return AccessRange(run, start, stop, tuple(t for t in drawn if t.way < ways), sets, shown)


def _shown(run: CacheRun, n: int, start: int, stop: int) -> tuple[int, ...]:
    """Return the lines of the n-th tensor to draw: all or, if many, the accessed lines."""
    b = run.trace.buffers[n]
    count = lines_of(run, n)
    if count <= MOST_LINES:
        return tuple(range(count))
    here = run.lines[start:stop][run.trace.buffer[start:stop] == n]
    return tuple((np.unique(here) - b.base // run.cache.line).tolist())[:MOST_LINES]


def lines_of(run: CacheRun, n: int) -> int:
    """Return the number of cache lines that contain elements of the n-th tensor."""
    b = run.trace.buffers[n]
    return max(1, -(-int(np.prod(b.shape)) * b.itemsize // run.cache.line))


def kind_of(buffer: int) -> str:
    """Return the kind, from KINDS, in which the lines of the n-th tensor are drawn."""
    return SERIES[buffer % len(SERIES)]


# --- the picture ---------------------------------------------------------------------------------


def cache_scene(
    w: AccessRange, at: int | None = None, marks: Mapping[str, str] | None = None
) -> Scene:
    """Draw the cache, the tensors, the accesses, the reuse distances and the footprints.

    at      the access after which the cache is drawn; by default its lines are invisible
    marks   key -> kind: the marks in the frame of access `at`
    """
    run, trace = w.run, w.run.trace
    title = f"{len(trace)} accesses through a cache of {cache_text(run.cache)}"
    shapes: list[Shape] = [Text(MARGIN, 20, title, bold=True)]
    cache, below = cache_shapes(w, MARGIN, 34, at)
    beside = MARGIN + 52 + max(2, min(run.ways, MOST_COLUMNS)) * WAY + 40
    tensors, deepest = tensor_shapes(w, beside, 34)
    strip, y = strip_shapes(w, MARGIN, max(below, deepest) + 14)
    shapes += [*cache, *tensors, *strip]
    if len(trace) > WINDOW:
        whole, y = overview_shapes(w, MARGIN, y + 8)
        shapes += whole
    tables = [*totals_table(run), "", *footprint_table(run)]
    y += 32
    for n, text in enumerate(tables):
        bold = n == 0 or text == USED
        shapes.append(Text(MARGIN, y + LINE * n, text, size=12, mono=True, bold=bold))
    bars, bottom = histogram_shapes(run.distances, run.cache.lines, MIDDLE, y - 12)
    height = max(y + LINE * len(tables), bottom) + 4
    return marked(Scene(WIDTH, height, (*shapes, *bars), title, str(run.replay)), marks or {})


def cache_shapes(w: AccessRange, x: float, y: float, at: int | None) -> tuple[list[Shape], float]:
    """Draw the sets as rows of ways; return the shapes and the y coordinate of their lower edge."""
    run = w.run
    rows = -(-min(run.ways, MOST_ROWS * MOST_COLUMNS) // MOST_COLUMNS)
    left = x + 52
    shapes: list[Shape] = [Text(x, y + 12, "the cache", size=12, bold=True)]
    note = _cache_note(w)
    if note:
        shapes.append(Text(left + 30, y + 12, note, "soft", 12))
    top = y + 20
    for n, s in enumerate(w.sets):
        base = top + n * rows * SET
        shapes.append(Text(x, base + 15, f"set {s}", "soft", 12))
        for way in range(min(run.ways, rows * MOST_COLUMNS)):
            shapes.append(Rect(*_corner(left, base, way), WAY, SET, "cell"))
    names = labels(run.trace)
    for k, t in enumerate(w.cached_lines):
        if at is None or t.first <= at < t.last:
            base = top + w.sets.index(t.set) * rows * SET
            shapes.append(_line(w, k, names, _corner(left, base, t.way), at is None))
    return shapes, top + len(w.sets) * rows * SET


def _cache_note(w: AccessRange) -> str:
    run, most = w.run, MOST_ROWS * MOST_COLUMNS
    notes: list[str] = []
    if len(w.sets) < run.cache.sets:
        notes.append(f"{len(w.sets)} of {run.cache.sets} sets, used in this window")
    if run.ways > most:
        notes.append(f"{most} of {run.ways} ways")
    return ", ".join(notes)


def _corner(left: float, top: float, way: int) -> tuple[float, float]:
    row, column = divmod(way, MOST_COLUMNS)
    return left + column * WAY, top + row * SET


def _line(
    w: AccessRange, k: int, names: tuple[str, ...], corner: tuple[float, float], hidden: bool
) -> Group:
    """Draw the k-th cached line; if `hidden`, it is invisible until a frame shows it."""
    t = w.cached_lines[k]
    buffer, number = w.run.own(t.line)
    kind = kind_of(buffer)
    (x, y), text = corner, f"{names[buffer]} {number}"
    look, letters = ("hidden", "hidden") if hidden else (kind, ink(kind))
    shown = clipped(text, WAY - 2, 12)
    return Group(
        (
            Rect(x, y, WAY, SET, look),
            Text(x + WAY / 2, y + 15, shown, letters, 12, anchor="middle"),
        ),
        f"t{k}",
        f"line {number} of {w.run.trace.buffers[buffer].name}",
    )


def tensor_shapes(w: AccessRange, x: float, y: float) -> tuple[list[Shape], float]:
    """Draw the tensors as grids of cache lines; return the shapes and their lower edge."""
    shapes: list[Shape] = []
    left, top, bottom = x, y, y
    for n in range(min(len(w.shown), MOST_BUFFERS)):
        title, columns = _tensor_title(w, n), _columns(w, n)
        rows = -(-len(w.shown[n]) // columns)
        width = max(columns * SIDE, len(title) * 7 + 18)
        if left > x and left + width > WIDTH - MARGIN:
            left, top = x, bottom + 10
        shapes.append(Rect(left, top + 2, 12, 12, kind_of(n)))
        shapes.append(Text(left + 18, top + 12, title, size=12))
        for k, line in enumerate(w.shown[n]):
            at = left + k % columns * SIDE, top + 20 + k // columns * SIDE
            shapes.append(Rect(*at, SIDE, SIDE, "cell", f"{n}/{line}", _elements(w.run, n, line)))
        left += width + 18
        bottom = max(bottom, top + 20 + rows * SIDE)
    if len(w.shown) > MOST_BUFFERS:
        bottom += 18
        text = f"and {len(w.shown) - MOST_BUFFERS} more tensors"
        shapes.append(Text(x, bottom - 2, text, "soft", 12))
    return shapes, bottom


def _tensor_title(w: AccessRange, n: int) -> str:
    """Return the title of the n-th tensor, such as "A: 16 lines"."""
    b, name = w.run.trace.buffers[n], labels(w.run.trace)[n]
    count, shown = lines_of(w.run, n), len(w.shown[n])
    lead = name if name == b.name else f"{name} = {clipped(b.name, 160, 12)}"
    some = f"{shown} of {count} lines, used here" if shown < count else f"{count} lines"
    return f"{lead}: {some}" if count > 1 else f"{lead}: 1 line"


def _columns(w: AccessRange, n: int) -> int:
    """Return how many cache lines to draw in a row: as many as a tensor row has, if they fit."""
    b, line = w.run.trace.buffers[n], w.run.cache.line
    count = len(w.shown[n])
    row = b.shape[-1] * b.itemsize if b.shape else 0
    if count == lines_of(w.run, n) and row and row % line == 0:
        each = row // line
        if each <= ACROSS and count // each <= MOST_ROWS:
            return each
    return min(ACROSS, max(1, count))


def _elements(run: CacheRun, n: int, line: int) -> str:
    """Describe the elements of a line, such as "line 3 of A: elements 48 .. 63"."""
    b = run.trace.buffers[n]
    each = run.cache.line // b.itemsize
    last = min((line + 1) * each, int(np.prod(b.shape))) - 1
    return f"line {line} of {b.name}: elements {line * each} .. {last}"


def strip_shapes(w: AccessRange, x: float, y: float) -> tuple[list[Shape], float]:
    """Draw a bar for each access in the row of its tensor; return the shapes and lower edge."""
    trace, outcome = w.run.trace, w.run.replay.outcome
    shapes: list[Shape] = [
        Text(x, y + 12, f"accesses {w.start + 1} to {w.stop}", size=12, bold=True)
    ]
    entries = (
        ([Rect(0, 2 - tall * 0.7, 6, tall * 0.7, kind)], 6, name if n == 0 else f"miss: {name}")
        for n, (name, (kind, tall)) in enumerate(zip(cachesim.OUTCOMES, LOOKS, strict=True))
    )
    shapes += legend(entries, y + 12, WIDTH, x + 200)[0]
    top = y + 22
    each = min(10, (WIDTH - x - LEFT - MARGIN) / (w.stop - w.start))
    rows, gap = min(len(trace.buffers), MOST_BUFFERS), min(1.0, each / 4)
    for n in range(w.stop - w.start):  # each frame shows the column of one access
        shapes.append(Rect(x + LEFT + n * each, top, each, rows * STRIP, "hidden", f"a{n}"))
    shapes += _rows_of(trace, x, top)
    for n in range(w.start, w.stop):
        row = int(trace.buffer[n])
        if row < rows:
            kind, tall = LOOKS[int(outcome[n])]
            base = top + (row + 1) * STRIP - 2
            left = x + LEFT + (n - w.start) * each
            shapes.append(Rect(left, base - tall, each - gap, tall, kind))
    return shapes, top + rows * STRIP


def _rows_of(trace: AccessTrace, x: float, top: float) -> Iterator[Shape]:
    """Draw the name and the base line of each tensor's row."""
    for n, name in enumerate(titles(trace)[:MOST_BUFFERS]):
        base = top + (n + 1) * STRIP - 2
        yield Rect(x, base - 14, 12, 12, kind_of(n))
        yield Text(x + 18, base - 4, clipped(name, LEFT - 22, 12), size=12)
        below = base + UNDER
        yield Line(((x + LEFT, below), (WIDTH - MARGIN, below)), "axis")


def overview_shapes(w: AccessRange, x: float, y: float) -> tuple[list[Shape], float]:
    """Draw the share of misses over the whole run, a row per tensor, with a frame at the window."""
    trace, n = w.run.trace, len(w.run.trace)
    rows, wide = min(len(trace.buffers), MOST_BUFFERS), WIDTH - x - LEFT - MARGIN
    shares = _shares(w.run, rows)
    highest = max(sum(misses) / accesses for _, _, accesses, misses in shares)
    text = f"the whole run: share of misses in each {-(-n // BINS)} accesses, up to {highest:.0%}"
    shapes: list[Shape] = [Text(x, y + 12, text, size=12, bold=True)]
    top, each = y + 22, wide / BINS
    for k in range(BINS):  # clickable even without misses
        shapes.append(Rect(x + LEFT + k * each, top, each, rows * STRIP, "paper", f"bin:{k}"))
    for row, k, accesses, misses in shares:
        tip = f"{trace.buffers[row].name}: {sum(misses)} of {accesses} accesses miss"
        at, base = x + LEFT + k * each, top + (row + 1) * STRIP - 2
        scale = TALLEST / highest / accesses
        scale *= max(1, 2 / (scale * sum(misses)))  # at least two pixels
        for count, (kind, _) in zip(misses, LOOKS[1:], strict=True):
            if count:
                base -= count * scale
                shapes.append(Rect(at, base, each, count * scale, kind, f"bin:{k}", tip))
    shapes += _rows_of(trace, x, top)
    low, high = (x + LEFT + wide * k / n for k in (w.start, w.stop))
    shapes.append(Rect(low - 1, top - 2, max(4.0, high - low + 2), rows * STRIP + 4, "line"))
    return shapes, top + rows * STRIP


def _shares(run: CacheRun, buffers: int) -> list[tuple[int, int, int, list[int]]]:
    """Return (buffer, bin, accesses, misses by kind) for each bin of the run that has misses."""
    edges = np.arange(BINS) * len(run.trace) // BINS
    kinds = [run.replay.outcome == n for n in range(len(LOOKS))]
    found: list[tuple[int, int, int, list[int]]] = []
    for row in range(buffers):
        mine = run.trace.buffer == row
        counts = [np.add.reduceat(mine & kind, edges, dtype=np.int64).tolist() for kind in kinds]
        parts = enumerate(zip(*counts, strict=True))
        found += [(row, k, hits + sum(m), m) for k, (hits, *m) in parts if any(m)]
    return found


def histogram_shapes(
    h: cachesim.Histogram, lines: int, x: float, y: float
) -> tuple[list[Shape], float]:
    """Draw the histogram of reuse distances, with the number of lines in the cache marked."""
    wide = WIDTH - MARGIN - x
    counts = [*h.counts.tolist(), h.cold]
    names = [*(_number(n) for n in h.low.tolist()), "first"]
    total, each = max(1, sum(counts)), wide / len(counts)
    base = y + 52 + HISTOGRAM
    shapes: list[Shape] = [
        Text(x, y + 10, "reuse distance: other lines used since the last use", size=12, bold=True)
    ]
    for k, (count, name) in enumerate(zip(counts, names, strict=True)):
        cold = k == len(counts) - 1
        kind = "blue" if cold else "green" if int(h.low[k]) < lines else "orange"
        tall = HISTOGRAM * count / max(counts)
        left, middle = x + k * each, x + (k + 0.5) * each
        tip = f"{name}: {count} of {total} accesses"
        if count:
            shapes.append(Rect(left + 2, base - tall, each - 4, tall, kind, tip=tip))
        if count and each >= 26:
            text = f"{count / total:.0%}" if count / total >= 0.005 else "<1%"
            shapes.append(Text(middle, base - tall - 4, text, size=12, anchor="middle"))
        if each >= 26 or k % 2 == 0 or cold:
            shapes.append(Text(middle, base + 15, name, size=12, anchor="middle"))
    at = x + _position(lines, len(h.low)) * each
    shapes.append(Line(((x, base + UNDER), (x + wide, base + UNDER)), "axis"))
    shapes.append(Line(((at, base), (at, y + 22)), "dashed"))
    side, anchor = (-6, "end") if at > x + wide / 2 else (6, "start")
    shapes.append(Text(at + side, y + 28, f"the cache: {lines} lines", "soft", 12, anchor))
    return shapes, base + 20


def _position(lines: int, bins: int) -> float:
    """Return where the distance `lines` lies on the axis, in bins: 1 -> 1, 4 -> 3, 6 -> 3.5"""
    k = lines.bit_length()
    return min(bins, k + lines / (1 << (k - 1)) - 1)


def _number(n: int) -> str:
    """Return a number as short text: 1024 -> 1k"""
    for unit, text in ((1 << 20, "M"), (1 << 10, "k")):
        if n >= unit:
            return f"{n // unit}{text}"
    return str(n)


# --- frames --------------------------------------------------------------------------------------


def cache_frames(w: AccessRange) -> tuple[Frame, ...]:
    """Return one frame per access of the window: the contents of the cache, and the outcome."""
    owners = [w.run.own(t.line) for t in w.cached_lines]
    return tuple(_frame(w, n, owners) for n in range(w.start, w.stop))


def _frame(w: AccessRange, n: int, owners: list[tuple[int, int]]) -> Frame:
    run, names, now = w.run, labels(w.run.trace), int(w.run.lines[n])
    outcome = LOOKS[int(run.replay.outcome[n])][0]
    marks: dict[str, str] = {}
    out = ""
    for k, (t, (buffer, number)) in enumerate(zip(w.cached_lines, owners, strict=True)):
        if t.first <= n < t.last:
            kind = outcome if t.line == now else kind_of(buffer)
            marks[f"t{k}"] = kind
            marks[f"{buffer}/{number}"] = kind
        elif t.last == n and t.set == now % run.cache.sets:
            out = f", drives out {names[buffer]} {number}"
    buffer, number = run.own(now)
    marks[f"{buffer}/{number}"] = outcome
    marks[f"a{n - w.start}"] = "now"
    site = run.trace.sites[int(run.trace.site[n])]
    marks[f"line:{site.line}"] = "now"
    return Frame(marks, _caption(run, n, f"line {names[buffer]} {number}{out}"))


def _caption(run: CacheRun, n: int, where: str) -> str:
    trace = run.trace
    site = trace.sites[int(trace.site[n])]
    counters = ", ".join(f"{name}={value}" for name, value in trace.counters(n).items())
    verb = "stores" if site.write else "loads"
    code = int(run.replay.outcome[n])
    what = "hit" if code == cachesim.HIT else f"{cachesim.OUTCOMES[code]} miss"
    return (
        f"access {n + 1} of {len(trace)}  {counters}\n"
        f"{verb} {site.text}, element {int(trace.index[n])}: {what} in {where}"
    )
