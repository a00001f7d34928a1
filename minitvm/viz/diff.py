"""Two programs side by side, with their changed lines marked."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from .controls import CodeLine

Row: TypeAlias = tuple[str | None, str | None]  # before, after; None for a missing line
CONTEXT = 3  # equal lines kept around a change
LONG = 60  # lines: a shorter program is shown whole
LARGE = 1500  # lines: longer programs are compared at their ends only, since comparing is quadratic


def rows_of(before: Sequence[str], after: Sequence[str]) -> list[Row]:
    """Align the lines of two texts: equal lines share a row, every other line has its own row."""
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    rows: list[Row] = [(a, a) for a in before[:start]]
    codes = [("replace", 0, len(old), 0, len(new))]
    if len(old) + len(new) < LARGE:
        codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, i, j, k, m in codes:
        if tag == "equal":
            rows += [(a, a) for a in old[i:j]]
        else:
            rows += [(a, None) for a in old[i:j]] + [(None, b) for b in new[k:m]]
    return rows + [(a, a) for a in before[len(before) - end :]]


def _alike(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many lines two texts have in common at the start."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def folded(rows: Sequence[Row], most: int) -> list[Row | int]:
    """Return the rows near changes, with a number in place of each run of omitted equal rows.

    At most `most` entries are returned; if there are more, the last one counts the omitted rows.
    """
    changed = [n for n, (a, b) in enumerate(rows) if a != b]
    shown_lines = {m for n in changed for m in range(n - CONTEXT, n + CONTEXT + 1)}
    entries: list[Row | int] = []
    for n, row in enumerate(rows):
        last = entries[-1] if entries else None
        if len(rows) <= LONG or n in shown_lines:
            entries.append(row)
        elif isinstance(last, int):
            entries[-1] = last + 1
        else:
            entries.append(1)
    if len(entries) <= most:
        return entries
    rest = sum(r if isinstance(r, int) else 1 for r in entries[most - 1 :])
    return [*entries[: most - 1], rest]


def unified(entries: Sequence[Row | int]) -> list[CodeLine]:
    """Return the rows as one column, like diff -u: "- " marks removed lines, "+ " added ones."""
    lines: list[CodeLine] = []
    for entry in entries:
        match entry:
            case int():
                lines.append(CodeLine(f"  … {entry} lines", note="later"))
            case (None, new):
                lines.append(CodeLine(f"+ {new}", note="added"))
            case (old, None):
                lines.append(CodeLine(f"- {old}", note="removed"))
            case (old, _):
                lines.append(CodeLine(f"  {old}"))
    return lines


def sides(entries: Sequence[Row | int]) -> tuple[tuple[CodeLine, ...], tuple[CodeLine, ...]]:
    """Return the old and the new column, aligned; "- " marks removed lines, "+ " added ones."""
    left, right = list[CodeLine](), list[CodeLine]()
    for line in unified(entries):
        if not line.note:  # an equal line: empty lines before it make the columns level
            empty = len(left) - len(right)
            left += [CodeLine("")] * -empty
            right += [CodeLine("")] * empty
        left += [line] * (line.note != "added")
        right += [line] * (line.note != "removed")
    return tuple(left), tuple(right)
