"""Serving: who enters and leaves when, in seconds that can be added by hand."""

from itertools import pairwise

import pytest

from minitvm.base import ArgumentError
from minitvm.course import serving
from minitvm.course.serving import Request, Times, serve

# reading takes 1 s; a step takes 1 s alone, and .1 s more for each other request
TIMES = Times(read={1: 1.0, 200: 1.0}, write={1: 1.0, 11: 2.0})


def shown(served: tuple[serving.Served, ...]) -> list[str]:
    """The requests as text: slot, start, end of writing, return."""
    return [f"{x.slot}: {x.start:.1f} {x.written:.1f} {x.returned:.1f}" for x in served]


def test_a_batch_is_returned_when_its_longest_answer_is_written() -> None:
    """Two are read (2 s), then two steps of 1.1 s; the third request starts after both."""
    requests = [Request(0.0, 8, 2), Request(0.0, 8, 3), Request(0.5, 8, 1)]
    served = serve(requests, TIMES, slots=2, level="request")
    assert shown(served) == ["0: 0.0 3.1 4.2", "1: 1.0 4.2 4.2", "0: 4.2 5.2 5.2"]
    assert [x.latency for x in served] == pytest.approx([4.2, 4.2, 4.7])


def test_a_waiting_request_takes_the_slot_of_a_finished_one() -> None:
    """The first leaves at 3.1 s; while the third is read, the second waits, and then both step."""
    requests = [Request(0.0, 8, 2), Request(0.0, 8, 3), Request(0.0, 8, 2)]
    served = serve(requests, TIMES, slots=2, level="iteration")
    assert shown(served) == ["0: 0.0 3.1 3.1", "1: 1.0 5.2 5.2", "0: 3.1 5.2 5.2"]


@pytest.mark.parametrize("level", serving.LEVELS)
def test_the_machine_waits_for_a_request(level: serving.Level) -> None:
    served = serve([Request(5.0, 8, 3)], TIMES, slots=4, level=level)
    assert shown(served) == ["0: 5.0 8.0 8.0"]


@pytest.mark.parametrize("level", serving.LEVELS)
@pytest.mark.parametrize("slots", [1, 4])
def test_all_requests_are_served_once_and_no_slot_holds_two(
    slots: int, level: serving.Level
) -> None:
    requests = serving.requests(rate=0.1, count=30, seed=1)
    served = serve(requests, TIMES, slots, level)
    assert sorted(x.request.arrival for x in served) == [r.arrival for r in requests]
    for slot in range(slots):
        spans = sorted((x.start, x.returned) for x in served if x.slot == slot)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_with_one_slot_both_levels_are_the_same() -> None:
    requests = serving.requests(rate=0.1, count=10)
    one, other = (serve(requests, TIMES, 1, level) for level in serving.LEVELS)
    assert shown(one) == shown(other)


def test_requests_are_drawn_from_their_seed() -> None:
    first, again = (serving.requests(rate=2.0, count=50, seed=3) for _ in range(2))
    assert first == again != serving.requests(rate=2.0, count=50, seed=4)
    assert {1 <= r.answer <= 128 and 16 <= r.question <= 128 for r in first} == {True}


def test_our_kernels_were_recorded_for_all_requests() -> None:
    times = serving.recorded()
    assert min(times.read) <= serving.LENGTHS[0][0]
    assert max(times.read) >= serving.LENGTHS[0][1]
    assert min(times.write) == 1
    assert all(seconds > 0 for table in (times.read, times.write) for seconds in table.values())


def test_nonsense_is_refused() -> None:
    requests = [Request(0.0, 8, 3)] * 5
    with pytest.raises(ArgumentError, match="level='batch'"):
        serve(requests, TIMES, 2, "batch")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="slots=0"):
        serve(requests, TIMES, 0, "request")
    with pytest.raises(ArgumentError, match="recorded are 1 to 4"):
        serve(requests, Times({1: 1.0, 200: 1.0}, {1: 1.0, 4: 1.0}), 5, "request")
    for nothing in ([], 5, "x", [None]):
        with pytest.raises(ArgumentError, match="request"):
            serve(nothing, TIMES, 2, "request")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ArgumentError, match="times"):
        serve(requests, {1: 1.0}, 2, "request")  # pyright: ignore[reportArgumentType]
    for rate in (0, -1.0, float("nan"), "fast"):
        with pytest.raises(ArgumentError, match="rate"):
            serving.requests(rate, 2)  # pyright: ignore[reportArgumentType]
