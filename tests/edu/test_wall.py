"""The wall around a notebook: its tiers, its system calls, and what hostile programs get."""

import ctypes
import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.edu import sandbox
from minitvm.edu.__main__ import main
from minitvm.workers import seccomp, wall, wall_fault

from .attacks.programs import LOUD, QUIET

MACHINE = platform.machine()
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has walls")
namespaces = pytest.mark.skipif(bool(wall_fault()), reason=f"no namespaces: {wall_fault()}")
filters = pytest.mark.skipif(not seccomp.can_refuse_system_calls(), reason="no seccomp here")

ROOT_WITHOUT_NAMESPACES = {"reads the passwords", "becomes root", "has capabilities"}
THROUGH = {  # what each tier does not hold; docs/instructor.md says the same in words
    "namespaces": set() if IS_ROOT else {"makes five thousand files"},
    "kernel rules": {
        "sees the names of files", "sees that a file is there", "sees other processes",
        "makes five thousand files", "writes 256 MB",
    } | (ROOT_WITHOUT_NAMESPACES if IS_ROOT else set()),
}  # fmt: skip


def run(*program: str, tier: str = "namespaces") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "MINITVM_WALL": tier}
    return subprocess.run(program, capture_output=True, text=True, check=False, env=env)


# --- tiers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", [pytest.param("namespaces", marks=namespaces),
                                  pytest.param("kernel rules", marks=filters)])  # fmt: skip
def test_hostile_programs_get_through_where_the_tier_says_so_and_nowhere_else(tier: str) -> None:
    done = run(sys.executable, "-m", "tests.edu.attacks.suite", tier=tier)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["tier"] == tier
    assert {*result["through"]} == THROUGH[tier]


def test_the_suite_has_many_programs_each_with_its_own_trick() -> None:
    assert len(QUIET) + len(LOUD) >= 60
    assert len({*QUIET.values()}) == len(QUIET)


def test_the_tier_is_found_by_building_a_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bubblewrap that is installed and fails counts as none."""
    monkeypatch.setattr(wall, "program", lambda: "/bin/false")
    wall.fault.cache_clear()
    sandbox.tier.cache_clear()
    try:
        assert sandbox.tier() != "namespaces"
    finally:
        monkeypatch.undo()
        wall.fault.cache_clear()
        sandbox.tier.cache_clear()


def test_strict_refuses_to_grade_without_namespaces(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("minitvm.edu.command.tier", lambda: "kernel rules")
    assert main(["grade", str(tmp_path), "--out", str(tmp_path / "out"), "--strict"]) == 1
    assert "--strict: this machine has only: kernel rules" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tier", ["kernel rules", "fence"])
def test_grading_says_what_a_weaker_wall_does_not_hold(monkeypatch, tier) -> None:
    monkeypatch.setattr(sandbox, "tier", lambda: tier)
    monkeypatch.setattr("minitvm.workers.wall_fault", lambda: "bubblewrap is not installed")
    text = sandbox.about_tier()
    assert f"wall: {tier}" in text
    assert "bubblewrap is not installed" in text
    assert sandbox.NOT_HELD[tier] in text


# --- the wall itself -----------------------------------------------------------------------------


@namespaces
def test_behind_a_wall_there_is_only_what_was_named(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "hidden").mkdir()
    for place in ("secret", "seen/file", "seen/hidden/file"):
        (tmp_path / place).write_text(place, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    around = wall.Wall((str(tmp_path / "seen"),), (str(tmp_path / "seen" / "hidden"),))
    code = f"import os; print([p for p, _, names in os.walk({str(tmp_path)!r}) for n in names])"
    done = run(*wall.command(around, str(work)), sys.executable, "-I", "-S", "-c", code)
    assert done.stdout.strip() == str([str(tmp_path / "seen")]), done.stderr


@namespaces
def test_what_is_written_behind_a_wall_is_gone(tmp_path: Path) -> None:
    code = "open('x', 'w').write('x' * 100)"
    done = run(*wall.command(wall.Wall(), str(tmp_path)), sys.executable, "-I", "-c", code)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@namespaces
def test_a_signal_behind_a_wall_is_told_from_an_exit_code(started) -> None:
    student = started("import os\nos.abort()", "import os\nos._exit(3)")
    assert [r.message for r in student.failed] == [
        "it was ended by signal 6", "it ended with exit code 3",
    ]  # fmt: skip


# --- system calls --------------------------------------------------------------------------------

CALLS = r"""
import ctypes, json, os, runpy, sys
filtered = runpy.run_path(sys.argv[1])
numbers = filtered["numbers"](filtered["DENIED"], os.uname().machine)
libc = ctypes.CDLL(None, use_errno=True)
assert filtered["refuse_system_calls"]()
words = [ctypes.c_long(-1)] * 6
codes = {}
for name, number in numbers.items():
    ctypes.set_errno(0)
    assert libc.syscall(ctypes.c_long(number), *words) == -1, name
    codes[name] = ctypes.get_errno()
print(json.dumps(codes))
"""


@linux
@filters
def test_every_denied_system_call_is_refused() -> None:
    done = run(sys.executable, "-c", CALLS, seccomp.__file__)
    codes = json.loads(done.stdout)
    assert codes.keys() == seccomp.numbers(seccomp.DENIED, MACHINE).keys()
    assert {*codes.values()} == {errno.EPERM}


LIMITED = r"""
import ctypes, os, resource, runpy, signal, sys, threading
filtered = runpy.run_path(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
assert filtered["refuse_system_calls"]()
parent = os.getppid()
refused = {
    "kill": libc.kill(parent, 0), "tgkill": libc.tgkill(parent, parent, 0), "fork": libc.fork(),
    "prlimit": libc.prlimit(0, 7, bytes(16), None), "PDEATHSIG": libc.prctl(1, 0, 0, 0, 0),
    "of another": libc.prlimit(parent, 7, bytes(16), None), "TIOCSTI": libc.ioctl(0, 0x5412, b"x"),
    "F_SETOWN": libc.fcntl(0, 8, parent), "new call": libc.syscall(ctypes.c_long(500)),
}
print({name: code for name, code in refused.items() if code != -1}, flush=True)
os.kill(os.getpid(), 0)
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
thread = threading.Thread(target=lambda: print("a thread", flush=True))
thread.start()
thread.join()
os.abort()
"""


@linux
@filters
def test_calls_are_allowed_for_what_a_program_does_to_itself() -> None:
    done = run(sys.executable, "-c", LIMITED, seccomp.__file__)
    assert done.stdout == "{}\na thread\n", done.stderr
    assert done.returncode == -6


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter_of_each_architecture_is_well_formed(machine: str) -> None:
    """Every jump ends inside the filter, and every path ends in a verdict."""
    steps = seccomp.rules(machine, 7)
    assert len(steps) < 4096
    for n, (code, yes, no, _) in enumerate(steps):
        assert code == seccomp.RETURN or n + 1 + max(yes, no) < len(steps)
    denied = seccomp.numbers(seccomp.DENIED, machine)
    assert len({*denied.values()}) == len(denied)
    for number in denied.values():
        assert verdict(steps, machine, number) == seccomp.REFUSE
    assert verdict(steps, machine, 3 if machine == "x86_64" else 57) == seccomp.ALLOW  # close
    other = "aarch64" if machine == "x86_64" else "x86_64"
    assert verdict(steps, other, 0) == seccomp.KILL
    limited = seccomp.numbers(seccomp.LIMITED, machine)
    assert verdict(steps, machine, limited["kill"], 7) == seccomp.ALLOW
    assert verdict(steps, machine, limited["kill"], 8) == seccomp.REFUSE
    assert verdict(steps, machine, limited["clone"], 0x10F00) == seccomp.ALLOW
    assert verdict(steps, machine, limited["clone"], 17) == seccomp.REFUSE


def verdict(steps, machine: str, number: int, argument: int = 0) -> int:
    """Run a filter as the kernel does."""
    data = {seccomp.NUMBER: number, seccomp.ARCHITECTURE: seccomp.ARCHITECTURES[machine].audit}
    at, word = 0, 0
    while True:
        code, yes, no, constant = steps[at]
        match code:
            case seccomp.RETURN:
                return constant
            case seccomp.LOAD:
                word, taken = data.get(constant, argument if constant == 16 else 0), 0
            case seccomp.EQUAL:
                taken = yes if word == constant else no
            case seccomp.AT_LEAST:
                taken = yes if word >= constant else no
            case _:
                taken = yes if word & constant else no
        at += 1 + taken


@linux
def test_the_numbers_of_this_machine_are_those_of_its_headers() -> None:
    header = Path("/usr/include", f"{MACHINE}-linux-gnu", "asm", "unistd_64.h")
    if not header.exists():
        pytest.skip("the headers of the kernel are not installed")
    words = [line.split() for line in header.read_text(encoding="utf-8").splitlines()]
    real = {w[1][5:]: int(w[2]) for w in words if len(w) == 3 and w[1].startswith("__NR_")}
    table = {
        **seccomp.numbers(seccomp.DENIED, MACHINE),
        **seccomp.numbers(seccomp.LIMITED, MACHINE),
    }
    assert {n: k for n, k in table.items() if real.get(n, k) != k} == {}
    assert ctypes.sizeof(ctypes.c_long) == 8
