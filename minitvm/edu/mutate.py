"""Test the checks with mutants of the solutions: `python -m minitvm.edu verify --mutate`.

A mutant is a solution with one change: a comparison, a number, min or max. The checks must refuse
it. solutions/equivalent.toml lists the mutants that are as right as the solution, with the reasons.
"""

from __future__ import annotations

import ast
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from .build import item_in, solution
from .course import exercise_named, exercises_in
from .grader import Graded, Submission, Task, grade_all
from .item import Exercise, Item
from .notebook import SOLUTION, code_cells, source, stored
from .trials import USUAL, definitions, with_last

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
STRICTER: dict[type[ast.cmpop], str] = {
    ast.Lt: "- 1",
    ast.LtE: "+ 1",
    ast.Gt: "+ 1",
    ast.GtE: "- 1",
}  # limits one further away than what the other operators say
EXTREMES = {"min": "max", "max": "min", "mean": "min"}
MEAN = '__import__("statistics").fmean'


@dataclass(frozen=True, slots=True)
class Mutant:
    """An answer cell of a solution in which only the part `line` has changed."""

    exercise: Exercise
    item: Item
    line: str
    cell: str

    def __str__(self) -> str:
        return f"{self.item.id}: {self.line}"


def mutants(root: Path, exercise: Exercise) -> list[Mutant]:
    """Return every mutant of the solution of an exercise, in the order of its lines."""
    all_mutants: list[Mutant] = []
    for _, cell in code_cells(solution(root, exercise)):
        text = source(cell)
        if item := item_in(text, exercise):
            all_mutants += [Mutant(exercise, item, *change) for change in changes(text)]
    return all_mutants


def changes(text: str) -> list[tuple[str, str]]:
    """Return (changed lines, whole text with them) for each change of a solution region."""
    regions = [(text[: m.start()].count("\n"), m[0].count("\n")) for m in SOLUTION.finditer(text)]
    results: list[tuple[str, str]] = []
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.expr))
    for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
        if any(start < node.lineno <= start + count for start, count in regions):
            results += [replaced(text, node, new) for new in instead_of(node)]
    return results


def instead_of(node: ast.expr) -> Iterator[str]:
    """Yield the expressions that replace a comparison, a number, min, max or mean."""
    match node:
        case ast.Compare(left, ops, comparators):
            for n, op in enumerate(ops):
                for replacement in COMPARISONS[type(op)]:
                    others = [*ops[:n], replacement(), *ops[n + 1 :]]
                    yield ast.unparse(ast.Compare(left, others, comparators))
                if step := STRICTER.get(type(op)):  # n > window -> n > window + 1
                    bounds = [ast.unparse(c) for c in comparators]
                    plain = isinstance(comparators[n], ast.Constant)  # it changes by itself
                    later = ast.parse(f"({bounds[n]}) {step}", mode="eval").body
                    new = [*comparators[:n], later, *comparators[n + 1 :]]
                    yield from () if plain else [ast.unparse(ast.Compare(left, ops, new))]
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value)):
            yield from (str(value + 1), str(value - 1))
        case ast.Constant(float(value)):
            yield from (str(value * 1.5 or 1.0), str(value / 2 or -1.0))
        case ast.Call(ast.Name("min" | "max"), [values], []):
            yield f"{MEAN}({ast.unparse(values)})"
        case ast.Name("min" | "max" as name):
            yield EXTREMES[name]
        case ast.Attribute(value, "min" | "max" | "mean" as name):
            yield f"{ast.unparse(value)}.{EXTREMES[name]}"
        case _:
            pass


def replaced(text: str, node: ast.expr, new: str) -> tuple[str, str]:
    """Return the text with `new` in place of a node, as (the lines that differ, the whole text)."""
    assert node.end_lineno is not None
    lines = [line.encode() for line in text.splitlines()]  # columns of nodes count bytes
    first, last = node.lineno - 1, node.end_lineno - 1
    changed = lines[first][: node.col_offset] + new.encode() + lines[last][node.end_col_offset :]
    new_text = b"\n".join([*lines[:first], changed, *lines[last + 1 :]])
    return changed.decode().strip(), new_text.decode()


def mutate(root: Path, checks: Path, name: str = "", jobs: int = 2) -> int:
    """Grade all mutants of the course, an exercise or an item; return the exit code.

    It fails if a mutant gets all points and has no reason in solutions/equivalent.toml, or if a
    reason belongs to no survivor.
    """
    start = time.monotonic()
    exercise_name, _, item = name.partition(".")
    exercises = (exercise_named(exercise_name, checks),) if exercise_name else exercises_in(checks)
    reasons = equivalents(root)
    todo = [m for e in exercises for m in mutants(root, e) if not item or m.item.id == name]
    survivors = [m for m, got in _graded(root, checks, todo, jobs) if _all_right(got)]
    new = [m for m in survivors if m.line not in reasons.get(m.item.id, {})]
    lines = {(m.item.id, m.line) for m in survivors}
    items = dict.fromkeys(m.item.id for m in todo)
    stale = [f"{i}: {line}" for i in items for line in reasons.get(i, {}) if (i, line) not in lines]
    for i in items:
        mutant_count = sum(m.item.id == i for m in todo)
        left = sum(m.item.id == i for m in survivors)
        print(f"{i:7} {mutant_count:4} mutants, {mutant_count - left:4} killed, {left:3} survive")
    print("".join(f"SURVIVES  {m}\n" for m in new) + "".join(f"NO SURVIVOR  {s}\n" for s in stale))
    killed, equivalent = len(todo) - len(survivors), len(survivors) - len(new)
    share = killed / max(1, len(todo) - equivalent)
    print(
        f"{len(todo)} mutants: {killed} killed, {equivalent} equivalent, {len(new)} others survive"
        f" ({share:.1%} killed of those that are not equivalent),"
        f" in {time.monotonic() - start:.0f} s"
    )
    return bool(new or stale)


def _graded(
    root: Path, checks: Path, todo: list[Mutant], jobs: int
) -> Iterator[tuple[Mutant, Graded]]:
    """Grade the mutants, each in a notebook with the other answers of its solution."""
    lean = {
        e.id: definitions(solution(root, e))
        for e in {m.exercise.id: m.exercise for m in todo}.values()
    }
    tasks: list[Task] = []
    for m in todo:
        data = stored(with_last(lean[m.exercise.id], m.cell)).encode()
        one_item = replace(m.exercise, items=(m.item,))
        tasks.append(
            Task(Submission(Path(f"{m.exercise.stem}.ipynb"), data), checks, one_item, USUAL)
        )
    for n, got in tqdm(grade_all(tasks, jobs), total=len(todo), unit="mutant"):
        yield todo[n], got


def _all_right(got: Graded) -> bool:
    """Return whether every part passed, except for those that depend on the clock."""
    parts = [p for m in got.marks for p in m.parts if p.kind != "speed"]
    return bool(parts) and all(p.outcome.status == "passed" for p in parts)


def equivalents(root: Path) -> dict[str, dict[str, str]]:
    """Read solutions/equivalent.toml: for each item, changed lines -> why they change nothing."""
    path = root / "solutions" / "equivalent.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
