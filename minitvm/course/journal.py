"""What a reader did, as JSON lines in a file beside the notebook: guesses, and the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from minitvm import viz


def journal(variable: str, name: str) -> Path | None:
    """Return the file that an environment variable names, or `name` beside a live notebook.

    None if nothing is kept: for "off"; without the variable, in a batch run or for an empty name.
    """
    chosen = os.environ.get(variable, "")
    if chosen == "off" or not (chosen or (name and viz.is_live())):
        return None
    return Path(chosen or name)


def append(file: Path | None, row: Mapping[str, Any]) -> None:
    """Append a row and the time; a folder that cannot be written is no error."""
    if not file:
        return
    time = datetime.now().astimezone().isoformat(timespec="seconds")
    line = (json.dumps({**row, "time": time}, ensure_ascii=False) + "\n").encode()
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line)  # one write: lines of two notebooks do not mix
        finally:
            os.close(handle)
    except OSError:
        return


def rows(file: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, the oldest first; lines that cannot be read are skipped."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        return
    for line in text.splitlines():
        try:
            row: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield cast("dict[str, Any]", row)
