"""CacheLens: the accesses of a program, one after the other, through a simulated cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitvm.accesses import AccessTrace, record
from minitvm.base import ArgumentError
from minitvm.cachesim import Cache
from minitvm.te import Schedule
from minitvm.tir import PrimFunc

from .cache_run import (
    CacheRun,
    cache_run,
    cache_text,
    check_cache,
    footprint_table,
    size_text,
    totals_table,
)
from .cache_scene import BINS, MARGIN, WINDOW, Window, cache_frames, cache_scene, window
from .chart import captioned
from .controls import Control, Layout, Panel, Select, Slider, index_in, numbered
from .scene import Scene, wrapped
from .visual import Visual

SMALL = Cache(1024, 64, 2)  # a cache that can be seen as a whole
BYTES = tuple(1 << k for k in range(8, 20))
LINES = tuple(1 << k for k in range(4, 9))
WAYS = ("1", "2", "4", "8", "16", "all")
POLICIES = ("lru", "fifo")


class CacheLens(Visual):
    """What a cache makes of a program: which access hits, which misses, and why.

    On the left the sets and ways with the lines they hold, on the right the tensors in lines; the
    line just used is green for a hit, red for a miss. The browser plays a window of 200 accesses;
    below it the whole run, on which another window can be clicked. Totals are those of all
    accesses. The histogram says how many other lines are used before a line is used again: what
    lies right of the mark no cache of this size keeps (unless by luck), whatever its ways.

    s       a schedule, a lowered program, or a run recorded by accesses.record(s, sizes=...)
    args    inputs and outputs as for lower(); by default all of them
    cache   a small one by default, of 1 KiB, so that all of it is seen
    """

    def __init__(
        self,
        s: Schedule | PrimFunc | AccessTrace,
        args: Sequence[Any] | None = None,
        cache: Cache = SMALL,
    ) -> None:
        self._show(cache_run(recorded("CacheLens", s, args), check_cache(cache)), 0)
        super().__init__()

    def _show(self, run: CacheRun, start: int) -> None:
        """Look at a run, from an access on."""
        self.run: CacheRun = run
        self._window: Window = window(run, start)
        self._frames = cache_frames(self._window)

    @property
    def cache(self) -> Cache:
        """The cache as it was chosen last."""
        return self.run.cache

    def scene(self) -> Scene:
        """The cache, empty ways where frames have not filled them; strips, tables, histogram."""
        return cache_scene(self._window)

    def picture(self) -> Scene:
        """The moment half way through the window, and what is said about it."""
        w = self._window
        half = len(self._frames) // 2
        frame = self._frames[half]
        there = cache_scene(w, w.start + half, frame.marks)
        parts = [p for line in frame.caption.split("\n") for p in wrapped(line, there.width - 20)]
        return captioned(there, parts, MARGIN, "soft", gap=14, below=14)

    def ascii(self) -> str:
        """Cache, totals, and the footprint of every loop."""
        run = self.run
        head = f"{len(run.trace)} accesses through a cache of {cache_text(run.cache)}"
        return "\n".join([head, "", *totals_table(run), "", *footprint_table(run)])

    def layout(self) -> Layout:
        """The cache's size, line, ways and policy; the window; the program."""
        lines = numbered(str(self.run.trace.program).split("\n"))
        return Layout(
            controls=tuple(self._controls()),
            frames=self._frames,
            links=self._links(),
            panels=(Panel("the program", lines),),
        )

    def _controls(self) -> list[Control]:
        c = self.cache
        sizes = tuple(map(size_text, sorted({*BYTES, c.bytes})))
        ways = str(c.ways) if c.ways else "all"
        found: list[Control] = [
            Select("bytes", "cache", sizes, size_text(c.bytes)),
            Select("line", "line", tuple(map(str, sorted({*LINES, c.line}))), str(c.line)),
            Select("ways", "ways", WAYS if ways in WAYS else (*WAYS, ways), ways),
            Select("policy", "policy", POLICIES, c.policy),
        ]
        last = (len(self.run.trace) - 1) // WINDOW
        if last:
            found.append(Slider("window", "window", 0, last, self._window.start // WINDOW))
        return found

    def _links(self) -> dict[str, tuple[str, ...]]:
        """Between a line in its tensor and the ways that it is in."""
        links: dict[str, tuple[str, ...]] = {}
        for k, t in enumerate(self._window.tenants):
            buffer, number = self.run.own(t.line)
            key = f"{buffer}/{number}"
            links[f"t{k}"] = (key,)
            links[key] = (*links.get(key, ()), f"t{k}")
        return links

    def on(self, name: str, value: Any) -> str | None:
        """Another cache or another window; a refused cache changes nothing."""
        if name in ("bytes", "line", "ways", "policy"):
            new = replace(self.cache, **{name: _cache_value(name, value)})
            self._show(cache_run(self.run.trace, new), self._window.start)
            return str(self.run.replay)
        if name == "window":
            self._show(self.run, value * WINDOW)
        elif (part := index_in(value, "bin", BINS)) is not None:  # a click on the whole run
            self._show(self.run, part * len(self.run.trace) // BINS // WINDOW * WINDOW)
        return None


def recorded(who: str, s: Any, args: Sequence[Any] | None) -> AccessTrace:
    """The run of a schedule or program, or a run recorded already."""
    if isinstance(s, AccessTrace):
        if args is not None:
            raise ArgumentError(f"{who}(trace, args)", "a recorded run has its arguments already")
        return s
    if not isinstance(s, Schedule | PrimFunc):
        raise ArgumentError(
            f"{who}({type(s).__name__})",
            "neither a schedule nor a program nor a recorded run",
            "te.create_schedule(C.op)",
        )
    return record(s, args)


def _cache_value(name: str, text: str) -> int | str | None:
    """What a control says: "2 KiB" -> 2048, "all" -> None, "64" -> 64."""
    if name == "policy" or text == "all":
        return None if name == "ways" else text
    number, _, unit = text.partition(" ")
    return int(number) << {"KiB": 10, "MiB": 20}.get(unit, 0)
