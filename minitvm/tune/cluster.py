"""Measure programs on the workers of a Dask cluster.

program() -> loops    in this process
loops -> object file  on any worker whose machine is of the needed kind
object -> seconds     on a worker with a device, which Dask gives to one task at a time

Dask decides where a task runs, and repeats it on another worker if the first one dies.
"""

from __future__ import annotations

import math
import pickle
import secrets
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from minitvm import dist, tir
from minitvm.base import ArgumentError, MeasureError, Target

from . import device as tasks
from .builder import LLVM, Program, in_order, lowered
from .device import PURPOSE, RESOURCE, Formula, Machine, this_device
from .inputs import Array
from .measure import ROUNDS, MeasureOptions, Measurer, named
from .pool import MEASURING, Pool, pool_of
from .trial import Result

PER_DEVICE = 3  # programs under way: one is measured, one is built, one is lowered
DEVICE_SECONDS = 60.0  # how long a search waits for a device after the last one was lost
TICK_SECONDS = 5.0  # how often it looks for devices while it waits
DIED = "the Dask workers that measured it died"


class DaskMeasurer:
    """Devices of a Dask cluster, which build and measure the programs of searches.

        tune.run(task, measurer=tune.DaskMeasurer("tcp://127.0.0.1:8786"))
        tune.DaskMeasurer(2).use()          later searches in this process measure there

    cluster   the address of a scheduler, an object that has one (dask.distributed.LocalCluster), or
              how many workers to start on this machine, each with a device
    device    the kind of device: workers that offer the Dask resource "device.avx512" have a
              device "avx512"; "" for the kind of this machine
    It connects when it is first needed. Use it in a `with` statement, or close() it.
    """

    def __init__(self, cluster: str | int | Any, device: str = "") -> None:
        where = getattr(cluster, "scheduler_address", cluster)
        if isinstance(where, bool) or not isinstance(where, str | int):
            why = "it is neither an address nor a number of workers"
            raise ArgumentError(f"cluster {cluster!r}", why, '"tcp://127.0.0.1:8786", or 2')
        self.resource = RESOURCE + (device or this_device())
        self._where, self._client, self._opened = where, None, ExitStack()

    @property
    def client(self) -> Any:
        """Return the Dask client; connect if it is not connected."""
        if self._client is None:
            resources = {self.resource: 1.0}
            self._client = self._opened.enter_context(
                dist.connected(self._where, PURPOSE, resources)
            )
        return self._client

    def devices(self) -> list[str]:
        """Return the addresses of the workers that have a device of this kind."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [w for w, facts in workers.items() if facts["resources"].get(self.resource, 0) > 0]

    def pool(self) -> Pool:
        """Return all devices of the cluster, as a table."""
        return pool_of(self.client)

    def of(
        self,
        reference: tir.PrimFunc,
        target: str | Target = LLVM,
        *,
        inputs: Sequence[Array] | None = None,
        rng: np.random.Generator | None = None,
        options: MeasureOptions | None = None,
        own: bool = False,
    ) -> ClusterMeasurer:
        """Return what measures programs for one formula here; for the arguments, see Measurer.

        own   whether closing it closes this connection, too
        """
        if Target(target).kind != LLVM:
            raise ArgumentError(f"measuring for {target} on a cluster", "no GPU", "target llvm")
        options = options or MeasureOptions()
        measurer = Measurer(reference, target, inputs=inputs, rng=rng, options=options)
        machine = Machine.here(Target(target))
        name = secrets.token_hex(8)
        formula = Formula(name, self.resource, machine, options.memory, measurer)
        return ClusterMeasurer(self, formula, own=own)

    def use(self) -> Self:
        """Measure the programs of later searches in this process here, until close()."""
        _used.append(self)
        return self

    def close(self) -> None:
        """Close the connection; end the workers that were started for it."""
        _used[:] = [cluster for cluster in _used if cluster is not self]
        self._client = None
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_used: list[DaskMeasurer] = []


def in_use() -> DaskMeasurer | None:
    """Return the cluster that measures by default, the last one whose use() was called."""
    return _used[-1] if _used else None


class LostError(MeasureError):
    """Raised if several workers died while they ran the same task."""


class ClusterMeasurer:
    """Measures programs for one formula on a Dask cluster; DaskMeasurer.of makes it."""

    def __init__(self, cluster: DaskMeasurer, formula: Formula, *, own: bool) -> None:
        self._cluster, self._formula, self._own = cluster, formula, own
        self._sent: Any = None  # the formula as a Dask future
        self._futures = WeakSet[Any]()  # of the tasks under way
        self._given_up = threading.Event()
        self._reference_seconds, self._best, self._count = 0.0, math.inf, 0

    @property
    def reference_cost(self) -> float:
        """Return the seconds of one call of the reference on a device, measured when first needed.

        Raises MeasureError if the reference cannot be measured.
        """
        if not self._reference_seconds:
            self._start()
            seconds = self._result(self._submit(tasks.reference, count=1))
            self._reference_seconds = self._best = seconds
        return self._reference_seconds

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order; a failure is a result too.

        Threads of this process call the programs to lower them, a few programs ahead.
        """
        _ = self.reference_cost
        self._start()
        count = PER_DEVICE * max(1, len(self._cluster.devices()))
        with closing(in_order(programs, self._measured, count, self._give_up)) as results:
            for n, result in enumerate(results, self._count + 1):
                self._count = n
                yield named(n, result)

    def remeasure(self, programs: Sequence[Program], rounds: int = ROUNDS) -> list[Result]:
        """Measure programs and the reference alternately on one device; see Measurer.remeasure."""
        self._start()
        built = [self._built(program, patient=True) for program in programs]
        return self._result(self._submit(tasks.race, built, rounds, count=1))

    def close(self) -> None:
        """End what is under way, and forget the formula on the workers."""
        with suppress(Exception):  # a cluster that is gone has nothing to end
            if self._sent is not None:
                self._give_up()
                self._cluster.client.run(tasks.end, self._formula.name)
        self._sent = None
        if self._own:
            self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one program -----------------------------------------------------------------------------

    def _measured(self, program: Program) -> Result:
        """Lower a program here, and wait until it has been built and measured."""
        start = time.perf_counter()
        built = self._built(program)
        if isinstance(built, Result):
            return built
        seconds = time.perf_counter() - start
        try:
            result = self._result(self._submit(tasks.measure, built, self._best, count=1))
        except LostError as e:
            return Result((), "crash", e.args[1], seconds)
        self._best = min(self._best, result.best)
        return replace(result, build_seconds=result.build_seconds + seconds)

    def _built(self, program: Program, patient: bool = False) -> Any:
        """Lower a program, and return the future of the built one, or the result of an error."""
        func = lowered(program)
        if isinstance(func, Result):
            return func
        try:
            sent = pickle.dumps(func)  # plain pickle: no functions of a notebook travel
        except (pickle.PicklingError, AttributeError, TypeError) as e:
            return Result((), "lower", f"the program cannot be sent to a worker: {e}")
        return self._submit(tasks.build, sent, patient, count=0)

    # --- Dask ------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Send the formula, unless that is done; ArgumentError unless all devices may measure."""
        self._given_up.clear()
        if self._sent is not None:
            return
        devices = self._devices()
        machine = self._formula.machine
        client, code = self._cluster.client, machine.code
        processes = dist.ask_workers(client, tasks.admitted, code, machine, workers=devices)
        if len({*processes.values()}) < len(devices):
            why = "two of its workers with devices are threads of one process"
            raise ArgumentError(f"the Dask cluster {self._where}", why, "processes=True")
        f = self._formula
        resources = {self._cluster.resource: 0}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # large inputs
            # a task, not data: Dask repeats it if its result is lost with a worker
            self._sent = client.submit(
                Formula, f.name, f.device, f.machine, f.memory, f.measurer,
                pure=False, resources=resources,
            )  # fmt: skip

    @property
    def _where(self) -> str:
        return self._cluster.client.scheduler.address

    def _devices(self) -> list[str]:
        """Return the workers that have a device; wait for one, ArgumentError if none comes."""
        deadline = time.monotonic() + dist.CONNECT_SECONDS
        while not (devices := self._cluster.devices()):
            if time.monotonic() > deadline:
                resource = self._cluster.resource
                why = f"no worker offers the resource {resource!r}"
                fix = f"dask worker {self._where} --nthreads 1 --resources {resource}=1"
                raise ArgumentError(f"measuring on {self._where}", why, fix)
            time.sleep(0.1)
        return devices

    def _submit(self, task: Any, *args: Any, count: int) -> Any:
        """Start a task where the resource is offered; it takes `count` of it while it runs."""
        if self._given_up.is_set():
            raise CancelledError
        key = f"{MEASURING if count else 'minitvm-build'}-{secrets.token_hex(8)}"
        resources = {self._cluster.resource: count}
        future = self._cluster.client.submit(task, self._sent, *args, key=key, resources=resources)
        self._futures.add(future)
        return future

    def _result(self, future: Any) -> Any:
        """Wait for a task; raise MeasureError if the cluster is lost."""
        dask, alone_since = dist.distributed(PURPOSE), math.inf
        try:
            while True:
                with suppress(TimeoutError):
                    return future.result(timeout=TICK_SECONDS)
                alone_since = min(alone_since, time.monotonic())
                if self._cluster.devices():
                    alone_since = math.inf
                elif time.monotonic() - alone_since > DEVICE_SECONDS:
                    why = f"no device has been available for {DEVICE_SECONDS:.0f} s"
                    raise MeasureError(f"measuring on {self._where}", why, "start workers")
        except dask.KilledWorker as e:
            raise LostError(f"measuring on {self._where}", DIED) from e
        except dask.CancelledError as e:
            if self._given_up.is_set():
                raise
            what = f"measuring on {self._formula.device}"
            raise MeasureError(what, "the Dask scheduler is gone", "run it again") from e

    def _give_up(self) -> None:
        """End the tasks under way."""
        self._given_up.set()
        self._cluster.client.cancel(list(self._futures))
