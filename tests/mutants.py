"""Mutate a package, and see which mutants its own tests kill.

python -m tests.mutants minitvm/lowering --count 75 --seed 4711

A mutant is the package with one change: another comparison, number, min or max (as in
`python -m minitvm.edu verify --mutate`), or one of +, -, and, or instead of its counterpart. The
tests run in a copy of the working tree: first those named after the changed file, then the rest,
quickest file first, up to the first failure. A survivor is an equivalent program or a missing test.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from minitvm.edu.mutate import instead_of, replaced

TOP = Path(__file__).parent.parent
MARKERS = "not browser and not exhaustive and not grader"
COUNTERPARTS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
MIN_SECONDS = 60.0  # before a run counts as endless
SLOWDOWN = 5.0  # of a run, after which it counts as endless


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one change; `line` is the changed line, and `text` the whole file."""

    file: Path  # relative to the repository
    number: int
    before: str
    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}\n      {self.before}\n   -> {self.line}"


class Change(NamedTuple):
    """A change of a file: `source` in place of the expression `node`."""

    file: Path
    text: str
    node: ast.expr
    source: str


def replacements(node: ast.expr) -> Iterator[str]:
    """Yield the source of each expression that a mutant has in place of `node`."""
    yield from instead_of(node)
    match node:
        case ast.BinOp(left, op, right) if type(op) in COUNTERPARTS:
            yield ast.unparse(ast.BinOp(left, COUNTERPARTS[type(op)](), right))
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(COUNTERPARTS[type(op)](), values))})"
        case _:
            pass


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions below `node` that compute: no annotation, error message or strict=."""
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            match child:
                case ast.Raise() | ast.JoinedStr() | ast.keyword(arg="strict"):
                    continue
                case ast.AST() if name not in ("annotation", "returns", "decorator_list"):
                    pass
                case _:
                    continue
            if isinstance(child, ast.expr):
                yield child
            yield from expressions(child)


def changes(file: Path, text: str) -> list[Change]:
    """Return all changes of a file that give a mutant, in the order of its lines."""
    nodes = sorted(expressions(ast.parse(text)), key=lambda n: (n.lineno, n.col_offset))
    return [Change(file, text, node, source) for node in nodes for source in replacements(node)]


def mutants_of(changes: Iterable[Change]) -> Iterator[Mutant]:
    """Yield the mutants that are another program."""
    for file, text, node, source in changes:
        line, changed = replaced(text, node, source)
        with suppress(SyntaxError):
            if ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text)):
                before = text.split("\n")[node.lineno - 1].strip()
                yield Mutant(file, node.lineno, before, line, changed)


class Tests:
    """The tests of a package, in a copy of the working tree."""

    def __init__(self, tree: Path, paths: list[str], fast: float) -> None:
        """Run the tests without a mutant, time their files, and leave out tests that fail."""
        self.tree, self.seconds, self.left_out = tree, dict[str, float](), list[str]()
        report = tree / "report.xml"
        start = time.monotonic()
        self.run(paths, 3600, f"--junitxml={report}", "--maxfail=1000")
        self.timeout = MIN_SECONDS + SLOWDOWN * (time.monotonic() - start)
        times = Counter[str]()
        for case in ElementTree.parse(report).iter("testcase"):
            file = case.attrib["classname"].replace(".", "/") + ".py"
            times[file] += float(case.attrib["time"])
            if case.find("failure") is not None or case.find("error") is not None:
                self.left_out.append(f"--deselect={file}::{case.attrib['name']}")
        for file, seconds in sorted(times.items(), key=lambda item: item[1]):
            if sum(self.seconds.values()) + seconds <= fast:
                self.seconds[file] = seconds

    def outcome(self, m: Mutant) -> str:
        """Return what happens to a mutant: "failed", "timeout" or "passed"."""
        named = [f for f in self.seconds if f.endswith(f"test_{m.file.stem}.py")]
        original = (self.tree / m.file).read_text(encoding="utf-8")
        self.write(m.file, m.text)
        try:
            files = [*named, *(f for f in self.seconds if f not in named)]
            return self.run(files, self.timeout, *self.left_out)
        finally:
            self.write(m.file, original)

    def write(self, file: Path, text: str) -> None:
        """Write a file of the copy, and drop its bytecode, which looks current within a second."""
        path = self.tree / file
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, files: list[str], timeout: float, *options: str) -> str:
        """Run test files up to the first failure."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", MARKERS]
        child = subprocess.Popen(
            [*command, "-p", "no:cacheprovider", *options, *files],
            cwd=self.tree,
            env=os.environ | {"PYTHONPATH": str(self.tree)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return "failed" if child.wait(timeout) else "passed"
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:  # workers of a test that was stopped, too
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def copied(tree: Path) -> None:
    """Copy the files that git knows, as they are now."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=TOP, text=True)
    for name in listed.splitlines():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / name, tree / name)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("package", type=Path, help="a package or one of its files")
    parser.add_argument("--count", type=int, default=75, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--tests", nargs="*", help="by default those of the package")
    parser.add_argument(
        "--fast", type=float, default=1e9, help="leave out slower files, so that a run takes this"
    )
    options = parser.parse_args()
    files = [options.package] if options.package.suffix else sorted(options.package.rglob("*.py"))
    possible = [c for f in files for c in changes(f, (TOP / f).read_text(encoding="utf-8"))]
    total = len(possible)
    random.Random(options.seed).shuffle(possible)
    drawn = list(islice(mutants_of(possible), options.count))
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        paths = options.tests or [f"tests/{options.package.parts[1]}"]
        tests = Tests(Path(folder), paths, options.fast)
        covered = sum(tests.seconds.values())
        print("".join(f"left out: {option}\n" for option in tests.left_out), end="")
        print(f"{total} changes, {len(drawn)} drawn; {len(tests.seconds)} files, {covered:.0f} s")
        for n, m in enumerate(drawn, 1):
            start = time.monotonic()
            outcome = tests.outcome(m)
            survivors += [m] if outcome == "passed" else []
            word = "SURVIVES" if outcome == "passed" else "killed"
            seconds = time.monotonic() - start
            print(f"[{n:3}/{len(drawn)}] {word:8} {seconds:5.0f} s  {m}", flush=True)
    print(f"\n{len(drawn)} mutants, {len(drawn) - len(survivors)} killed, seed {options.seed}")
    print("".join(f"SURVIVES {m}\n" for m in survivors), end="")


if __name__ == "__main__":
    main()
