"""The fuzz driver: many cases, in processes of their own, so that none can take all with it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from tqdm import tqdm

from .case import Outcome, describe, run_case
from .schedules import Tally

LONGEST = 120.0  # seconds one case may take
LIFETIME = 500  # cases one process runs: compiled code stays in memory as long as it lives
FAILURES = ("mismatch", "error", "crash")


@dataclass(slots=True)
class Summary:
    """What came of many cases."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    failed: list[Outcome] = field(default_factory=list[Outcome])
    tally: Tally = field(default_factory=Tally)

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.verdicts[outcome.verdict] += 1
        self.tally.add(outcome.tally)
        if outcome.verdict == "refused":
            self.refusals[outcome.headline.partition(": ")[2]] += 1
        elif outcome.verdict in FAILURES:
            self.failed.append(outcome)

    def __str__(self) -> str:
        return "\n".join([*_verdict_lines(self), *_tally_lines(self.tally)])


def _verdict_lines(s: Summary) -> Iterator[str]:
    v, total = s.verdicts, sum(s.verdicts.values())
    yield (
        f"{total} cases: {v['mismatch']} mismatches, {v['crash']} crashes, "
        f"{v['error']} other exceptions, {v['refused']} refused by lower(), {v['ok']} right"
    )
    for why, n in s.refusals.most_common(3):
        yield f"  refused {n} times: {why}"
    for outcome in s.failed:
        yield f"  {outcome.verdict} of seed {outcome.seed}: {outcome.headline}"


def _tally_lines(t: Tally) -> Iterator[str]:
    drawn, taken = sum(t.drawn.values()), sum(t.taken.values())
    yield f"steps accepted: {taken} of {drawn} ({_percent(taken, drawn)})"
    share = _percent(t.whole, t.schedules)
    yield f"schedules accepted as drawn, every step: {t.whole} of {t.schedules} ({share})"
    for kind, n in sorted(t.drawn.items()):
        reasons = [(why, m) for (k, why), m in t.reasons.most_common() if k == kind][:2]
        why = "; ".join(f"{m}x {text}" for text, m in reasons)
        yield f"  {kind:17}{t.taken[kind]:7} of {n:7}  {why}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def fuzz(seeds: Iterable[int], targets: Sequence[str], jobs: int = 1) -> Summary:
    """Run the case of every seed; failures are printed in full as they come.

    Interrupted from the keyboard, it says from which seed to go on.
    """
    todo = list(seeds)
    summary = Summary()
    with tqdm(total=len(todo), unit="case") as bar:
        try:
            for outcome in _outcomes(todo, targets, jobs):
                summary.add(outcome)
                if outcome.report:
                    bar.write(f"{outcome.report}\n{'-' * 100}", file=sys.stdout)
                bar.set_description(f"{len(summary.failed)} failed")
                bar.update()
        except KeyboardInterrupt:
            bar.write(f"to go on: --seed {todo[sum(summary.verdicts.values())]}")
    return summary


# --- processes -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Worker:
    """A process that runs one case after another."""

    targets: tuple[str, ...]
    process: SpawnProcess
    pipe: Connection
    seed: int = 0
    since: float = 0.0
    given: int = 0

    @classmethod
    def start(cls, targets: Sequence[str]) -> _Worker:
        """A new process, with a verifier after every pass."""
        os.environ["MINITVM_CHECK"] = "1"
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, tuple(targets)), daemon=True)
        process.start()
        theirs.close()  # so that reading ends when the process does
        return cls(tuple(targets), process, ours)

    def give(self, seed: int) -> _Worker:
        """Start a case, in a new process if this one has run many."""
        here = self
        if self.given >= LIFETIME:
            self.stop()
            here = _Worker.start(self.targets)
        here.seed, here.since, here.given = seed, time.monotonic(), here.given + 1
        here.pipe.send(seed)
        return here

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, targets: tuple[str, ...]) -> None:
    """What a process does: seeds in, outcomes out."""
    while True:
        pipe.send(run_case(pipe.recv(), targets))


def _outcomes(seeds: Sequence[int], targets: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """The outcome of every case, in the order in which they end."""
    waiting = deque(seeds)
    busy: list[_Worker] = []
    try:
        for _ in range(min(jobs, len(waiting))):
            busy.append(_Worker.start(targets).give(waiting.popleft()))
        while busy:
            ready = wait([w.pipe for w in busy], timeout=1.0)
            for w in list(busy):
                outcome = _result(w, w.pipe in ready)
                if outcome is None:
                    continue
                busy.remove(w)
                if waiting:
                    alive = w if outcome.verdict != "crash" else _Worker.start(targets)
                    busy.append(alive.give(waiting.popleft()))
                else:
                    w.stop()
                yield outcome
    finally:
        for w in busy:
            w.stop()


def _result(w: _Worker, ready: bool) -> Outcome | None:
    """What the worker has to say; None if it is still at work."""
    if ready:
        try:
            return w.pipe.recv()
        except (EOFError, ConnectionError):
            w.process.join()
            what = f"the process died with exit code {w.process.exitcode}"
    elif time.monotonic() - w.since > LONGEST:
        what = f"no result after {LONGEST:.0f} s"
    else:
        return None
    w.stop()
    return Outcome(w.seed, "crash", what, describe(w.seed, what))
