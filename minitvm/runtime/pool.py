"""Worker threads for parallel loops.

Compiled code hands a loop to `parallel_launch(body, closure, extent)`, which runs
`body(closure, begin, end)` over chunks of range(extent) on several threads and returns when all
are done. Threads take the next chunk from one atomic counter, so a slow or late thread does not
delay the others. Chunks run as native code, without Python's global lock; Python only wakes the
workers, and puts the caller to sleep while others finish the last chunks. Workers that have just
finished a loop take the next one without Python (team.py). If no worker waits in native code, the
caller runs a short loop alone; it wakes workers for the next loops if loops follow closely.
"""

import contextlib
import ctypes
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from minitvm.base import ArgumentError, host

from .jit import NativeCode, compile_ir
from .team import LAUNCH_IR, MAX_HELPERS, SPIN_WAIT_IR, WAITING, WORDS

CHUNKS_PER_THREAD = 8  # balances threads of unequal speed at a negligible cost
SHORT = 4e-4  # seconds; a shorter loop has ended before a worker that sleeps can help
SOON = 1e-3  # seconds; a loop that begins so soon after another one will not be the last
MAX_LOOPS = 10_000  # whose times are remembered

DRAIN_IR = """
; Run chunks of a job until none is left to take.
; A job is {body, closure, extent, grain, next, done}, eight bytes each.
; Returns 1 to the one thread that finished the job's last chunk, 0 to all others.
define i32 @drain(ptr %job) {
start:
  %body = load ptr, ptr %job
  %closure.at = getelementptr i64, ptr %job, i64 1
  %closure = load ptr, ptr %closure.at
  %extent.at = getelementptr i64, ptr %job, i64 2
  %extent = load i64, ptr %extent.at
  %grain.at = getelementptr i64, ptr %job, i64 3
  %grain = load i64, ptr %grain.at
  %next = getelementptr i64, ptr %job, i64 4
  %done = getelementptr i64, ptr %job, i64 5
  br label %take
take:
  %last = phi i1 [ false, %start ], [ %complete, %run ]
  %begin = atomicrmw add ptr %next, i64 %grain seq_cst
  %some = icmp slt i64 %begin, %extent
  br i1 %some, label %run, label %leave
run:
  %full = add i64 %begin, %grain
  %short = icmp slt i64 %full, %extent
  %end = select i1 %short, i64 %full, i64 %extent
  call void %body(ptr %closure, i64 %begin, i64 %end)
  %count = sub i64 %end, %begin
  %before = atomicrmw add ptr %done, i64 %count seq_cst
  %after = add i64 %before, %count
  %complete = icmp eq i64 %after, %extent
  br label %take
leave:
  %result = zext i1 %last to i32
  ret i32 %result
}

; Return when every chunk of a job has run on any thread, and store 1 (FINISHED) in `state`.
; It is all native code, so that not even a second Ctrl-C can interrupt it.
define void @settle(ptr %job, ptr %state) {
start:
  %own = call i32 @drain(ptr %job)
  %extent.at = getelementptr i64, ptr %job, i64 2
  %extent = load i64, ptr %extent.at
  %done.at = getelementptr i64, ptr %job, i64 5
  br label %wait
wait:
  %done = load atomic i64, ptr %done.at seq_cst, align 8
  %more = icmp slt i64 %done, %extent
  br i1 %more, label %wait, label %leave
leave:
  store i32 1, ptr %state
  ret void
}
"""
SHARE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
FINISHED, INTERRUPTED = 1, 2  # stored by `minitvm_share`: the loop has run; 2 after Ctrl-C


class Job:
    """A running parallel loop that workers can join.

    Pool.drain may run it at any time. After the loop has ended, no chunk is left to take, so its
    body and closure, which may have been freed, are not accessed.
    """

    __slots__ = ("extent", "finished", "loop", "where")

    def __init__(self, body: int, closure: int | None, extent: int, threads: int) -> None:
        grain = max(1, extent // (threads * CHUNKS_PER_THREAD)) if threads > 1 else max(1, extent)
        self.extent = extent
        self.loop = (ctypes.c_int64 * 6)(body, closure or 0, extent, grain)  # as `drain` reads it
        self.where = ctypes.addressof(self.loop)
        self.finished = threading.Lock()
        self.finished.acquire()  # released by the worker that runs the last chunk


class Pool:
    """The worker threads of this process; they are started when first needed."""

    def __init__(self, threads: int) -> None:
        self.team = (ctypes.c_int64 * WORDS)(threads)
        symbols, p = {"minitvm_yield": _system()[0]}, ctypes.c_void_p
        self.code = compile_ir(DRAIN_IR + SPIN_WAIT_IR, opt=1, symbols=symbols)
        self.drain: Callable[[int], int] = self.code.function("drain", p)
        self.settle: Callable[[int, int], None] = self.code.function("settle", p, p, result=None)
        self.spin_wait: Callable[[int], None] = self.code.function("spin_wait", p, result=None)
        self.restart()

    @property
    def threads(self) -> int:
        """How many threads share a loop, including the caller."""
        return self.team[0]

    @threads.setter
    def threads(self, n: int) -> None:
        self.team[0] = n

    def restart(self) -> None:
        """Forget all workers, since fork() does not copy threads to the child."""
        self.team[1:] = [0] * (WORDS - 1)
        self.workers: list[threading.Thread] = []
        self.invitations: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.starting = threading.Lock()
        self.local = threading.local()
        self.seconds: dict[tuple[int, int], float] = {}  # of loops, by body and extent
        self.ended = 0.0  # when the last loop ended that Python launched

    def run(self, body: int, closure: int | None, extent: int, state: int) -> None:
        """Run a loop on several threads, or on one if it is short or inside another loop.

        Stores FINISHED at the address `state` when every index has run, even after Ctrl-C.
        """
        nested = getattr(self.local, "busy", False)
        loop, start = (body, extent), time.perf_counter()
        short = self.seconds.get(loop, SHORT) < SHORT  # a new loop is taken to be long
        threads = 1 if nested or short else min(self.threads, extent)
        job = Job(body, closure, extent, threads)
        try:
            self.local.busy = True
            if threads > 1:
                self.invite(job, threads - 1)
            elif not nested and start - self.ended < SOON:
                self.wake()
            if not self.drain(job.where) and extent > 0:
                job.finished.acquire()
        finally:
            self.settle(job.where, state)  # even after Ctrl-C: the closure is on the caller's stack
            self.local.busy = nested
        if len(self.seconds) >= MAX_LOOPS:
            self.seconds.clear()
        self.ended = time.perf_counter()
        self.seconds[loop] = self.ended - start

    def wake(self) -> None:
        """Wake the workers, so that they wait in native code for the next loops."""
        helpers = min(self.threads - 1, MAX_HELPERS)
        if any(self.team[8 * (n + 2)] != WAITING for n in range(helpers)):
            self.invite(Job(0, None, 0, 1), helpers)

    def invite(self, job: Job, helpers: int) -> None:
        """Queue `job` for `helpers` workers, discarding stale jobs."""
        with self.starting:
            while len(self.workers) < helpers:
                self.spawn()
        try:
            while True:
                self.invitations.get_nowait()
        except queue.Empty:
            pass
        everywhere, elsewhere = _cpus()
        self.allow(elsewhere)
        for _ in range(helpers):
            self.invitations.put(job)
        self.allow(everywhere)

    def spawn(self) -> None:
        """Start one more worker, as a daemon thread that does not keep the interpreter alive."""
        name = f"minitvm-worker-{len(self.workers) + 1}"
        number = len(self.workers)
        worker = threading.Thread(target=self.work, args=(number,), name=name, daemon=True)
        self.workers.append(worker)
        worker.start()

    def allow(self, cpus: set[int]) -> None:
        """Restrict the workers to `cpus`; do nothing if `cpus` is empty.

        Linux tends to wake a thread on the CPU of the thread that wakes it. On that CPU it would
        wait for milliseconds behind the caller, which runs the same loop, while another CPU idles.
        So workers are woken with the caller's CPU excluded, which is then allowed again.
        """
        thread_ids = [worker.native_id for worker in self.workers if worker.native_id]
        for thread in thread_ids if cpus else ():
            with contextlib.suppress(OSError):  # the CPUs of a container may change at any time
                os.sched_setaffinity(thread, cpus)

    def work(self, number: int) -> None:
        """Drain one job after another; this is the loop of a worker thread."""
        self.local.busy = True
        mailbox = ctypes.addressof(self.team) + 64 * (number + 2)
        while True:
            job = self.invitations.get()
            if self.drain(job.where):
                job.finished.release()
            if number < MAX_HELPERS:
                self.spin_wait(mailbox)


def num_threads() -> int:
    """Return how many threads share a parallel loop, including the caller.

    The default is MINITVM_NUM_THREADS if that is a number, otherwise the cores of this machine.
    """
    return _pool().threads


def set_num_threads(n: int) -> None:
    """Run parallel loops on `n` threads from now on; 1 means only in the caller."""
    if not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"set_num_threads({n!r})", "not an int of at least 1", "1 or more")
    _pool().threads = n


def parallel_launch_address() -> int:
    """Return the address of the C function that runs parallel loops for compiled code.

    void parallel_launch(void (*body)(void *closure, int64_t begin, int64_t end),
                         void *closure, int64_t extent)

    Returns when body has run for every index in range(extent). A loop launched from inside another
    loop runs serially. Call it with Python's global lock released (ctypes.CDLL and CFUNCTYPE
    functions release it). After Ctrl-C, the loop still runs to its end first.
    """
    return _launcher()[0].address("parallel_launch")


def _cpus() -> tuple[set[int], set[int]]:
    """Return the CPUs this thread may use, and the same set without its current CPU.

    Both are empty if the operating system does not support that.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS, Windows
        return set(), set()
    everywhere = os.sched_getaffinity(0)
    return everywhere, everywhere - {_c_library().sched_getcpu()}


@cache
def _c_library() -> ctypes.PyDLL:
    return ctypes.PyDLL(None)


@cache
def _pool() -> Pool:
    text = os.environ.get("MINITVM_NUM_THREADS", "")
    pool = Pool(max(1, int(text)) if text.isdecimal() else host().cores)
    if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
        os.register_at_fork(after_in_child=pool.restart)
    return pool


@cache
def _launcher() -> tuple[NativeCode, object]:
    """Return the code of LAUNCH_IR and the callback that it calls; both must be kept alive."""
    pool = _pool()

    def share(body: int, closure: int | None, extent: int, state: int) -> None:
        try:
            pool.run(body, closure, extent, state)
        except KeyboardInterrupt:
            end_state = ctypes.c_int32.from_address(state)
            if end_state.value == FINISHED:
                end_state.value = INTERRUPTED

    callback = SHARE(share)
    symbols = {
        "minitvm_share": _address(callback),
        "minitvm_interrupt": _address(ctypes.pythonapi.PyErr_SetInterrupt),
        "minitvm_team_share": pool.code.address("share"),
        "minitvm_thread": _system()[1],
    }
    team = str(ctypes.addressof(pool.team))
    text = LAUNCH_IR.replace("TEAM", team).replace("CHUNKS", str(CHUNKS_PER_THREAD))
    return compile_ir(text, opt=1, symbols=symbols), callback


def _system() -> tuple[int, int]:
    """Return the addresses of two C functions that yield the CPU and return the thread's number."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        return _address(kernel.SwitchToThread), _address(kernel.GetCurrentThreadId)
    library = ctypes.CDLL(None)
    return _address(library.sched_yield), _address(library.pthread_self)


def _address(function: Any) -> int:
    """Return the address of a ctypes function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
