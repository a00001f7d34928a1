"""Count the cycles that the accelerator takes for each of its calls in a network."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import accel
from minitvm.base import plural

from .accelerated import AcceleratorFunction
from .network import Call, Library, NetworkPlan

COLUMNS = f"{'call':32} {'load':>9} {'compute':>9} {'store':>9} {'cycles':>9} {'used':>5}"


@dataclass(frozen=True, slots=True)
class CallCycles:
    """The simulated cycles of one call on the accelerator.

    load, compute, store   cycles in which each unit works; units may work at the same time
    products               cycles in which the matrix unit multiplies
    total                  cycles from the start to the end of the call
    """

    name: str
    load: int
    compute: int
    store: int
    products: int
    total: int

    @property
    def utilisation(self) -> float:
        """The share of the cycles in which the matrix unit multiplies."""
        return self.products / self.total

    def __str__(self) -> str:
        units = f"{self.load:9} {self.compute:9} {self.store:9}"
        return f"{self.name[:32] or '-':32} {units} {self.total:9} {self.utilisation:5.3f}"


@dataclass(frozen=True, slots=True)
class Cycles:
    """The simulated cycles of a network's calls on the accelerator, in the order of execution.

    The calls run one after another. print shows one line for each of them and their sum.
    seconds   the time of all calls at the clock rate of the accelerator
    """

    rows: tuple[CallCycles, ...]
    seconds: float

    @property
    def sum(self) -> CallCycles:
        """The sums of all columns."""
        names = ("load", "compute", "store", "products", "total")
        sums = {name: sum(getattr(row, name) for row in self.rows) for name in names}
        return CallCycles(f"{(n := len(self.rows))} call{plural(n)}", **sums)

    @property
    def total(self) -> int:
        """The cycles of all calls."""
        return self.sum.total

    @property
    def utilisation(self) -> float:
        """The share of all cycles in which the matrix unit multiplies."""
        return self.sum.utilisation if self.rows else 0.0

    def __str__(self) -> str:
        if not self.rows:
            return "no call runs on the accelerator"
        lines = [COLUMNS, *map(str, self.rows), str(self.sum)]
        return "\n".join([*lines, f"{self.seconds * 1e3:.4g} ms on the accelerator"])

    __repr__ = __str__


def cycles_of(plan: NetworkPlan, lib: Library) -> Cycles:
    """Return the cycles of the calls of accelerator functions; MeasureError if one deadlocks."""
    calls = [(call, lib.kernels[call.kernel]) for call in plan.calls]
    ours = [(call, f) for call, f in calls if isinstance(f, AcceleratorFunction)]
    seconds = sum(f.whole_run.cycles / f.config.clock_hz for _, f in ours)
    return Cycles(tuple(_row(call, f.whole_run) for call, f in ours), seconds)


def _row(call: Call, run: accel.Run) -> CallCycles:
    return CallCycles(
        call.name,
        run.busy[accel.Unit.LOAD],
        run.busy[accel.Unit.COMPUTE],
        run.busy[accel.Unit.STORE],
        run.counters.gemm_counter,
        run.cycles,
    )
