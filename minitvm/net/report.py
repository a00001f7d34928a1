"""Write a page about a compiled network as one HTML file, which loads no other files."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

from minitvm import tune, viz

from .measured import Measured

MEGA = 10**6
BARS, DOTS = 20, 8  # calls shown in each chart


def report(found: Measured) -> str:
    """Return an HTML page about a compiled network."""
    title = f"The network {found.name}"
    parts = [
        _summary(found),
        "<h2>Where the time goes</h2>",
        *_profile(found),
        _roofline(found),
        "<h2>Passes</h2>",
        _passes(found),
        "<h2>Memory of intermediate tensors</h2>",
        *_memory(found),
        "<h2>Kernels</h2>",
        f"<pre>{escape(str(found.tasks))}</pre>",
        "<h2>Machine</h2>",
        viz.table({"target": str(found.target), **tune.machine_facts(found.target)}.items()),
    ]
    return viz.page(title, parts)


def _summary(found: Measured) -> str:
    profile, calls = found.profile, found.profile.calls
    operations = sum(c.operations for c in calls)
    text = (
        f"{len(calls)} calls of {len(found.tasks)} kernels; one run takes "
        f"{profile.seconds * 1e3:.3f} ms, {operations / profile.seconds / 1e9:.1f} GFLOP/s. "
        f"The largest error is {found.error:.1e} of the largest output, compared with numpy in "
        f"float64. The network was compiled in {found.seconds:.2f} s."
    )
    return f"<p>{escape(text)}</p>"


def _profile(found: Measured) -> Iterable[str]:
    """Draw bars for the calls that take longest, and list all calls in a table."""
    calls = found.profile.calls
    total = sum(c.seconds for c in calls) or 1.0
    slow = sorted(enumerate(calls), key=lambda pair: -pair[1].seconds)[:BARS]
    shares = {f"{n} {c.name}": c.seconds / total for n, c in slow}
    yield viz.svg(viz.shares_scene(shares, f"share of the time of all kernels; the first {BARS}"))
    rows = [
        (
            n,
            c.name,
            c.kernel,
            c.seconds * 1e6,
            f"{c.seconds / total:.1%}",
            c.gflops,
            c.gigabytes_per_second,
        )
        for n, c in enumerate(calls)
    ]
    head = ("", "call", "kernel", "us", "share", "GFLOP/s", "GB/s")
    yield f"<details><summary>All calls</summary>{viz.table(rows, head)}</details>"


def _roofline(found: Measured) -> str:
    """Draw the calls that take longest in a roofline chart of this machine."""
    machine = viz.Machine.measured(found.target.num_cores)
    busy = [c for c in found.profile.calls if c.operations and c.seconds]
    points = [
        viz.Point(f"{c.name} ({c.seconds * 1e6:.0f} us)", each, each, c.gflops, True)
        for c in sorted(busy, key=lambda c: -c.seconds)[:DOTS]
        for each in (c.operations / (c.read + c.written),)
    ]
    cores = found.target.num_cores
    title = f"The calls that take longest; {cores} thread{'s' * (cores != 1)}"
    return viz.svg(viz.roofline_scene(points, machine.gflops, machine.gbytes, title))


def _passes(found: Measured) -> str:
    rows = [
        (
            after.name,
            after.calls,
            after.calls - before.calls,
            after.bytes / MEGA,
            (after.bytes - before.bytes) / MEGA,
        )
        for before, after in pairwise(found.steps)
    ]
    first = found.steps[0]
    head = ("after", "calls", "change", "MB read and written", "change")
    return viz.table([(first.name, first.calls, 0, first.bytes / MEGA, 0.0), *rows], head)


def _memory(found: Measured) -> Iterable[str]:
    """List the bytes of each memory plan, and draw the plans unless there are too many calls."""
    memory = found.memory
    plans = {
        "memory of its own for each tensor": memory.naive,
        "a pool of blocks, as TVM has": memory.pool,
        "an offset for each tensor: the plan in use": memory.offsets,
        "the most in use at once: no plan needs less": memory.live,
    }
    rows = [(name, n / MEGA, f"{n / max(1, memory.naive):.1%}") for name, n in plans.items()]
    yield viz.table(rows, ("plan", "MB", "of the first"))
    if len(found.fused.calls) <= viz.MemoryPlan.most_calls:
        yield viz.MemoryPlan(found.fused).svg()
