"""The side of a Dask worker: it builds programs and, if it has a device, measures them.

A device is a Dask resource, such as {"device.avx512": 1}: Dask gives it to one task at a time. The
functions here are tasks. They find what they need in this process, which starts it if it is new.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from minitvm import dist
from minitvm.base import ArgumentError, Target, host, processor

from .builder import Built
from .measure import Cpus, Measurer, Processes
from .record import machine_facts
from .trial import Result

PURPOSE = "measuring on a cluster"
RESOURCE = "device."  # how the names of resources that are devices begin
TOPIC = "minitvm"  # of the events that Dask keeps: a result each
ONE_KIND = "search on a machine of the kind that measures, or name another kind of device"
_lock = threading.Lock()
_processes: dict[str, Processes] = {}  # by target and memory
_measurers: dict[str, tuple[str, Measurer]] = {}  # by the names of formulas: key of processes, it
_claims: dict[int, IO[bytes]] = {}  # CPU -> the locked file that keeps it for this process


@dataclass(frozen=True, slots=True)
class Machine:
    """What must be equal where programs for `target` are scheduled, compiled and measured."""

    target: Target
    code: str
    facts: Mapping[str, Any]
    features: frozenset[str]

    @classmethod
    def here(cls, target: Target) -> Machine:
        """Return the machine that runs this process."""
        facts = {"architecture": platform.machine(), **machine_facts(target)}
        return cls(target, dist.code_version(), facts, host().features)

    def check(self) -> None:
        """Raise ArgumentError unless this Dask worker runs on such a machine, with this code.

        A log names the machine that searches, and schedules depend on its caches.
        """
        dist.check_code(self.code)
        facts = Machine.here(self.target).facts
        for name, fact in self.facts.items():
            if facts[name] != fact:
                why = f"its {name} is {facts[name]}, that of the machine that searches {fact}"
                raise ArgumentError(dist.here(), why, ONE_KIND)
        if why := processor.lacking(self.features):
            raise ArgumentError(f"a program for {dist.here()}", why, ONE_KIND)


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """What a worker must have to build and measure programs for one formula.

    device     the resource that a device has
    memory     bytes that a process may allocate
    measurer   one that has not been started; it has the reference and the inputs
    """

    name: str
    device: str
    machine: Machine
    memory: int
    measurer: Measurer

    def here(self) -> Measurer:
        """Return the measurer of this process, which is made in the first call."""
        with _lock:
            if self.name not in _measurers:
                self.machine.check()
                key = f"{self.machine.target!r} {self.memory}"
                if key not in _processes:
                    _processes[key] = self._processes()
                _measurers[self.name] = key, self.measurer.using(_processes[key])
            return _measurers[self.name][1]

    def _processes(self) -> Processes:
        worker = dist.distributed(PURPOSE).get_worker().state
        is_device, count = worker.total_resources.get(self.device, 0) > 0, worker.nthreads
        target = self.machine.target
        cpus = cpus_of(target.num_cores, count == 1) if is_device else (None, None)
        return Processes(target, self.memory, cpus=cpus, builders=count)


def this_device() -> str:
    """Return the kind of device that this machine is: "avx512", "avx2", "sse" or "neon"."""
    machine = host()
    if "neon" in machine.features:
        return "neon"
    return {64: "avx512", 32: "avx2"}.get(machine.vector_bytes, "sse")


# --- tasks ---------------------------------------------------------------------------------------


def admitted(code: str, machine: Machine) -> tuple[str, int]:
    """Return the host and the process of this worker; raise ArgumentError if it cannot measure."""
    dist.check_code(code)
    machine.check()
    return platform.node(), os.getpid()


def build(formula: Formula, program: bytes, patient: bool) -> Built | Result:
    """Compile a lowered program; `patient` as for Measurer.build."""
    return formula.here().build(lambda: pickle.loads(program), patient)


def reference(formula: Formula) -> float:
    """Return the seconds of one call of the reference on this device."""
    return formula.here().reference_cost


def measure(formula: Formula, built: Built | Result, best: float) -> Result:
    """Measure a program on this device; `best` as for Measurer.run."""
    result = formula.here().run(built, best)
    dist.distributed(PURPOSE).get_worker().log_event(TOPIC, {"error": result.error})
    return result


def race(formula: Formula, built: Sequence[Built | Result], rounds: int) -> list[Result]:
    """Measure programs and the reference alternately on this device."""
    return formula.here().race(built, rounds)


def end(name: str) -> None:
    """Forget a formula, and end the processes that no other formula uses."""
    with _lock:
        key, _ = _measurers.pop(name, ("", None))
        if key and all(key != other for other, _ in _measurers.values()):
            _processes.pop(key).close()


# --- CPUs ----------------------------------------------------------------------------------------


def cpus_of(threads: int, is_alone: bool) -> Cpus:
    """Return the CPUs for builders and for the runner of a device; None for all.

    threads    how many CPUs a program uses
    is_alone   whether this worker has one thread, so that it does not build while it measures
    """
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    every = os.sched_getaffinity(0)
    mine = claimed(sorted(every), threads, locked)
    others = sorted(every - set(mine))
    return (mine if is_alone or not others else others), mine


def claimed(cpus: Sequence[int], count: int, lock: Callable[[int], IO[bytes] | None]) -> list[int]:
    """Claim `count` of the CPUs for this process, until it ends, and return them.

    Dask does not know which of its devices are on the same CPU; a lock does.
    Raises ArgumentError if other devices have too many of them.
    """
    for cpu in reversed(cpus):
        if len(_claims) < count and cpu not in _claims and (file := lock(cpu)) is not None:
            _claims[cpu] = file
    if len(_claims) < count:
        why = f"it needs {count} of the CPUs {[*cpus]}, and other devices have the rest"
        fix = "fewer workers with devices on a machine, or fewer -num-cores"
        raise ArgumentError(dist.here(), why, fix)
    return sorted(_claims)[:count]


def locked(cpu: int) -> IO[bytes] | None:
    """Return an open file with a lock for `cpu`; None if another process has locked it."""
    import fcntl  # not on Windows, where processes are not bound to CPUs

    path = Path(tempfile.gettempdir()) / f"minitvm-cpu-{cpu}.lock"
    with contextlib.suppress(OSError):
        if not path.exists():
            path.touch()
        file = path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
        else:
            return file
    return None
