"""Run the programs of hostile students, here or in a process: python -m tests.edu.attacks.suite

It prints what got through, as JSON: {"tier": ..., "through": [names]}. With --matrix it runs itself
as root and as a user, with and without namespaces, and as in a locked pod (make attacks).
"""

import contextlib
import json
import os
import platform
import re
import shutil
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
USER = 65534  # without rights: the kernel's overflow id
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


def report() -> dict[str, Any]:
    """Run the programs here; return the wall in use, the user, and what got through."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        return {"tier": tier(), "user": os.geteuid(), "through": got_through(Path(place))}


def ways(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the ways to run `words`: as this user, as one without rights, and as in a locked pod.

    A pod has an unprivileged user and no user namespaces, and so no bubblewrap of its own.
    """
    bwrap, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    user: list[str] = []
    if os.geteuid() == 0:
        yield "root", words
        if not (bwrap and setpriv):
            return
        rights = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        user = [bwrap, "--dev-bind", "/", "/", *open_to_all(sys.base_prefix), *rights, "--"]
        user += [setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    yield "user", [*user, *words]
    if bwrap:
        locked = [bwrap, "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
        yield "pod", [*user, *locked, *words]


def open_to_all(path: str) -> list[str]:
    """Return options of bubblewrap that let all users reach `path`, such as Python below /root."""
    above = list(reversed(Path(path).parents))
    closed = [n for n, p in enumerate(above) if not p.stat().st_mode & 0o001]
    if not closed:
        return []
    top, *inside = above[closed[0] :]
    options = ["--perms", "0755", "--tmpfs", str(top)]
    for folder in inside:
        options += ["--perms", "0755", "--dir", str(folder)]
    return [*options, "--bind", path, path]


def matrix() -> None:
    """Run the suite in each way, with the strongest wall and without namespaces; print a table.

    The fence is not tried: it does not stop machine code, so that the programs would do here what
    they try to do.
    """
    for who, words in ways([sys.executable, "-m", "tests.edu.attacks.suite"]):
        for wall in ("namespaces", "kernel rules"):
            with tempfile.TemporaryDirectory() as home:
                os.chmod(home, 0o777)
                env = {**os.environ, "MINITVM_WALL": wall, "HOME": home, "TMPDIR": home}
                done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:]
                print(f"{who:5} {wall:13} cannot be run: {''.join(last)}", flush=True)
                continue
            result = json.loads(done.stdout)
            through = ", ".join(result["through"]) or "nothing"
            print(f"{who:5} {wall:13} has: {result['tier']:13} through: {through}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--matrix"]:
        matrix()
    else:
        json.dump(report(), sys.stdout, indent=1)
