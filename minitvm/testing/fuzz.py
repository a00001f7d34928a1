"""The fuzz driver: many cases, in processes of their own, so that none can take all with it."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from tqdm import tqdm

from .case import TARGETS, Outcome, describe, run_case
from .tally import PRIMITIVES, Tally

LONGEST = 120.0  # seconds one case may take
LIFETIME = 500  # cases one process runs: compiled code stays in memory as long as it lives
FAILURES = ("mismatch", "error", "crash")
EVERY = {"interpreter": 1, "python": 1, "llvm": 1, "numba": 20, "exported": 20}  # n-th case


@dataclass(slots=True)
class Summary:
    """What came of many cases."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    failed: list[Outcome] = field(default_factory=list[Outcome])
    tally: Tally = field(default_factory=Tally)
    ran: Counter[str] = field(default_factory=Counter[str])
    refusing: Counter[str] = field(default_factory=Counter[str])
    uncertain: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.verdicts[outcome.verdict] += 1
        self.tally.add(outcome.tally)
        self.ran.update(outcome.ran)
        self.refusing.update(outcome.refusing)
        self.uncertain += not outcome.certain
        if outcome.verdict == "refused":
            self.refusals[outcome.headline.partition(": ")[2]] += 1
        elif outcome.verdict in FAILURES:
            self.failed.append(outcome)

    def __str__(self) -> str:
        return "\n".join([*_verdict_lines(self), *_target_lines(self), *_tally_lines(self.tally)])


def _verdict_lines(s: Summary) -> Iterator[str]:
    v, total = s.verdicts, sum(s.verdicts.values())
    yield (
        f"{total} cases: {v['mismatch']} mismatches, {v['crash']} crashes, "
        f"{v['error']} other exceptions, {v['refused']} refused by lower(), {v['ok']} right"
    )
    for why, n in s.refusals.most_common(5):
        yield f"  refused {n} times: {why}"
    for outcome in s.failed:
        yield f"  {outcome.verdict} of seed {outcome.seed}: {outcome.headline}"


def _target_lines(s: Summary) -> Iterator[str]:
    yield "cases that ran and were right, by target:"
    for target in TARGETS:
        if target in s.ran or target in s.refusing:
            yield f"  {target:12}{s.ran[target]:7}" + (
                f"  and {s.refusing[target]} refused for their hardware threads"
                if s.refusing[target]
                else ""
            )
    if s.uncertain:
        yield (
            f"  {s.uncertain} of them only ran and stayed inside their memory: "
            "with their infinities or NaNs, results depend on the order of operations"
        )


def _tally_lines(t: Tally) -> Iterator[str]:
    drawn, taken = sum(t.drawn.values()), sum(t.taken.values())
    yield f"steps accepted: {taken} of {drawn} ({_percent(taken, drawn)})"
    share = _percent(t.whole, t.schedules)
    yield f"schedules accepted as drawn, every step: {t.whole} of {t.schedules} ({share})"
    least = min(PRIMITIVES, key=lambda name: t.ran[name])
    yield f"least often run: {least}, {t.ran[least]} times"
    yield f"  {'primitive':28}{'drawn':>7}{'accepted':>9}{'run':>7}  most frequent refusals"
    for kind in (*PRIMITIVES, *sorted(t.drawn.keys() - set(PRIMITIVES))):
        reasons = [(why, m) for (k, why), m in t.reasons.most_common() if k == kind][:2]
        why = "; ".join(f"{m}x {text}" for text, m in reasons)
        row = f"  {kind:28}{t.drawn[kind]:7}{t.taken[kind]:9}{t.ran[kind]:7}  {why}"
        yield row.rstrip()


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def fuzz(seeds: Iterable[int], every: Mapping[str, int] = EVERY, jobs: int = 1) -> Summary:
    """Run the case of every seed; failures are printed in full as they come.

    every   target -> n: it runs the cases whose seed is a multiple of n
    Interrupted from the keyboard, it says from which seed to go on.
    """
    todo = list(seeds)
    summary = Summary()
    with tqdm(total=len(todo), unit="case") as bar:
        try:
            for outcome in _outcomes(todo, every, jobs):
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

    every: Mapping[str, int]
    process: SpawnProcess
    pipe: Connection
    seed: int = 0
    since: float = 0.0
    given: int = 0

    @classmethod
    def start(cls, every: Mapping[str, int]) -> _Worker:
        """A new process, with a verifier after every pass."""
        os.environ["MINITVM_CHECK"] = "1"
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, dict(every)), daemon=True)
        process.start()
        theirs.close()  # so that reading ends when the process does
        return cls(every, process, ours)

    def give(self, seed: int) -> _Worker:
        """Start a case, in a new process if this one has run many."""
        here = self
        if self.given >= LIFETIME:
            self.stop()
            here = _Worker.start(self.every)
        here.seed, here.since, here.given = seed, time.monotonic(), here.given + 1
        here.pipe.send(seed)
        return here

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, every: Mapping[str, int]) -> None:
    """What a process does: seeds in, outcomes out."""
    while True:
        seed = pipe.recv()
        pipe.send(run_case(seed, [target for target, n in every.items() if seed % n == 0]))


def _outcomes(seeds: Sequence[int], every: Mapping[str, int], jobs: int) -> Iterator[Outcome]:
    """The outcome of every case, in the order in which they end."""
    waiting = deque(seeds)
    busy: list[_Worker] = []
    try:
        for _ in range(min(jobs, len(waiting))):
            busy.append(_Worker.start(every).give(waiting.popleft()))
        while busy:
            ready = wait([w.pipe for w in busy], timeout=1.0)
            for w in list(busy):
                outcome = _result(w, w.pipe in ready)
                if outcome is None:
                    continue
                busy.remove(w)
                if waiting:
                    alive = w if outcome.verdict != "crash" else _Worker.start(every)
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
