"""The pages of an exam and of its key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import TypeAlias

import numpy as np

from minitvm import viz
from minitvm.base import ArgumentError

from .. import files
from ..item import Rng
from .arena import memory_plan
from .caches import misses, reuse
from .models import corrections, pairs, splits
from .nests import guards, order, sums
from .products import instructions
from .question import Question
from .queues import tokens
from .searches import configurations, gradients, sketches
from .vectors import vectors
from .warps import banks, sectors
from .windows import bounds, footprint

Family: TypeAlias = Callable[[Rng], Question]

FAMILIES: dict[Family, str] = {  # in the order of the course, and the notebooks they need
    footprint: "01", sums: "02", guards: "02", bounds: "05", order: "03", misses: "04",
    reuse: "04", vectors: "06", sectors: "07", banks: "07", instructions: "08", tokens: "09",
    memory_plan: "10", configurations: "11", pairs: "12", splits: "12", corrections: "13",
    sketches: "14", gradients: "15",
}  # fmt: skip
MOST = 40  # questions of an exam
STYLE = """
@page{size:A4;margin:16mm}
body{max-width:46em}h1{font-size:22px}h2{font-size:17px;margin:1.6em 0 .3em}p{margin:.4em 0}
pre{font-size:12px;break-inside:avoid}section{break-inside:avoid}
.write{display:block;height:2.4em;border-bottom:1px solid #999}
.small{color:#666;font-weight:normal;font-size:14px}
@media print{body{color:#000;background:#fff;margin:0;padding:0}
pre{background:#f4f4f4;font-size:11px}}
"""


def questions_of(seed: int, count: int = 0, until: str = "") -> tuple[Question, ...]:
    """Draw `count` questions, as evenly from all families as possible, in the order of the course.

    count   by default one question of each family
    until   the last notebook that the questions may need, such as "06"; by default all notebooks
    Answers that a student could guess or read off the text are drawn again.
    Raises ArgumentError if no family needs only the notebooks up to `until`.
    """
    families = [f for f, notebook in FAMILIES.items() if not until or notebook <= until]
    if not families or not re.fullmatch(r"(\d\d[a-z]?)?", until):
        raise ArgumentError(f"--until {until!r:.40}", "no question is about it", "--until 06")
    rng = np.random.default_rng(seed)
    count = count or len(families)
    chosen: list[int] = []
    while len(chosen) < count:
        chosen += rng.permutation(len(families)).tolist()
    questions: list[Question] = []
    for n in sorted(chosen[:count]):
        question = families[n](rng)
        while question.is_trivial or question in questions:
            question = families[n](rng)
        questions.append(question)
    return tuple(questions)


def exam_page(questions: tuple[Question, ...]) -> str:
    """Return the exam as an HTML page."""
    points = sum(q.points for q in questions)
    head = (
        f"<p>Name: {'_' * 44}</p><p>{len(questions)} questions, {points} points; a point is about a"
        " minute. Indices start at 0.</p>"
    )
    parts = [_question(n, q, key=False) for n, q in enumerate(questions, 1)]
    return viz.page(f"Exam {_name(questions)}", [head, *parts], STYLE)


def key_page(questions: tuple[Question, ...], seed: int) -> str:
    """Return the exam with its answers as an HTML page."""
    head = f"<p>Answers to exam {_name(questions)}, drawn with --seed {seed}.</p>"
    parts = [_question(n, q, key=True) for n, q in enumerate(questions, 1)]
    return viz.page(f"Key {_name(questions)}", [head, *parts], STYLE)


def write_exam(seed: str, out: Path | None = None, count: str = "", until: str = "") -> int:
    """Write exam.html and key.html into `out`, by default the folder exam-NAME; return 0.

    The default does not show the seed, because browsers print the path of a page below it.
    Raises ArgumentError if `seed`, `count` or `until` is not suitable, or `out` is not a folder.
    """
    number = _number("--seed", seed, 0, 10**18)
    question_count = _number("--questions", count, 1, MOST) if count else 0
    questions = questions_of(number, question_count, until)
    folder = out or Path(f"exam-{_name(questions)}")
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(str(folder), "it is a file, not a folder", "--out FOLDER")
    files.write(folder / "exam.html", exam_page(questions))
    files.write(folder / "key.html", key_page(questions, number))
    print(f"wrote {folder / 'exam.html'} and {folder / 'key.html'}: exam {_name(questions)}")
    return 0


def _number(name: str, text: str, least: int, most: int) -> int:
    """Return `text` as an integer from `least` to `most`, or raise ArgumentError."""
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not plain or not least <= int(text) <= most:
        why = f"not an integer from {least} to {most}"
        raise ArgumentError(f"{name} {text!r:.40}", why, f"{name} {max(least, 12)}")
    return int(text)


def _name(questions: tuple[Question, ...]) -> str:
    """Return a name that tells exams apart without showing the seed."""
    return hashlib.sha256(repr(questions).encode()).hexdigest()[:6]


def _question(number: int, question: Question, *, key: bool) -> str:
    """Return one question as HTML, with space to write or with the answers of the key."""

    def lines() -> Iterator[str]:
        small = f'<span class="small">({question.points} points)</span>'
        yield f"<section>\n<h2>{number}. {escape(question.title)} {small}</h2>"
        yield f"<p>{_marked(question.text)}</p>"
        yield f"<pre>{escape(question.code)}</pre>"
        pairs = zip(question.asks, question.answers, strict=True)
        for letter, (ask, answer) in zip("abcdef", pairs, strict=False):
            after = f" <b>{escape(answer)}</b>" if key else '<span class="write"></span>'
            yield f"<p>{letter}) {_marked(ask)}{after}</p>"
        if key:
            yield f"<p>{escape(question.working)}</p>"
            yield f'<p class="small">See {escape(question.section)}.</p>'
        yield "</section>"

    return "\n".join(lines())


def _marked(text: str) -> str:
    """Return `text` as HTML; text in backquotes becomes code."""
    return re.sub("`(.+?)`", r"<code>\1</code>", escape(text))
