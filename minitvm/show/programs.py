"""Make what `show` shows from words of a command line: a program, and a schedule of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitvm import te, topi, tuning
from minitvm.base import ArgumentError, Target, TVMError

SHAPE = re.compile(r"([A-Za-z_]\w*)=([0-9]+(?:x[0-9]+)*)")
EXAMPLE = "--shape A=256x256,B=256x256"


@dataclass(frozen=True, slots=True)
class Program:
    """A formula and its tensors: the inputs, then the output."""

    title: str
    tensors: tuple[te.Tensor, ...]

    @property
    def output(self) -> te.Tensor:
        return self.tensors[-1]


def program_of(what: str, shape: str, dtype: str, target: Target) -> Program:
    """Return the program for a formula such as "C(i) = A(i) + 1", or for an operator's name."""
    if not shape:
        raise ArgumentError(f"show {what!r}", "the shapes of its inputs are missing", EXAMPLE)
    if "(" in what:
        inputs = {
            name: te.placeholder(sizes, dtype, name=name) for name, sizes in shapes(shape).items()
        }
        output = te.define(what, **inputs)
        if unused := inputs.keys() - {t.op.name for t in output.op.input_tensors}:
            why = f"the formula does not read {', '.join(sorted(unused))}"
            raise ArgumentError(f"--shape {shape}", why, "the tensors of the formula only")
        return Program(what, (*inputs.values(), output))
    if what not in tuning.operators():
        known = ", ".join(tuning.operators())
        why = "it is not a formula, an operator or the file of a network"
        raise ArgumentError(f"show {what!r}", why, f'"C(i) = A(i) + 1"; {known}; or FILE.onnx')
    task = tuning.task_of(what, tuning.sizes(shape), str(target))
    return Program(f"{what} {shape}", tuple(task.args))


def shapes(text: str) -> dict[str, tuple[int, ...]]:
    """Parse the value of --shape for a formula, such as "A=256x256,B=256x256"."""
    pairs = [SHAPE.fullmatch(word) for word in text.split(",")]
    shape_of = {p[1]: tuple(map(int, p[2].split("x"))) for p in pairs if p is not None}
    if None in pairs or len(shape_of) < len(pairs):
        why = "it is not a list of different names with sizes"
        raise ArgumentError(f"--shape {text}", why, EXAMPLE)
    return shape_of


def schedule_of(program: Program, choice: str, target: Target) -> te.Schedule:
    """Return topi's schedule for "default", plain loops for "none", else the schedule in a file."""
    match choice:
        case "default":
            return topi.schedule(program.output, target=target)
        case "none":
            return te.create_schedule(program.output.op)
        case path:
            return _read(Path(path), program)


def _read(path: Path, program: Program) -> te.Schedule:
    """Run a file of Python in which the tensors have their names, and return its `s`.

    --stage schedule prints such a file.
    """
    what = f"--schedule {path}"
    try:
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    except OSError as e:
        fix = "default, none, or a file with what --stage schedule prints"
        raise ArgumentError(what, str(e.strerror or e), fix) from e
    except (SyntaxError, ValueError) as e:
        raise ArgumentError(what, f"it is not Python: {e}") from e
    names: dict[str, Any] = {"te": te, **{t.op.name: t for t in program.tensors}}
    try:
        exec(code, names)
    except TVMError:
        raise
    except Exception as e:  # whatever the file does
        raise ArgumentError(what, f"{type(e).__name__}: {e}") from e
    s = names.get("s")
    if not isinstance(s, te.Schedule):
        why = "it defines no schedule s"
        raise ArgumentError(what, why, f"s = te.create_schedule({_named(program.tensors[-1:])}.op)")
    return s


def _named(tensors: Sequence[te.Tensor]) -> str:
    return ", ".join(t.op.name for t in tensors)
