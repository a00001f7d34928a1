"""Ctrl-C ends the wait for long calls at once; a fork waits for them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from minitvm.runtime.interrupt import interruptibly
from minitvm.runtime.jit import compile_ir

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and fork")


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where this process was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_value_and_an_error_come_back() -> None:
    def fail() -> None:
        raise ValueError("as it was")

    assert interruptibly(lambda: 5) == 5
    with pytest.raises(ValueError, match="as it was"):
        interruptibly(fail)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_does_not_wait_for_the_work() -> None:
    started, end = threading.Event(), threading.Event()

    def strike() -> None:
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def work() -> None:
        started.set()
        end.wait()

    threading.Thread(target=strike).start()
    with pytest.raises(KeyboardInterrupt):
        interruptibly(work)
    assert not end.is_set()
    end.set()


def slow(stores: int) -> str:
    """IR whose compile takes time: each store may change what any load reads."""
    lines = (
        f"%at{n} = getelementptr float, ptr %a, i64 %i{n}\n%i{n + 1} = load i64, ptr %at{n}\n"
        f"store float {n}.0, ptr %at{n}"
        for n in range(stores)
    )
    body = "\n".join(lines)
    return f"define void @slow(ptr %a, i64 %i0) {{\n{body}\nret void\n}}"


INTERRUPTED = """
import os, signal, sys, threading
from minitvm.runtime.jit import compile_ir
signal.signal(signal.SIGINT, signal.default_int_handler)
def compiling():
    return any(t.name == "minitvm-compile" for t in threading.enumerate())
def strike():
    while not compiling():
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=strike).start()
try:
    compile_ir(sys.stdin.read())
    print("compiled")
except KeyboardInterrupt:
    print("interrupted", compiling())
"""


def test_ctrl_c_does_not_wait_for_llvm_and_neither_does_the_end_of_the_process() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        input=slow(1000),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout == "interrupted True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_while_another_thread_compiles_can_compile() -> None:
    end = threading.Event()

    def build() -> None:
        while not end.is_set():
            compile_ir(slow(300))

    thread = threading.Thread(target=build)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # one that hangs is ended by it
                compile_ir(slow(1))
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        thread.join()
