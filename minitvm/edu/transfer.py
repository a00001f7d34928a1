"""Measure how much of a solution can be copied from its notebook.

An item should ask for more than a line that the student has just read.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from .build import item_in, solution
from .item import Exercise
from .notebook import SOLUTION, parsed, sources

MAX_SHARE = 0.7  # of the statements of a solution, those that its notebook has


class _Shape(ast.NodeTransformer):
    """Replace every name and constant by the same one: s[C].split(i, 4) -> _[_].split(_, _)."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name("_", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg("_")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name, node.decorator_list = "_", []
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("_")


def shares(root: Path, exercise: Exercise) -> dict[str, float]:
    """Return, for each item, the share of its solution's statements that occur in the notebook.

    Names and constants are ignored. A compound statement counts as its first line, without its
    body. The notebook is the one with the number of the exercise, in all its parts (09 and 09b).
    """
    items_read: set[str] = set()
    for path in sorted((root / "notebooks").glob(f"{exercise.id[2:]}*.ipynb")):
        for _, text in sources(parsed(path.read_bytes(), path.name)):
            items_read.update(shapes(text))
    share_of: dict[str, float] = {}
    for _, text in sources(solution(root, exercise)):
        if item := item_in(text, exercise):
            regions = [textwrap.dedent(m[0]) for m in SOLUTION.finditer(text)]
            written = [shape for region in regions for shape in answer_shapes(region)]
            share_of[item.id] = sum(s in items_read for s in written) / max(1, len(written))
    return share_of


def answer_shapes(region: str) -> list[str]:
    """List the statements of a solution region, which is the body of a function."""
    return list(shapes(f"if 1:\n{textwrap.indent(region, ' ')}"))[1:]


def shapes(text: str) -> Iterator[str]:
    """List the first line of each statement, without names, constants, imports and docstrings."""
    for node in ast.walk(_Shape().visit(ast.parse(text))):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.stmt():
                yield ast.unparse(node).partition("\n")[0]
            case _:
                pass
