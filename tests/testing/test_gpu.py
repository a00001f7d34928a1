"""Random programs under random schedules for a GPU: right and free of races, or refused.

`python -m tests.fuzz --gpu 1000` runs more of them, and counts reasons and barriers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from minitvm import codegen, tir
from tests.fuzz.case import GPU, CaseResult, run_case
from tests.fuzz.driver import Summary

CASES, CHUNKS = 52, 2


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_property_a_gpu_computes_what_the_formulas_say(chunk: int) -> None:
    size = CASES // CHUNKS
    summary = Summary()
    for seed in range(chunk * size, (chunk + 1) * size):
        summary.add(run_case(seed, (GPU,)))
    assert not summary.failed, summary.failed[0].report
    assert summary.ran[GPU] >= size // 2, str(summary)  # the others are refused with a reason
    assert summary.barriers >= 4
    # a size that is known only when the program runs decides on the others
    assert sum(summary.spare.values()) <= 0.1 * summary.barriers, str(summary)


def with_barriers_by(
    patch: pytest.MonkeyPatch, wrong: Callable[[tir.Stmt], tir.Stmt]
) -> list[CaseResult]:
    """Run cases with another pass in place of thread_sync."""
    backend = codegen.TARGETS["cuda"]
    passes = tuple(wrong if p.__name__ == "thread_sync" else p for p in backend.passes)
    patch.setitem(codegen.TARGETS, "cuda", replace(backend, passes=passes))
    return [run_case(seed, (GPU,)) for seed in range(24)]


def test_a_missing_barrier_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [o for o in with_barriers_by(monkeypatch, lambda s: s) if o.verdict == "mismatch"]
    assert any("read after write" in o.headline for o in failed)
    assert "again: python -m tests.fuzz --gpu --only" in failed[0].report


def test_a_barrier_that_is_not_needed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(s: tir.Stmt) -> tir.Stmt:
        return tir.seq(s, s) if isinstance(s, tir.Evaluate) else s

    right = next(p for p in codegen.TARGETS["cuda"].passes if p.__name__ == "thread_sync")
    outcomes = with_barriers_by(monkeypatch, lambda s: tir.rewrite(right(s), twice))
    assert sum(o.barriers for o in outcomes) == sum(o.spare for o in outcomes) > 0


@pytest.mark.slow
def test_numbas_simulator_gets_the_same_results_from_random_kernels() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.witness", "20"],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("right") == 20
