"""Read and write notebooks as plain data: code cells, and regions between markers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from minitvm.base import ArgumentError

Cell: TypeAlias = dict[str, Any]
Notebook: TypeAlias = dict[str, Any]
SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*### END SOLUTION[ \t]*$", re.M | re.S
)
HIDDEN = re.compile(
    r"^[ \t]*### BEGIN HIDDEN TESTS[ \t]*\n.*?^[ \t]*### END HIDDEN TESTS[ \t]*\n?", re.M | re.S
)
EXERCISE = re.compile(r"(?<![a-z0-9])(ex\d\d)(?!\d)")


def parsed(data: bytes, name: str) -> Notebook:
    """Parse a notebook; raise ArgumentError unless `data` is a notebook of format 4."""
    try:
        notebook: Any = json.loads(data)
        good = notebook["nbformat"] == 4 and isinstance(notebook["metadata"], dict)
        good = good and all(isinstance(c["cell_type"] + source(c), str) for c in notebook["cells"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good, notebook = False, {}
    if not good:
        raise ArgumentError(name, "not a notebook (nbformat 4)", "save it again from JupyterLab")
    return notebook


def stored(notebook: Notebook) -> str:
    """Return a notebook as text in a canonical form: sorted keys, indented by one space."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def sha256(data: bytes) -> str:
    """Return the SHA-256 hash of `data`; reports identify files by this hash."""
    return hashlib.sha256(data).hexdigest()


def source(cell: Cell) -> str:
    """Return the text of a cell; a file may store it as one string or as lines."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def code_cells(notebook: Notebook) -> Iterator[tuple[int, Cell]]:
    """Yield (number, cell) for every code cell; the first cell of a notebook has number 1."""
    for n, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            yield n, cell


def sources(notebook: Notebook) -> list[tuple[int, str]]:
    """Return (number, text) of every code cell that is not empty."""
    return [(n, source(c)) for n, c in code_cells(notebook) if source(c).strip()]


def nbgrader(cell: Cell) -> dict[str, Any]:
    """Return the nbgrader part of a cell's metadata; {} if it has none."""
    return cell.get("metadata", {}).get("nbgrader", {})


def exercise_of(notebook: Notebook, path: Path) -> str:
    """Return the exercise, such as "ex03", from the metadata or else the file name; "" if none."""
    metadata = notebook.get("metadata", {}).get("minitvm", {})
    if isinstance(metadata, dict) and isinstance(cast("Any", metadata).get("exercise"), str):
        return cast("dict[str, str]", metadata)["exercise"]
    match = EXERCISE.search(path.name)
    return match[1] if match else ""


def solution_lines(text: str) -> int:
    """Count the lines of code in the solution regions of a cell, without comments."""
    lines = [line for region in SOLUTION.finditer(text) for line in region[2].splitlines()]
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)
