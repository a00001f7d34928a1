"""Checks of arguments of public functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from minitvm import tune
from minitvm.base import ArgumentError, check_kind


def listed(what: str, values: Any, fix: str) -> list[Any]:
    """Return the elements of a list or a tuple; ArgumentError for anything else."""
    return [*cast("list[Any]", check_kind(what, values, list, tuple, fix=fix))]


def file_at(what: str, filename: str | Path) -> Path:
    """Return the path of a file; raise ArgumentError if it does not exist."""
    path = Path(check_kind(what, filename, str, Path, fix="the path of a file"))
    if not path.is_file():
        raise ArgumentError(f"{what} {str(filename)!r}", "there is no such file")
    return path


def log_at(filename: str | Path) -> tune.Log:
    """Return the log in a file; raise ArgumentError if it does not exist."""
    return tune.Log(file_at("log", filename))
