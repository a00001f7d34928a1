"""The devices of a Dask cluster, as a table: what is busy, waits and has failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from minitvm import dist

from .device import PURPOSE, RESOURCE, TOPIC

MEASURING = "minitvm-measure"  # how the keys of tasks that need a device begin


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device: its kind, the address of its worker, and counts of its measurements.

    measured, failed   of the last measurements of the pool that Dask's scheduler remembers, 1,000
                       by default
    """

    kind: str
    worker: str
    is_busy: bool
    measured: int
    failed: int


@dataclass(frozen=True, slots=True)
class Pool:
    """The devices of a Dask cluster; str() is a table.

    builders   how many workers have no device
    waiting    how many measurements wait for a device that is busy
    lost       how many workers were lost while they had work to do
    """

    address: str
    devices: tuple[PoolDevice, ...]
    builders: int
    waiting: int
    lost: int

    def __str__(self) -> str:
        rows = [("device", "worker", "busy", "measured", "failed")]
        rows += [
            (d.kind, d.worker, "yes" if d.is_busy else "no", str(d.measured), str(d.failed))
            for d in self.devices
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        counts = f"{self.waiting} waiting, {self.lost} workers lost, {self.builders} without device"
        return "\n".join([f"pool {self.address}", *lines, counts])


def pool(address: str) -> Pool:
    """Return the devices of the Dask cluster whose scheduler has this address."""
    with dist.connected(address, PURPOSE) as client:
        return pool_of(client)


def pool_of(client: Any) -> Pool:
    """Return the devices of the cluster of a Dask client."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    under_way = {
        worker: sum(str(key).startswith(MEASURING) for key in keys)
        for worker, keys in client.processing().items()
    }
    events = [event for _, event in client.get_events(TOPIC)]
    measured = Counter(event["worker"] for event in events)
    failed = Counter(event["worker"] for event in events if event["error"])
    devices = tuple(
        PoolDevice(
            kind.removeprefix(RESOURCE), worker, under_way.get(worker, 0) > 0, measured[worker],
            failed[worker],
        )
        for worker, facts in workers.items()
        for kind, count in facts["resources"].items()
        if kind.startswith(RESOURCE) and count > 0
    )  # fmt: skip
    busy = sum(device.is_busy for device in devices)
    have_device = {device.worker for device in devices}
    lost = sum(
        event["action"] == "remove-worker" and bool(event["processing-tasks"])
        for _, event in client.get_events("all")
    )
    return Pool(
        client.scheduler.address,
        devices,
        len(workers) - len(have_device),
        sum(under_way.values()) - busy,
        lost,
    )
