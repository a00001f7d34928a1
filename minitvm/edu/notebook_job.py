"""The student's process: run the cells of one notebook, then call the functions they define.

The grader starts this process with an empty package in place of minitvm.edu (`apart` in Worker).
Cells can call edu.check(), but the process does not load the checks and reference solutions.
"""

from __future__ import annotations

import ast
import io
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from minitvm import workers

from .data import Reader, Writer, operations
from .item import Kept, called, values_of
from .sandbox import Limits, confine

FOLDERS = ("IPYTHONDIR", "MPLCONFIGDIR", "NUMBA_CACHE_DIR")  # where libraries write


class Capture(io.TextIOBase):
    """A stream that keeps the first `limit` characters written to it and drops the rest."""

    def __init__(self, limit: int) -> None:
        self.text, self._limit = "", limit

    def write(self, s: str, /) -> int:
        self.text += s[: self._limit - len(self.text)]
        return len(s)

    def writable(self) -> bool:
        return True


def no_op(*args: Any, **kwargs: Any) -> None:
    """Accept any arguments and do nothing."""


def no_points(*args: Any, **kwargs: Any) -> float:
    """Return 0 points for any arguments; this function is used in place of edu.check."""
    return 0.0


class Shell:
    """Replaces the IPython shell, so that magics and ! commands do nothing."""

    def __getattr__(self, name: str) -> Any:
        return no_op


def install_stand_in() -> None:
    """Replace what notebooks call in minitvm.edu by functions that do nothing."""
    package = sys.modules["minitvm.edu"]
    package.check = no_points  # type: ignore[attr-defined]
    package.hint = package.puzzle = package.challenge = no_op  # type: ignore[attr-defined]


class NotebookModule:
    """The module __main__ in which the cells of a notebook run."""

    def __init__(self) -> None:
        self._limit = 0  # characters kept of what a cell prints
        self.module = ModuleType("__main__")
        self.scope = self.module.__dict__
        self.scope["get_ipython"] = Shell
        sys.modules["__main__"] = self.module

    def answer(self, request: workers.Message) -> workers.Message:
        """Answer a request of the grader: confine this process, run a cell, or call a function."""
        match request.value:
            case {"limits": limits, "hidden": hidden, "rules": bool(rules)}:
                self._confine(Limits(**limits), hidden, rules)
                return workers.Message(None)
            case {"cell": int(number), "source": source}:
                return workers.Message(self._run(number, source))
            case {"call": name, "arguments": arguments}:
                return self._call(name, arguments, request.blobs)
            case other:
                raise ValueError(f"an unknown request: {other!r}")

    def _confine(self, limits: Limits, hidden: list[str], rules: bool) -> None:
        """Apply `limits`, make the paths `hidden` unreadable, and discard stdout and stderr."""
        folder = os.getcwd()
        self._limit = limits.output
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  until the process ends
        os.environ.update(
            dict.fromkeys(FOLDERS, folder), MPLBACKEND="Agg", MINITVM_WIDGETS="static"
        )
        install_stand_in()
        confine(limits, Path(folder), [Path(p) for p in hidden], rules=rules)

    def _run(self, number: int, source: str) -> Any:
        """Run one cell; return its "output" and, if it failed, "error", "message" and "trace"."""
        captured = Capture(self._limit)
        sys.stdout = sys.stderr = captured
        name = f"cell {number}"
        try:
            code = compile(self._python(source), name, "exec")
            lines = source.splitlines(keepends=True)
            linecache.cache[name] = (len(source), None, lines, name)
            exec(code, self.scope)
        except BaseException as e:  # sys.exit() and KeyboardInterrupt must not end the process
            return {"output": captured.text, **described(e)}
        return {"output": captured.text}

    @staticmethod
    def _python(source: str) -> str:
        """Replace magics by Python: `%matplotlib inline` becomes a call of get_ipython().

        IPython is imported only if needed, because its import slows the start of a process.
        """
        try:
            ast.parse(source)
        except SyntaxError:
            from IPython.core.inputtransformer2 import TransformerManager

            return TransformerManager().transform_cell(source)
        return source

    def _call(self, name: str, packed: Any, blobs: tuple[bytes, ...]) -> workers.Message:
        """Call a function of the notebook; return its value, or its error."""
        sys.stdout = sys.stderr = Capture(self._limit)
        try:
            f = self.scope.get(name)
            if not callable(f):
                return workers.Message({"error": "missing"})
            arguments = unpacked(packed, Reader([], blobs))
            value = called(f, arguments)
            writer = Writer(operations(arguments))
            body = writer.write(value)
            return workers.Message({"value": body, "rows": writer.rows}, tuple(writer.blobs))
        except BaseException as e:
            return workers.Message(described(e))


def unpacked(arguments: Any, reader: Reader) -> list[Any]:
    """Decode the arguments of the student's function; replace each Problem by what it builds."""
    values: list[Any] = []
    for a in arguments:
        match a:
            case {"source": source, "name": name, "arguments": rest}:
                values += values_of(source, name, tuple(reader.read(rest)))
            case {"kept": value}:
                values.append(Kept(reader.read(value)))
            case _:
                values.append(reader.read(a))
    return values


def described(e: BaseException) -> dict[str, str]:
    """Describe an exception as text, with the lines of the notebook that led to it."""
    frames = traceback.extract_tb(e.__traceback__)
    cell_frames = [f for f in frames if f.filename.startswith("cell ")]
    trace = [
        f"{f.filename}, line {f.lineno}: {f.line or ''}".rstrip(": ") for f in cell_frames[-3:]
    ]
    if isinstance(e, SyntaxError):
        trace = [f"{e.filename}, line {e.lineno}: {(e.text or '').strip()}"]
    try:
        message = str(e)[:2000]
    except BaseException:  # str() may fail for a class that the student wrote
        message = ""
    return {"error": type(e).__name__, "message": message, "trace": "\n".join(trace)}


if __name__ == "__main__":
    workers.serve(NotebookModule().answer)
