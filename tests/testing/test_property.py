"""The property everything rests on: a schedule changes how a program runs, never what it computes.

Random programs under random schedules on the interpreter (after several passes), as Python and as
machine code give what `evaluate` says. `make exhaustive` runs 10,000 of them.
"""

import pytest

from tests.fuzz.case import run_case

CASES, CHUNKS = 80, 2
FAILURES = ("mismatch", "error")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_property_a_schedule_does_not_change_results(chunk: int) -> None:
    size = CASES // CHUNKS
    outcomes = [run_case(seed) for seed in range(chunk * size, (chunk + 1) * size)]
    failed = [outcome.report for outcome in outcomes if outcome.verdict in FAILURES]
    assert not failed, failed[0]
    assert sum(outcome.verdict == "ok" for outcome in outcomes) >= 0.8 * size
