"""python -m minitvm net NAME|FILE.onnx: compile a network, measure it, and print the results."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minitvm import auto_scheduler, graph
from minitvm.base import ArgumentError, Target, name_missing

from .measured import Measured, measured
from .report import report

NETWORKS: dict[str, Callable[..., graph.Graph]] = dict(
    inspect.getmembers(graph.networks, inspect.isfunction)
)
MEGA = 10**6


def parser() -> argparse.ArgumentParser:
    """Return the parser for `python -m minitvm net`."""
    about = "compile a network and measure its kernels"
    top = argparse.ArgumentParser(prog="python -m minitvm net", description=about)
    top.add_argument("name", metavar="NAME", help=f"{', '.join(NETWORKS)}, or FILE.onnx")
    top.add_argument("--size", type=int, help="height and width of the images")
    top.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1x3x224x224",
        help="the shape of an input that FILE.onnx leaves open; may be repeated",
    )
    top.add_argument("--threads", type=int, default=1, help="threads of each kernel (1)")
    top.add_argument("--report", metavar="FILE", help="write a page, FILE.html")
    top.add_argument("--no-winograd", action="store_true", help="compute convolutions directly")
    top.add_argument("--tune", type=float, metavar="SECONDS", help="search for faster kernels")
    top.add_argument("--log", metavar="FILE", help="log of the search; the same call resumes it")
    top.add_argument("--time", action="store_true", help="also print the time of each kernel")
    return top


def main(words: Sequence[str], say: Callable[[str], None] = print) -> None:
    """Run the command `net` with the arguments `words`; `say` prints one line or paragraph."""
    options = parser().parse_args(words)
    if options.threads < 1:
        raise ArgumentError(f"--threads {options.threads}", "it must be at least 1")
    page = Path(options.report) if options.report else None
    if page is not None and not page.parent.is_dir():
        raise ArgumentError(f"--report {page}", f"there is no folder {page.parent}")
    if options.log and options.tune is None:
        why = "only --tune writes a log"
        raise ArgumentError(f"--log {options.log}", why, "--tune SECONDS too")
    net = network(options.name, options.size, dict(map(shape, options.shape)))
    target, winograd = Target(f"llvm -num-cores={options.threads}"), not options.no_winograd
    pick, passes = None, graph.PASSES
    if options.tune is not None:
        line = auto_scheduler.TasksLine() if sys.stderr.isatty() else None
        tuned = graph.tune(
            net, target, seconds=options.tune, log=options.log, winograd=winograd, on=line
        )
        say(str(tuned))
        pick, passes = tuned.pick, tuned.passes
    shown = sys.stderr.isatty()
    bar: Any = tqdm(unit=" kernels", leave=False, disable=not shown, delay=1e-9)
    with bar:

        def progress(kernel: str, number: int, count: int) -> None:
            bar.total = count
            bar.set_description_str(kernel[:30], refresh=False)
            bar.update(number - bar.n)

        results = measured(
            net, target, pick=pick, winograd=winograd, passes=passes, progress=progress
        )
    say(summary(results))
    if options.time:
        say(str(results.profile))
    if page is not None:
        page.write_text(report(results), encoding="utf-8")
        say(f"wrote {page}")


def shape(word: str) -> tuple[str, tuple[int, ...]]:
    """Return the name and the sizes in a word such as "data=1,3,224,224" or "data=1x3x224x224"."""
    name, _, sizes = word.rpartition("=")
    try:
        return name, tuple(map(int, sizes.replace("x", ",").split(",")))
    except ValueError as e:
        why = "it is not the name of an input and its sizes"
        raise ArgumentError(f"--shape {word}", why, "--shape data=1,3,224,224") from e


def network(
    name: str, size: int | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> graph.Graph:
    """Return the network called `name` in graph.networks, or the ONNX model at the path `name`.

    Raises ArgumentError if there is no such network, or if `size` or `shapes` do not apply to it.
    """
    if name.endswith(".onnx"):
        if size is not None:
            why = "an ONNX model has the sizes of its inputs"
            raise ArgumentError(f"--size {size}", why, "--shape NAME=1,3,224,224")
        return graph.from_onnx(name, shapes=shapes)
    if shapes:
        raise ArgumentError(f"--shape {next(iter(shapes))}", "only an ONNX model has open shapes")
    if name not in NETWORKS:
        missing = name_missing("graph.networks", name, NETWORKS)
        raise ArgumentError(f"network {name!r}", "there is no such network", missing.args[2])
    make = NETWORKS[name]
    if size is None:
        return make()
    if "size" not in inspect.signature(make).parameters:
        raise ArgumentError(f"--size {size}", f"{name} has no images")
    return make(size=size)


def summary(net: Measured) -> str:
    """Return a table of the kernels, and lines about memory, accuracy and time."""
    profile = net.profile
    share = profile.outside / profile.seconds if profile.seconds else 0.0
    plans = [f"{k} {net.memory[k] / MEGA:.2f} MB" for k in ("naive", "pool", "offsets")]
    rows = [
        ("memory", ", ".join(plans)),
        ("", f"no plan needs less than {net.memory['live'] / MEGA:.2f} MB"),
        ("parameters", f"{net.params / MEGA:.2f} MB"),
        ("error", f"{net.error:.1e} of the largest output, compared with float64"),
        ("compiled in", f"{net.seconds:.2f} s"),
        ("one run", f"{profile.seconds * 1e3:.3f} ms, {share:.1%} of it outside the kernels"),
    ]
    lines = [f"{name:12} {text}" for name, text in rows]
    return "\n".join([str(net.tasks), "", *lines])
