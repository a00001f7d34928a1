"""The fuzz driver: many cases in child processes, so that a crash ends only one of them."""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from minitvm import workers

from .case import GPU, TARGETS, CaseResult, describe
from .schedules import PRIMITIVES, Tally

LONGEST = 120.0  # seconds that one case may take
LIFETIME = 500  # cases per process: compiled code stays in memory until the process ends
JOB = "tests.fuzz.job"
FAILURES = ("mismatch", "error", "crash")
EVERY = {"interpreter": 1, "python": 1, "llvm": 1, "numba": 20, "exported": 20}  # every n-th case


@dataclass(slots=True)
class Summary:
    """Counts over the results of many cases, and the cases that failed."""

    verdicts: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    failed: list[CaseResult] = field(default_factory=list[CaseResult])
    tally: Tally = field(default_factory=Tally)
    ran: Counter[str] = field(default_factory=Counter[str])
    refusing: Counter[str] = field(default_factory=Counter[str])
    uncertain: int = 0
    barriers: int = 0
    spare: dict[int, int] = field(default_factory=dict[int, int])  # seed -> barriers not needed

    def add(self, outcome: CaseResult) -> None:
        """Add the result of one case."""
        self.verdicts[outcome.verdict] += 1
        self.tally.add(outcome.tally)
        self.ran.update(outcome.ran)
        self.refusing.update(outcome.refusing)
        self.uncertain += not outcome.certain
        self.barriers += outcome.barriers
        if outcome.spare:
            self.spare[outcome.seed] = outcome.spare
        if outcome.verdict == "refused":
            self.refusals[_reason(outcome.headline)] += 1
        elif outcome.verdict in FAILURES:
            self.failed.append(outcome)

    def __str__(self) -> str:
        return "\n".join([*_verdict_lines(self), *_target_lines(self), *_tally_lines(self.tally)])


def _reason(headline: str) -> str:
    """Return the reason of a refusal without names and numbers, so that equal ones are counted."""
    why = headline.partition(": ")[2]
    return re.sub(
        r"`[^`]*`|'[^']*'|(size of|among) \S+", "...", re.sub(r"\b[AS]\d[\w.]*|\d+", "_", why)
    )


def _verdict_lines(s: Summary) -> Iterator[str]:
    v, total = s.verdicts, sum(s.verdicts.values())
    yield (
        f"{total} cases: {v['mismatch']} mismatches, {v['crash']} crashes, "
        f"{v['error']} other exceptions, {v['refused']} refused by lower(), {v['ok']} right"
    )
    for why, n in s.refusals.most_common(8):
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
            f"  {s.uncertain} of them were checked for writes out of bounds only: "
            "their infinities or NaNs make results depend on the order of operations"
        )
    if s.barriers:
        spare = sum(s.spare.values())
        yield f"barriers: {s.barriers}, without {s.barriers - spare} of which threads race"
        if spare:
            yield f"  others of seeds {', '.join(map(str, s.spare))}"


def _tally_lines(t: Tally) -> Iterator[str]:
    taken, refused = sum(t.taken.values()), sum(t.reasons.values())
    yield f"steps accepted: {taken} of {taken + refused}"
    least = min(PRIMITIVES, key=lambda name: t.ran[name])
    yield f"least often run: {least}, {t.ran[least]} times"
    yield f"  {'primitive':28}{'refused':>8}{'accepted':>9}{'run':>7}  most frequent refusals"
    for kind in (*PRIMITIVES, *sorted({*t.taken, *(k for k, _ in t.reasons)} - {*PRIMITIVES})):
        reasons = [(why, m) for (k, why), m in t.reasons.most_common() if k == kind][:2]
        why = "; ".join(f"{m}x {text}" for text, m in reasons)
        row = f"  {kind:28}{t.refused(kind):8}{t.taken[kind]:9}{t.ran[kind]:7}  {why}"
        yield row.rstrip()


def fuzz(seeds: Iterable[int], every: Mapping[str, int] = EVERY, jobs: int = 1) -> Summary:
    """Run the case of every seed; print each failure in full when it occurs.

    every   target -> n: the target runs the cases whose seed is a multiple of n
    jobs    the number of processes
    Ctrl-C stops and prints the seed from which to continue.
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
            bar.write(f"to continue: --seed {todo[sum(summary.verdicts.values())]}")
    return summary


# --- processes -----------------------------------------------------------------------------------


def run_apart(
    worker: workers.Worker, seed: int, every: Mapping[str, int] = EVERY, seconds: float = LONGEST
) -> CaseResult:
    """Run a case in the process of `worker`; report a "crash" if the process dies or hangs."""
    targets = [target for target, n in every.items() if seed % n == 0]
    given = worker.ask([seed, targets], seconds=seconds)
    if isinstance(given, workers.Message):
        return pickle.loads(given.blobs[0])  # from our own child
    report = describe(seed, "\n".join([str(given), *given.stderr]), gpu=GPU in targets)
    return CaseResult(seed, "crash", str(given), report)


def _outcomes(seeds: Sequence[int], every: Mapping[str, int], jobs: int) -> Iterator[CaseResult]:
    """Yield the result of every case, in the order in which the cases end."""
    os.environ["MINITVM_CHECK"] = "1"  # children run a verifier after every pass
    with workers.Pool(JOB, min(jobs, len(seeds)), renew=LIFETIME) as pool:
        yield from pool.map(lambda worker, seed: run_apart(worker, seed, every), seeds)
