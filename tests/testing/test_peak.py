"""The share of the peak is taken at the clock of the program; the time here is made up."""

import pytest

from minitvm import testing
from minitvm.base import MeasureError, Target
from minitvm.testing import peak


class Clock:
    """A CPU whose clock is high until it has worked for 40 ms; the peak's first call is slow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls, self.built = 0.0, list[str](), list[tuple[int, Target]]()
        for name in ("perf_counter", "thread_time"):
            monkeypatch.setattr(peak.time, name, lambda: self.now)
        monkeypatch.setattr(peak, "fma_run", self.fma_run)

    def program(self) -> None:
        worked = self.now if "burst" not in self.calls else 1.0
        self.now += 0.005 if worked < 0.04 else 0.010
        self.calls.append("program")

    def fma_run(self, threads: int, *, target: Target, steps: int):
        self.built.append((threads, target))
        return self.burst, 1e6

    def burst(self) -> None:
        self.now += 0.0005 if self.calls[-1] == "program" else 0.0001
        self.calls.append("burst")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_settled_program_is_compared_with_the_second_burst(clock: Clock) -> None:
    beside = testing.share_of_peak(clock.program, 8e7)
    assert (beside.rate, beside.peak, beside.share) == pytest.approx((8.0, 10.0, 0.8))


def test_each_turn_ends_with_two_bursts(clock: Clock) -> None:
    testing.share_of_peak(clock.program, 1.0, repeat=3)
    assert clock.calls == 12 * ["program"] + 2 * (["burst"] * 2 + 8 * ["program"]) + 2 * ["burst"]


def test_the_peak_has_the_vectors_and_the_threads_of_the_target(clock: Clock) -> None:
    target = Target("llvm -num-cores=2").on(vector_bytes=16)
    testing.share_of_peak(clock.program, 1.0, target)
    assert clock.built == [(2, target)]


@pytest.mark.parametrize(("flops", "repeat"), [(0, 1), (float("nan"), 1), (1, 0)])
def test_nothing_to_measure(flops: float, repeat: int) -> None:
    with pytest.raises(MeasureError, match="nothing to measure"):
        testing.share_of_peak(lambda: None, flops, repeat=repeat)
