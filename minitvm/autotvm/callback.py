"""Callbacks that a tuner calls after each measurement: write a log, or draw a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from minitvm import tune


@dataclass(frozen=True, slots=True)
class LogToFile:
    """Append each measurement to a file; the tuner also learns from what the file contains."""

    path: Path


@dataclass(frozen=True, slots=True)
class ProgressBar:
    """Draw a progress bar in the terminal."""

    def listener(self) -> tune.Listener:
        """Return a listener that draws a new bar."""
        return tune.ProgressLine()


Callback: TypeAlias = LogToFile | ProgressBar | Callable[[Any, Any, Any], Any]


def log_to_file(file_out: str | Path) -> LogToFile:
    """Append each measurement to a file as a line of JSON; calling `tune` again resumes."""
    return LogToFile(Path(file_out))


def progress_bar(total: int | None = None, prefix: str = "") -> ProgressBar:
    """Draw a progress bar with the name of the task.

    total and prefix are accepted for compatibility with TVM: the tuner knows both.
    """
    del total, prefix
    return ProgressBar()
