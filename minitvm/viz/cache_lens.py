"""CacheLens: the accesses of a program in a simulated cache, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minitvm import accesses, cachesim, te, tir
from minitvm.base import ArgumentError

from .boxes import Box
from .cache_run import (
    CacheRun,
    cache_run,
    check_cache,
    footprint_table,
    size_text,
    totals_table,
)
from .cache_scene import BINS, WINDOW, AccessRange, cache_box, cache_frames, title, window
from .controls import Control, Layout, Panel, Select, Slider, index_in, numbered
from .figure import Figure
from .scene import Scene

SMALL = cachesim.Cache(1024, 64, 2)  # small enough to show completely
BYTES = tuple(1 << k for k in range(8, 20))
LINES = tuple(1 << k for k in range(4, 9))
WAYS = (1, 2, 4, 8, 16, None)  # None: fully associative
POLICIES = ("lru", "fifo")


class CacheLens(Figure):
    """Show how a cache serves a program: which access hits, which misses, and why.

    The sets and ways with their lines are on the left, the tensors as cache lines on the right. The
    colour of the line just accessed tells whether the access was a hit or which kind of miss. The
    browser plays 200 accesses (a window); a click on the overview of the whole run below chooses
    another window. Totals count all accesses. The histogram shows how many other lines are used
    before a line is used again: for distances to the right of the mark, an LRU cache of this size
    misses with rare exceptions, however many ways it has.

    s       a schedule, a lowered program, or a run recorded by accesses.record(s, sizes=...)
    args    inputs and outputs as for lower(); by default all of them
    cache   by default a cache of 1 KiB, small enough to show completely
    """

    def __init__(
        self,
        s: te.Schedule | tir.PrimFunc | accesses.AccessTrace,
        args: Sequence[Any] | None = None,
        cache: cachesim.Cache = SMALL,
    ) -> None:
        self._show(cache_run(recorded("CacheLens", s, args), check_cache(cache)), 0)
        super().__init__()

    def _show(self, run: CacheRun, start: int) -> None:
        """Show a replayed run in the window that begins at access `start`."""
        self.run: CacheRun = run
        self._window: AccessRange = window(run, start)
        self._frames = cache_frames(self._window)

    @property
    def cache(self) -> cachesim.Cache:
        """The simulated cache, as chosen with the controls."""
        return self.run.cache

    def title(self) -> str:
        return title(self.run)

    def body(self) -> Box:
        """Draw the empty cache, the tensors, strips and tables; frames add the cached lines."""
        return cache_box(self._window)

    def picture(self) -> Scene:
        """Draw the cache after the access in the middle of the window, with its caption."""
        return self.stopped(self._frames[len(self._frames) // 2])

    def ascii(self) -> str:
        """Return a table of the cache, the totals, and the footprint of every loop."""
        run = self.run
        return "\n".join([self.title(), "", *totals_table(run), "", *footprint_table(run)])

    def layout(self) -> Layout:
        lines = numbered(str(self.run.trace.program).split("\n"))
        last, controls = (len(self.run.trace) - 1) // WINDOW, self._controls()
        if last:
            controls.append(Slider("window", "window", 0, last, self._window.start // WINDOW))
        links: dict[str, tuple[str, ...]] = {}  # a line of a tensor and the ways that contain it
        for k, t in enumerate(self._window.cached_lines):
            links[f"t{k}"] = (t.key,)
            links[t.key] = (*links.get(t.key, ()), f"t{k}")
        return Layout(
            controls=tuple(controls),
            frames=self._frames,
            first=len(self._frames) // 2,
            links=links,
            panels=(Panel("the program", lines),),
        )

    def _choices(self) -> dict[str, dict[str, Any]]:
        """Return the values of each property of the cache by their names in its control."""
        c = self.cache
        return {
            "bytes": {size_text(n): n for n in sorted({*BYTES, c.bytes})},
            "line": {str(n): n for n in sorted({*LINES, c.line})},
            "ways": {str(n or "all"): n for n in dict.fromkeys((*WAYS, c.ways))},
            "policy": {name: name for name in POLICIES},
        }

    def _controls(self) -> list[Control]:
        controls = list[Control]()
        for name, choices in self._choices().items():
            current = getattr(self.cache, name)
            shown = next(text for text, value in choices.items() if value == current)
            label = "cache" if name == "bytes" else name
            controls.append(Select(name, label, tuple(choices), shown))
        return controls

    def on(self, name: str, value: Any) -> str | None:
        """Change the cache or the window; return the totals if the cache changed."""
        if name in self._choices():
            new = replace(self.cache, **{name: self._choices()[name][value]})
            self._show(cache_run(self.run.trace, new), self._window.start)
            return str(self.run.replay)
        if name == "window":
            self._show(self.run, value * WINDOW)
        elif (part := index_in(value, "bin", BINS)) is not None:  # a click on the whole run
            self._show(self.run, part * len(self.run.trace) // BINS // WINDOW * WINDOW)
        return None


def recorded(who: str, s: Any, args: Sequence[Any] | None) -> accesses.AccessTrace:
    """Record a run of the schedule or program `s`; if `s` is a recorded run, return it."""
    if isinstance(s, accesses.AccessTrace):
        if args is not None:
            why = "a recorded run has its arguments already"
            raise ArgumentError(f"{who}(trace, args)", why, "leave args out")
        return s
    if not isinstance(s, te.Schedule | tir.PrimFunc):
        why = "neither a schedule nor a program nor a recorded run"
        raise ArgumentError(f"{who}({type(s).__name__})", why, "te.create_schedule(C.op)")
    return accesses.record(s, args)
