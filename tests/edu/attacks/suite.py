"""Run the programs of hostile students, here or in a process: python -m tests.edu.attacks.suite

It prints what got through, as JSON: {"tier": ..., "through": [names]}.
"""

import contextlib
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minitvm.edu.item import AnswerError
from minitvm.edu.sandbox import ROOT, Limits, tier
from minitvm.edu.student import Student
from minitvm.workers import seccomp

from .programs import PRELUDE, QUIET

BROKEN = re.compile("(Name|Type|Syntax|Attribute|Value|Argument)Error|error: ")
UNHURRIED = Limits(seconds=60.0, memory=4 << 30)


@contextlib.contextmanager
def victims(folder: Path) -> Iterator[dict[str, Any]]:
    """What there is to attack: a file, a process, and listeners, all of this user."""
    victim = folder / "grades.csv"
    victim.write_text("bob,100\n", encoding="utf-8")
    other = subprocess.Popen(["sleep", "600"])
    listeners = [
        socket.socket(family) for family in (socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX)
    ]
    listeners[0].bind(("127.0.0.1", 0))
    port = listeners[0].getsockname()[1]
    listeners[1].bind(str(folder / "agent"))
    listeners[2].bind(f"\0minitvm{port}")
    for listener in listeners:
        listener.listen()
    try:
        yield {
            "victim": str(victim), "folder": str(folder), "socket": str(folder / "agent"),
            "port": port, "other": other.pid, "grader": os.getpid(), "root": str(ROOT),
            "home": os.path.expanduser("~"),
            "checks": str(ROOT / "exercises" / "checks"),
        }  # fmt: skip
    finally:
        other.kill()
        other.wait()
        for listener in listeners:
            listener.close()


def got_through(folder: Path) -> list[str]:
    """Run all QUIET programs in one student's process; return the names of those that succeed."""
    machine = platform.machine()
    numbers = {
        **seccomp.numbers(seccomp.DENIED, machine),
        **seccomp.numbers(seccomp.LIMITED, machine),
    }
    with victims(folder) as places:
        cells = [PRELUDE.format(numbers=numbers, **places)]
        cells += [f"def attack{n}():\n    {body}" for n, body in enumerate(QUIET.values())]
        student = Student(list(enumerate(cells, 1)), UNHURRIED, [Path(places["checks"])])
        try:
            assert not student.failed, student.failed
            return [name for n, name in enumerate(QUIET) if succeeds(student, f"attack{n}")]
        finally:
            student.close()


def succeeds(student: Student, name: str) -> bool:
    try:
        return student.call(name, ()) is True
    except AnswerError as e:
        if BROKEN.search(e.args[1]):
            raise RuntimeError(f"the program itself is wrong: {e.args}") from None
        return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        names = got_through(Path(place))
    json.dump({"tier": tier(), "user": os.geteuid(), "through": names}, sys.stdout, indent=1)
