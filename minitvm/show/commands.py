"""python -m minitvm show FORMULA|OPERATOR|NETWORK|--torch EXPRESSION: print stages, and time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, cast

import pygments
from pygments import formatters, lexers

from minitvm import graph, net, viz
from minitvm.base import ArgumentError, Target, TVMError, name_missing

from .bench import bench, bench_module
from .modules import module_of, network_of
from .programs import Program, program_of
from .stages import STAGES, Request

EXAMPLE = 'python -m minitvm show "C(i, j) +=! A(i, k) * B(k, j)" --shape A=256x256,B=256x256'
USUAL = "schedule,loops"


def parser() -> argparse.ArgumentParser:
    """Return the parser for `python -m minitvm show`."""
    top = argparse.ArgumentParser(
        prog="python -m minitvm show",
        description="print the stages of a program, from its formula to machine code",
        epilog=f"example: {EXAMPLE}",
    )
    top.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        default="",
        help='a formula such as "C(i) = A(i) + 1", an operator of `minitvm tune`, the name of a'
        " network, or FILE.onnx",
    )
    top.add_argument(
        "--torch",
        metavar="EXPRESSION",
        help='instead of WHAT: a module of torch such as "nn.RMSNorm(2048)", or FILE.py:NAME; the'
        " expression and the file are run",
    )
    shapes = "shapes: of a formula's inputs A=256x256,B=256x256; of an operator 256,256,256; of"
    modules = 'of --torch 1,32,2048, or "8,16 8,16" for two inputs'
    top.add_argument("--shape", default="", help=f"{shapes} FILE.onnx data=1,3,224,224; {modules}")
    top.add_argument("--dtype", default="float32", help="element type of the inputs (float32)")
    names = ", ".join(STAGES)
    top.add_argument("--stage", default=USUAL, help=f"some of {names}, or all ({USUAL})")
    top.add_argument(
        "--schedule",
        default="default",
        metavar="default|none|FILE",
        help="topi's schedule, the plain loops, or a file such as --stage schedule prints",
    )
    top.add_argument("--target", default="llvm", help='a target such as "llvm -num-cores=1" (llvm)')
    top.add_argument("--bench", action="store_true", help="also time it beside numpy, or torch")
    top.add_argument("--html", metavar="FILE", help="also write a page with its loops as pictures")
    return top


def main(words: Sequence[str], say: Callable[[str], None] = print) -> None:
    """Run the command `show` with the arguments `words`; `say` prints one text."""
    top = parser()
    options = top.parse_args(words)
    page = Path(options.html) if options.html else None
    if page is not None and not page.parent.is_dir():
        raise ArgumentError(f"--html {page}", f"there is no folder {page.parent}")
    if bool(options.what) == bool(options.torch):
        raise ArgumentError("show", "it takes either WHAT or --torch", EXAMPLE)
    if options.torch:
        _only(top, options, f"--torch {options.torch}", ("schedule", "html"), "another option")
        _show_module(options, say)
        return
    if options.what.endswith(".onnx") or options.what in net.NETWORKS:
        fix = f"python -m minitvm net {options.what} --time, or --report FILE"
        _only(
            top,
            options,
            options.what,
            ("stage", "schedule", "target", "dtype", "bench", "html"),
            fix,
        )
        shapes = dict([net.shape(options.shape)]) if options.shape else {}
        _show_network(net.network(options.what, shapes=shapes), Target(None), say)
        return
    target = Target(options.target)
    program = program_of(options.what, options.shape, options.dtype, target)
    request = Request(program, target, options.schedule)
    _show_stages(request, options.stage, say, options.bench or page is not None)
    if options.bench:
        say(bench(request))
    if page is not None:
        page.write_text(_page(request), encoding="utf-8")
        say(f"wrote {page}")


def _only(
    top: argparse.ArgumentParser, options: Any, what: str, names: Sequence[str], fix: str
) -> None:
    """Raise ArgumentError if one of the options `names`, which networks do not have, is given."""
    for name in names:
        if getattr(options, name) != top.get_default(name):
            raise ArgumentError(f"--{name}", f"{what} is a network, which is shown as graphs", fix)


def _show_stages(request: Request, chosen: str, say: Callable[[str], None], more: bool) -> None:
    """Print the stages of a program that `chosen` lists, with headings unless it is all there is.

    more   whether the caller prints something else, too
    """
    stages = list(STAGES) if chosen == "all" else chosen.split(",")
    for name in stages:
        if name not in STAGES:
            raise name_missing("--stage", name, STAGES)
    for name in stages:
        stage = STAGES[name]
        try:
            text = _coloured(stage.text(request), stage.language)
        except TVMError as e:
            if chosen != "all":
                raise
            text = f"not for this program: {e.args[0]}: {e.args[1]}"
        say(text if len(stages) == 1 and not more else f"# {name}: {stage.about}\n{text}\n")


def _show_module(options: Any, say: Callable[[str], None]) -> None:
    """Print a module of torch as a network, and the stages of its kernels."""
    module, target = module_of(options.torch), Target(options.target)
    network = network_of(module, options.shape, options.dtype)
    _show_network(network, target, say)
    for task in graph.extract_tasks(network, target):
        calls = f", called {task.count} times" if task.count > 1 else ""
        say(f"# kernel {task.name}{calls}\n")
        request = Request(Program(task.name, task.args), target, "default")
        _show_stages(request, options.stage, say, True)
    if options.bench:
        say(bench_module(module, network, target))


def _show_network(whole: graph.Graph, target: Target, say: Callable[[str], None]) -> None:
    """Print a network as it is, and after all passes on graphs."""
    say(f"# graph: the network\n{_coloured(str(whole), 'python')}\n")
    text = _coloured(str(graph.optimized(whole, target)), "python")
    say(f"# kernels: after all passes; each inner function becomes one kernel\n{text}\n")


def _coloured(text: str, language: str) -> str:
    """Return the text with the colours of a terminal, if it is printed in one."""
    text = text.rstrip("\n")
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    lexer, terminal = cast("Any", lexers), cast("Any", formatters).TerminalFormatter()
    return pygments.highlight(text, lexer.get_lexer_by_name(language), terminal).rstrip("\n")


def _page(r: Request) -> str:
    """Return a page with the schedule, its loops and its accesses to a cache."""
    s, title = r.schedule, f"{r.program.title} on {r.target}"
    parts = [f"<pre>{escape(s.python())}</pre>"]
    for heading, picture in (
        ("The loops, and the order of visits", lambda: viz.NestPlayer(s).svg()),
        ("The accesses, and a small cache", lambda: viz.CacheLens(s, r.program.tensors).svg()),
    ):
        parts.append(f"<h2>{heading}</h2>")
        try:
            parts.append(picture())
        except TVMError as e:
            parts.append(f"<pre>{escape(str(e))}</pre>")
    return viz.page(
        title, [*parts, "<h2>The program</h2>", f"<pre>{escape(STAGES['loops'].text(r))}</pre>"]
    )
