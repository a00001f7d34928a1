"""Write a page about a compiled network as one HTML file, which loads no other files."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

from minitvm import tune, viz

from .measured import Measured

MEGA = 10**6
BARS, DOTS = 20, 8  # calls shown in each chart
PLANS = {
    "naive": "memory of its own for each tensor",
    "pool": "a pool of blocks, as TVM has",
    "offsets": "an offset for each tensor: the plan in use",
    "live": "the most in use at once: no plan needs less",
}


def report(net: Measured) -> str:
    """Return an HTML page about a compiled network."""
    title = f"The network {net.name}"
    parts = [
        _summary(net),
        "<h2>Where the time goes</h2>",
        *_profile(net),
        _roofline(net),
        "<h2>Passes</h2>",
        _passes(net),
        "<h2>Memory of intermediate tensors</h2>",
        *_memory(net),
        "<h2>Kernels</h2>",
        f"<pre>{escape(str(net.tasks))}</pre>",
        "<h2>Machine</h2>",
        viz.table({"target": str(net.target), **tune.machine_facts(net.target)}.items()),
    ]
    return viz.page(title, parts)


def _summary(net: Measured) -> str:
    profile, calls = net.profile, net.profile.calls
    operations = sum(c.operations for c in calls)
    text = (
        f"{len(calls)} calls of {len(net.tasks)} kernels; one run takes "
        f"{profile.seconds * 1e3:.3f} ms, {operations / profile.seconds / 1e9:.1f} GFLOP/s. "
        f"The largest error is {net.error:.1e} of the largest output, compared with numpy in "
        f"float64. The network was compiled in {net.seconds:.2f} s."
    )
    return f"<p>{escape(text)}</p>"


def _profile(net: Measured) -> Iterable[str]:
    """Draw bars for the calls that take longest, and list all calls in a table."""
    calls = net.profile.calls
    total = sum(c.seconds for c in calls) or 1.0
    slow = sorted(enumerate(calls), key=lambda pair: -pair[1].seconds)[:BARS]
    shares = {f"{n} {c.name}": c.seconds / total for n, c in slow}
    yield viz.svg(viz.shares_scene(shares, f"share of the time of all kernels; the first {BARS}"))
    rows = [
        (n, c.name, c.kernel, c.seconds * 1e6, f"{c.seconds / total:.1%}", c.gflops,
         c.gigabytes_per_second)
        for n, c in enumerate(calls)
    ]  # fmt: skip
    head = ("", "call", "kernel", "us", "share", "GFLOP/s", "GB/s")
    yield f"<details><summary>All calls</summary>{viz.table(rows, head)}</details>"


def _roofline(net: Measured) -> str:
    """Draw the calls that take longest in a roofline chart of this machine."""
    machine = viz.Machine.measured(net.target.num_cores)
    busy = [c for c in net.profile.calls if c.operations and c.seconds]
    points: list[viz.Point] = []
    for c in sorted(busy, key=lambda c: -c.seconds)[:DOTS]:
        intensity = c.operations / (c.read + c.written)
        name = f"{c.name} ({c.seconds * 1e6:.0f} us)"
        points.append(viz.Point(name, intensity, intensity, c.gflops, True))
    cores = net.target.num_cores
    title = f"The calls that take longest; {cores} thread{'s' * (cores != 1)}"
    return viz.svg(viz.roofline_scene(points, machine.gflops, machine.gbytes, title))


def _passes(net: Measured) -> str:
    first = net.steps[0]
    rows = [
        (name, calls, calls - before, bytes_moved / MEGA, (bytes_moved - bytes_before) / MEGA)
        for (_, before, bytes_before), (name, calls, bytes_moved) in pairwise([first, *net.steps])
    ]
    return viz.table(rows, ("after", "calls", "change", "MB read and written", "change"))


def _memory(net: Measured) -> Iterable[str]:
    """List the bytes of each memory plan, and draw the plans unless there are too many calls."""
    naive_bytes = max(1, net.memory["naive"])
    rows = [(PLANS[k], n / MEGA, f"{n / naive_bytes:.1%}") for k, n in net.memory.items()]
    yield viz.table(rows, ("plan", "MB", "of the first"))
    if len(net.fused.calls) <= viz.MemoryPlan.most_calls:
        yield viz.MemoryPlan(net.fused).svg()
