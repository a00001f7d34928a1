"""The student's process: run the cells of one notebook, then call the functions they define.

It exchanges frames (wire.py) over its original stdin and stdout. The real package minitvm.edu is
not loaded in this process. A stand-in of the same name lets cells that call edu.check() run without
the checks and their reference solutions.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

from .data import Reader, Writer, operations
from .item import made
from .sandbox import Limits, confine
from .wire import ProtocolError, receive, send


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
    """Replace check and hint of minitvm.edu by functions that do nothing."""
    room = sys.modules["minitvm.edu"]
    room.check = no_points  # type: ignore[attr-defined]
    room.hint = no_op  # type: ignore[attr-defined]


class NotebookModule:
    """The module __main__ in which the cells of a notebook run."""

    def __init__(self) -> None:
        self.module = ModuleType("__main__")
        self.scope = self.module.__dict__
        self.scope["get_ipython"] = Shell
        sys.modules["__main__"] = self.module

    def run(self, number: int, source: str, limit: int) -> Any:
        """Run one cell; return its "output" and, if it failed, "error", "message" and "trace"."""
        captured = Capture(limit)
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

    def call(self, message: Any, arrays: Any, limit: int) -> tuple[Any, list[Any]]:
        """Call a function of the notebook; return (reply with its value, arrays)."""
        sys.stdout = sys.stderr = Capture(limit)
        try:
            f = self.scope.get(message["name"])
            if not callable(f):
                return {"error": "missing"}, []
            arguments = unpacked(message["arguments"], Reader([], arrays))
            value = f(*arguments)
            writer = Writer(operations(arguments))
            body = writer.write(value)
            return {"value": body, "rows": writer.rows}, writer.arrays
        except BaseException as e:
            return described(e), []


def unpacked(arguments: Any, reader: Reader) -> list[Any]:
    """Decode the arguments of the student's function; replace each problem by what it makes."""
    found: list[Any] = []
    for a in arguments:
        if isinstance(a, dict):
            given = cast("dict[str, Any]", a)
            found += made(given["source"], given["name"], tuple(reader.read(given["arguments"])))
        else:
            found.append(reader.read(a))
    return found


def described(e: BaseException) -> dict[str, str]:
    """Describe an exception as text, with the lines of the notebook that led to it."""
    frames = traceback.extract_tb(e.__traceback__)
    mine = [f for f in frames if f.filename.startswith("cell ")]
    trace = [f"{f.filename}, line {f.lineno}: {f.line or ''}".rstrip(": ") for f in mine[-3:]]
    if isinstance(e, SyntaxError):
        trace = [f"{e.filename}, line {e.lineno}: {(e.text or '').strip()}"]
    try:
        message = str(e)[:2000]
    except BaseException:  # an exception of the student's may not even print
        message = ""
    return {"error": type(e).__name__, "message": message, "trace": "\n".join(trace)}


def channel() -> tuple[IO[bytes], IO[bytes]]:
    """Return copies of stdin and stdout as (requests, replies); redirect 0, 1, 2 to os.devnull."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  as long as the process
    return requests, replies


def main(arguments: str) -> None:
    """Serve requests until the grader closes the pipe; `arguments`: {limits, folder, hidden}."""
    given = json.loads(arguments)
    limits = Limits(**given["limits"])
    requests, replies = channel()
    install_stand_in()
    notebook = NotebookModule()
    confine(limits, Path(given["folder"]), [Path(p) for p in given["hidden"]])
    send(replies, {"ready": True})
    while True:
        try:
            message, arrays = receive(requests)
        except ProtocolError:
            os._exit(0)
        if message["do"] == "cell":
            answer = notebook.run(message["number"], message["source"], limits.output), ()
        else:
            answer = notebook.call(message, arrays, limits.output)
        send(replies, *answer)
