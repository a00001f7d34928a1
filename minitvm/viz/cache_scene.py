"""CacheLens as a picture: the cache, the tensors as cache lines, a strip of hits and misses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minitvm import cachesim
from minitvm.accesses import AccessTrace

from .boxes import Box, block, cells, column, flow, framed, legend, over, row, sized, text
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
from .controls import Frame
from .marks import Bar, Mark, Path, Rule
from .plot import EDGE, Axis, plot
from .scene import clipped

WIDTH, HISTOGRAM = 880, 368  # pixels: of the picture, without margins; of the histogram
WAY, SET, SIDE = 44, 21, 14  # pixels: width and height of a way; side of a tensor's line
SETS, APART = 52, 40  # pixels: for the names of the sets, from the cache to the tensors
MAX_COLUMNS, MAX_ROWS = 8, 16  # ways per row; rows
MAX_LINES, MAX_BUFFERS, ACROSS = 128, 6, 16  # lines per tensor; tensors; lines per row
WINDOW, BINS = 200, 200  # accesses per window; bins of the whole run
STRIP, TALLEST, WIDEST = 26, 20, 10  # pixels: a row of bars, the highest bar, the widest bar
NAMES = 56  # pixels: longer names of tensors beside the bars are cut
UNDER = 2.5 / STRIP  # below the bars of a row, so that borders do not hide the base line
SERIES = ("pale_sky", "pale_orange", "pale_pink", "pale_yellow", "pale_blue")
SHARE = 26  # pixels: the narrowest bar with its share above it
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
    rows = max(1, MAX_ROWS // -(-run.ways // MAX_COLUMNS))
    sets = tuple(range(run.cache.sets) if run.cache.sets <= rows else used[:rows])
    drawn = [t for t in cached_lines(run, start, stop) if t.set in sets]
    ways = MAX_ROWS * MAX_COLUMNS
    shown = tuple(_shown(run, n, start, stop) for n in range(len(run.trace.buffers)))
    return AccessRange(run, start, stop, tuple(t for t in drawn if t.way < ways), sets, shown)


def _shown(run: CacheRun, n: int, start: int, stop: int) -> tuple[int, ...]:
    """Return the lines of the n-th tensor to draw: all or, if many, the accessed lines."""
    b = run.trace.buffers[n]
    count = lines_of(run, n)
    if count <= MAX_LINES:
        return tuple(range(count))
    accessed = run.lines[start:stop][run.trace.buffer[start:stop] == n]
    return tuple((np.unique(accessed) - b.base // run.cache.line).tolist())[:MAX_LINES]


def lines_of(run: CacheRun, n: int) -> int:
    """Return the number of cache lines that contain elements of the n-th tensor."""
    b = run.trace.buffers[n]
    return max(1, -(-int(np.prod(b.shape)) * b.itemsize // run.cache.line))


def kind_of(buffer: int) -> str:
    """Return the kind, from KINDS, in which the lines of the n-th tensor are drawn."""
    return SERIES[buffer % len(SERIES)]


# --- the picture ---------------------------------------------------------------------------------


def title(run: CacheRun) -> str:
    """Return the number of accesses and the cache as text."""
    return f"{len(run.trace)} accesses through a cache of {cache_text(run.cache)}"


def cache_box(w: AccessRange) -> Box:
    """Draw a window of accesses; the lines in the cache are hidden until a frame shows them."""
    run, cache = w.run, _cache(w)
    left = max(cache.width, SETS + 2 * WAY) + APART
    lines = [*totals_table(run), "", *footprint_table(run)]
    tables = column(
        *(text(t, mono=True, bold=n == 0 or t == USED) for n, t in enumerate(lines)), gap=1
    )
    return column(
        text(title(run), size=13, bold=True),
        row(sized(cache, left), _tensors(w, WIDTH - left), gap=0),
        _strip(w),
        _overview(w) if len(run.trace) > WINDOW else None,
        row(sized(tables, WIDTH - HISTOGRAM), _histogram(run), gap=0),
        gap=12,
    )


def _cache(w: AccessRange) -> Box:
    """Draw the sets as rows of ways, and all lines of the window in them."""
    run, trace = w.run, w.run.trace
    rows = -(-min(run.ways, MAX_ROWS * MAX_COLUMNS) // MAX_COLUMNS)
    sets = (sized(text(f"set {s}", "soft"), SETS, rows * SET) for s in w.sets)

    def place(n: int, way: int) -> tuple[int, int]:
        row_number, column_number = divmod(way, MAX_COLUMNS)
        return n * rows + row_number, column_number

    ways = range(min(run.ways, rows * MAX_COLUMNS))
    grid = cells(((*place(n, k), "", "") for n in range(len(w.sets)) for k in ways), WAY, SET)
    lines = list[tuple[Box, float, float]]()
    for k, t in enumerate(w.cached_lines):
        label = text(f"{labels(trace)[t.buffer]} {t.number}", "hidden", width=WAY, anchor="middle")
        label_box = sized(label, WAY, SET, down=0.5)
        tip = f"line {t.number} of {trace.buffers[t.buffer].name}"
        line = framed(label_box, "hidden", f"t{k}", tip, inset=0, radius=0)
        row_number, column_number = place(w.sets.index(t.set), t.way)
        lines.append((line, column_number * WAY, row_number * SET))
    return column(
        row(text("the cache", bold=True), text(_cache_note(w), "soft"), gap=12),
        row(column(*sets, gap=0), over((grid, 0, 0), *lines), gap=0),
        gap=5,
    )


def _cache_note(w: AccessRange) -> str:
    run, most = w.run, MAX_ROWS * MAX_COLUMNS
    notes: list[str] = []
    if len(w.sets) < run.cache.sets:
        notes.append(f"{len(w.sets)} of {run.cache.sets} sets, used in this window")
    if run.ways > most:
        notes.append(f"{most} of {run.ways} ways")
    return ", ".join(notes)


def _tensors(w: AccessRange, width: float) -> Box:
    """Draw the tensors as grids of cache lines."""
    left = len(w.shown) - MAX_BUFFERS
    tensors = [_tensor(w, n) for n in range(min(len(w.shown), MAX_BUFFERS))]
    more = text(f"and {left} more tensors", "soft") if left > 0 else None
    return column(flow(tensors, width, between=10), more)


def _tensor(w: AccessRange, n: int) -> Box:
    column_count = _columns(w, n)
    cell_specs = (
        (*divmod(k, column_count), f"{n}/{line}", _elements(w.run, n, line))
        for k, line in enumerate(w.shown[n])
    )
    head = row(block(kind_of(n), 12, 12), text(_tensor_title(w, n)), gap=6)
    return column(head, cells(cell_specs, SIDE, SIDE), gap=5)


def _tensor_title(w: AccessRange, n: int) -> str:
    """Return the title of the n-th tensor, such as "A: 16 lines"."""
    b, name = w.run.trace.buffers[n], labels(w.run.trace)[n]
    count, shown = lines_of(w.run, n), len(w.shown[n])
    lead = name if name == b.name else f"{name} = {clipped(b.name, 160, 12)}"
    lines_text = f"{shown} of {count} lines, used here" if shown < count else f"{count} lines"
    return f"{lead}: {lines_text}" if count > 1 else f"{lead}: 1 line"


def _columns(w: AccessRange, n: int) -> int:
    """Return how many cache lines to draw in a row: as many as a tensor row has, if they fit."""
    b, line = w.run.trace.buffers[n], w.run.cache.line
    count = len(w.shown[n])
    row = b.shape[-1] * b.itemsize if b.shape else 0
    if count == lines_of(w.run, n) and row and row % line == 0:
        lines_per_row = row // line
        if lines_per_row <= ACROSS and count // lines_per_row <= MAX_ROWS:
            return lines_per_row
    return min(ACROSS, max(1, count))


def _elements(run: CacheRun, n: int, line: int) -> str:
    """Describe the elements of a line, such as "line 3 of A: elements 48 .. 63"."""
    b = run.trace.buffers[n]
    per_line = run.cache.line // b.itemsize
    last = min((line + 1) * per_line, int(np.prod(b.shape))) - 1
    return f"line {line} of {b.name}: elements {line * per_line} .. {last}"


def _rows(trace: AccessTrace) -> Axis:
    """Return an axis with a row for each tensor."""
    names = [clipped(name, NAMES) for name in titles(trace)[:MAX_BUFFERS]]
    return Axis(names=names, icons=[kind_of(n) for n in range(len(names))])


def _strip(w: AccessRange) -> Box:
    """Draw a bar for each access in the row of its tensor."""
    trace, rows = w.run.trace, _rows(w.run.trace)
    tall, count = STRIP * len(rows.names), w.stop - w.start
    wide = WIDTH - rows.side(tall)
    samples = {
        f"{kind} bar": name if n == 0 else f"miss: {name}"
        for n, (name, (kind, _)) in enumerate(zip(cachesim.OUTCOMES, LOOKS, strict=True))
    }
    marks: list[Mark] = [  # each frame shows the column of one access
        Bar(n, None, n + 1, None, "hidden", f"a{n}") for n in range(count)
    ]
    marks += _base_lines(rows)
    gap = min(1.0, wide / count / 4)
    for n in range(count):
        lane, code = int(trace.buffer[w.start + n]), int(w.run.replay.outcome[w.start + n])
        if lane < len(rows.names):
            kind, high = LOOKS[code]
            base = lane + 1 - UNDER
            marks.append(Bar(n, base - high / STRIP, n + 1, base, kind, gap=gap))
    x = Axis(0, max(count, wide / WIDEST), hidden=True)
    head = text(f"accesses {w.start + 1} to {w.stop}", bold=True)
    return column(row(head, legend(samples, WIDTH), gap=30), plot(x, rows, marks, WIDTH, tall))


def _base_lines(rows: Axis) -> list[Mark]:
    return [Rule(y=n + 1, kind="axis") for n in range(len(rows.names))]


def _overview(w: AccessRange) -> Box:
    """Draw the share of misses over the whole run, a row per tensor, with a frame at the window."""
    trace, count, rows = w.run.trace, len(w.run.trace), _rows(w.run.trace)
    shares = _shares(w.run, len(rows.names))
    highest = max(sum(misses) / accesses for _, _, accesses, misses in shares)
    words = f"the whole run: share of misses in each {-(-count // BINS)} accesses, up to"
    marks: list[Mark] = [  # clickable even without misses
        Bar(k, None, k + 1, None, "paper", f"bin:{k}") for k in range(BINS)
    ]
    marks += _base_lines(rows)
    for lane, k, accesses, misses in shares:
        tip = f"{trace.buffers[lane].name}: {sum(misses)} of {accesses} accesses miss"
        base, scale = lane + 1 - UNDER, TALLEST / highest / accesses
        scale *= max(1, 2 / (scale * sum(misses))) / STRIP  # at least two pixels
        for misses_of_kind, (kind, _) in zip(misses, LOOKS[1:], strict=True):
            if misses_of_kind:
                top = base - misses_of_kind * scale
                marks.append(Bar(k, top, k + 1, base, kind, f"bin:{k}", tip))
                base = top
    low, high = BINS * w.start / count, BINS * w.stop / count
    high, bottom = max(high, low + 1), len(rows.names)
    marks.append(Path([(low, 0), (high, 0), (high, bottom), (low, bottom), (low, 0)]))
    chart = plot(Axis(0, BINS, hidden=True), rows, marks, WIDTH, STRIP * bottom)
    return column(text(f"{words} {highest:.0%}", bold=True), chart)


def _shares(run: CacheRun, buffers: int) -> list[tuple[int, int, int, list[int]]]:
    """Return (buffer, bin, accesses, misses by kind) for each bin of the run that has misses."""
    edges = np.arange(BINS) * len(run.trace) // BINS
    kinds = [run.replay.outcome == n for n in range(len(LOOKS))]
    shares: list[tuple[int, int, int, list[int]]] = []
    for lane in range(buffers):
        accessed = run.trace.buffer == lane
        counts = [
            np.add.reduceat(accessed & kind, edges, dtype=np.int64).tolist() for kind in kinds
        ]
        parts = enumerate(zip(*counts, strict=True))
        shares += [(lane, k, hits + sum(m), m) for k, (hits, *m) in parts if any(m)]
    return shares


def _histogram(run: CacheRun) -> Box:
    """Draw the histogram of reuse distances, with the number of lines in the cache marked."""
    h, lines = run.distances, run.cache.lines
    counts = [*h.counts.tolist(), h.cold]
    names = [*(_number(n) for n in h.low.tolist()), "first"]
    total, most = max(1, sum(counts)), max(*counts, 1)
    kinds = ["green" if low < lines else "orange" for low in h.low.tolist()] + ["blue"]
    wide = (HISTOGRAM - EDGE) / len(counts)
    marks = list[Mark]()
    for k, (count, name, kind) in enumerate(zip(counts, names, kinds, strict=True)):
        share = f"{count / total:.0%}" if count / total >= 0.005 else "<1%"
        if count:
            tip = f"{name}: {count} of {total} accesses"
            above = share if wide >= SHARE else ""
            marks.append(Bar(k + 0.1, 0, k + 0.9, count, kind, tip=tip, above=above))
    at = _position(lines, len(h.low))
    marks.append(Rule(at, text=f"the cache: {lines} lines"))
    head = text("reuse distance: other lines since the last use", bold=True)
    x, y = Axis(names=names), Axis(0, 1.5 * most, hidden=True)
    return column(head, plot(x, y, marks, HISTOGRAM, 176))


def _position(lines: int, bins: int) -> float:
    """Return where the distance `lines` lies on the axis, in bins: 1 -> 1, 4 -> 3, 6 -> 3.5"""
    k = lines.bit_length()
    return min(bins, k + lines / (1 << (k - 1)) - 1)


def _number(n: int) -> str:
    """Return a number as short text: 1024 -> 1k"""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "k")):
        if n >= unit:
            return f"{n // unit}{letter}"
    return str(n)


# --- frames --------------------------------------------------------------------------------------


def cache_frames(w: AccessRange) -> tuple[Frame, ...]:
    """Return one frame per access of the window: the contents of the cache, and the outcome."""
    return tuple(_frame(w, n) for n in range(w.start, w.stop))


def _frame(w: AccessRange, n: int) -> Frame:
    run, trace, names, line = w.run, w.run.trace, labels(w.run.trace), int(w.run.lines[n])
    code, site = int(run.replay.outcome[n]), trace.sites[int(trace.site[n])]
    marks: dict[str, str] = {}
    out = ""
    for k, t in enumerate(w.cached_lines):
        if t.first <= n < t.last:
            marks[f"t{k}"] = marks[t.key] = LOOKS[code][0] if t.line == line else kind_of(t.buffer)
        elif t.last == n and t.set == line % run.cache.sets:
            out = f", drives out {names[t.buffer]} {t.number}"
    buffer, number = run.own(line)
    marks |= {f"{buffer}/{number}": LOOKS[code][0], f"a{n - w.start}": "now"}
    marks[f"line:{site.line}"] = "now"
    counters = ", ".join(f"{name}={value}" for name, value in trace.counters(n).items())
    what = "hit" if code == cachesim.HIT else f"{cachesim.OUTCOMES[code]} miss"
    access = f"{'stores' if site.write else 'loads'} {site.text}, element {int(trace.index[n])}"
    caption = (
        f"access {n + 1} of {len(trace)}  {counters}\n"
        f"{access}: {what} in line {names[buffer]} {number}{out}"
    )
    return Frame(marks, caption)
