"""Turn the outcomes of parts into points, using the worst outcome of each part over all seeds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from minitvm.base import TVMError

from .checkers import describe
from .item import Answer, AnswerError, Item, Outcome, Part, StartError, failed

Seeds: TypeAlias = Sequence[int | None]  # None: the public seed
Verdict: TypeAlias = Literal["not started", "keep going", "correct", "fast enough"]
PUBLIC: Seeds = (None,)
MAX_TEXT = 2000  # characters of a text in a report

WHY = {  # the usual reason why there was no answer to check
    "timeout": "a loop does not end, or does far more work than is needed",
    "crash": "it used too much memory, or ended the Python process",
    "wrong-type": "the question asks for another kind of value",
    "unreadable": "what is returned must be usable outside the notebook, too",
    "changed-argument": "make a copy before you change it",
    "refused": "minitvm does not accept what was returned",
}


@dataclass(frozen=True, slots=True)
class PartMark:
    """The worst outcome of one part over all seeds."""

    kind: str
    title: str
    weight: float
    outcome: Outcome

    @staticmethod
    def of(part: Part, outcome: Outcome) -> PartMark:
        return PartMark(part.kind, part.title, part.weight, outcome)


@dataclass(frozen=True, slots=True)
class Mark:
    """The outcome of one item: `points` out of at most `worth` points."""

    item: str
    title: str
    points: float
    worth: float
    verdict: Verdict
    parts: tuple[PartMark, ...]
    section: str = ""

    @property
    def messages(self) -> tuple[str, ...]:
        """The message ids of the parts that did not pass."""
        return tuple(p.outcome.message for p in self.parts if p.outcome.message)

    def to_json(self) -> dict[str, Any]:
        """Return the mark as plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Mark:
        """Read the mark that `to_json` wrote."""
        parts: list[PartMark] = []
        for part in data["parts"]:
            entries: dict[str, Any] = {**part, "outcome": Outcome(**part["outcome"])}
            parts.append(PartMark(**entries))
        whole: dict[str, Any] = {**data, "parts": tuple(parts)}
        return Mark(**whole)


def mark(item: Item, answer: Answer, seeds: Seeds = PUBLIC) -> Mark:
    """Check the answer to `item`, part by part, with every seed, and return its mark."""
    parts: list[PartMark] = []
    gate = ""
    for n, part in enumerate(item.parts):
        if gate:
            outcome = Outcome("skipped", 0.0, "", got=gate)
        else:
            outcome = _worst(item, n, part, answer, seeds)
            is_started = outcome.status != "not started"
            is_required = part.required or part.kind == "correctness"
            if not is_started or (is_required and outcome.score < 1):
                gate = (
                    f"not checked until this passes: {part.title}" if is_started else "not started"
                )
        parts.append(PartMark.of(part, outcome))
    return _mark_of(item, parts)


def unmarked(item: Item, outcome: Outcome) -> Mark:
    """Return a mark with 0 points: the first part has `outcome`, the others are skipped."""
    first, *rest = item.parts
    later = Outcome("skipped", 0.0, "", got=outcome.got)
    return _mark_of(item, [PartMark.of(first, outcome), *(PartMark.of(p, later) for p in rest)])


def _mark_of(item: Item, parts: Sequence[PartMark]) -> Mark:
    points, verdict = round(item.points * _share(parts), 2), _verdict(parts)
    return Mark(item.id, item.title, points, item.points, verdict, tuple(parts), item.section)


def _worst(item: Item, n: int, part: Part, answer: Answer, seeds: Seeds) -> Outcome:
    """Return the worst outcome of one part over all seeds; speed uses only the last seed."""
    worst: list[Outcome] = []
    for seed in seeds[-1:] if part.kind == "speed" else seeds:
        outcome = _outcome(part, answer, random_for(item.id, n, seed))
        worst = [min([*worst, outcome], key=lambda o: o.score)]
        if outcome.score == 0:
            break
    return worst[0]


def random_for(item: str, part: int, seed: int | None) -> np.random.Generator:
    """Return the random generator of a part; `seed` is secret, or None for the public seed."""
    public = [zlib.crc32(item.encode()), part]
    return np.random.default_rng(public if seed is None else [*public, seed])


def _outcome(part: Part, answer: Answer, rng: np.random.Generator) -> Outcome:
    """Check one part, and shorten the texts of its outcome."""
    o = _checked(part, answer, rng)
    names = ("expected", "got", "where", "why", "case")
    texts = {name: shortened(getattr(o, name)) for name in names}
    return replace(o, **texts)


def shortened(text: str) -> str:
    """Return the first MAX_TEXT characters of a text, with "?" for what no file can hold.

    A surrogate alone cannot be encoded, and a control character can steer a terminal.
    """
    cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in cut)


def _checked(part: Part, answer: Answer, rng: np.random.Generator) -> Outcome:
    """Check one part, and turn every exception into an outcome that shows the last arguments."""
    last: list[str] = [""]

    def noted(*arguments: Any) -> Any:
        last[0] = f"the arguments ({', '.join(map(describe, arguments))})"
        return answer(*arguments)

    try:
        return part.check(noted, rng)
    except AnswerError as e:
        message, reason, _ = e.args
        if message == "not-started":
            return Outcome("not started", 0.0, message, why=reason)
        why = WHY.get(message, "")
        return failed(message, "an answer", reason, why=why, case=last[0])
    except StartError:
        raise  # of the machine, not of the answer
    except TVMError as e:
        return failed("refused", "an answer", str(e), why=WHY["refused"], case=last[0])
    except Exception as e:  # data of an unexpected kind can fail anywhere in a check
        description = f"a value that the check cannot handle: {type(e).__name__}: {e}"
        return failed(
            "unusable", "an answer of the kind that was asked for", description, case=last[0]
        )


def _share(parts: Sequence[PartMark]) -> float:
    """Return the share of the points that was reached, 0 .. 1; inconclusive parts reach nothing."""
    total = sum(p.weight for p in parts)
    return sum(p.weight * p.outcome.score for p in parts) / total if total else 0.0


def _verdict(parts: Sequence[PartMark]) -> Verdict:
    statuses = [p.outcome.status for p in parts]
    if "not started" in statuses:
        return "not started"
    if all(s in ("passed", "inconclusive") for s in statuses):
        fast = any(p.kind == "speed" and p.outcome.status == "passed" for p in parts)
        return "fast enough" if fast else "correct"
    return "keep going"
