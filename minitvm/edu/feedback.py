"""Write feedback as text, Markdown or HTML: reports, which contain marks, or a single mark.

A student reads the same words in the notebook, the terminal and the report. Text from the student
is escaped in HTML, and cannot end a code block in Markdown.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from textwrap import indent

from .score import Mark, PartMark, Verdict

RIGHT: tuple[Verdict, ...] = ("correct", "fast enough")
SIGN = {"passed": "ok", "failed": "no", "not started": "--", "inconclusive": "??", "skipped": "--"}
UNGRADED = {  # the words for puzzles, which have no points
    "not started": "your turn",
    "keep going": "not yet",
    "correct": "solved",
    "fast enough": "solved",
}
COLOR = {  # border and pale background, from Okabe and Ito; words repeat the meaning
    "not started": ("#0072B2", "#eef5fa"),
    "keep going": ("#E69F00", "#fdf6e7"),
    "correct": ("#009E73", "#e9f6f2"),
    "fast enough": ("#009E73", "#e9f6f2"),
}
# The feedback is a light card in every theme. It has no table and no <pre>, because JupyterLab
# changes their colours and breaks words in them anywhere.
ROWS = "display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:2px 0 2px 1.5em"
MARKUP = re.compile(r"[\\`*_\[\]#|!~$]")  # punctuation that has a meaning in Markdown
TEXT = "font-family:monospace;white-space:pre-wrap;overflow-wrap:anywhere"


@dataclass(frozen=True, slots=True)
class Report:
    """Feedback on one notebook.

    facts   which file was graded
    notes   problems that belong to no item, such as cells that failed
    """

    title: str
    facts: tuple[str, ...]
    notes: tuple[str, ...]
    marks: tuple[Mark, ...]


def headline(m: Mark) -> str:
    """Return one line, such as "ex03.2 tile for the cache: keep going (2.4 of 6 points)"."""
    if not m.worth:  # a puzzle, or a challenge
        has_value = any(p.outcome.value is not None for p in m.parts)
        return f"{m.item} {m.title}: {'counted' if has_value else UNGRADED[m.verdict]}"
    return f"{m.item} {m.title}: {m.verdict} ({m.points:g} of {m.worth:g} points)"


def details(part: PartMark) -> list[tuple[str, str]]:
    """Return (label, text) for each text in the outcome of a part; [] if the part passed."""
    o = part.outcome
    if o.status in ("passed", "skipped"):
        return []
    lines = (
        ("expected", o.expected), ("got", o.got), ("first difference", o.where), ("for", o.case),
        ("why", o.why),
    )  # fmt: skip
    return [(label, text) for label, text in lines if text]


def pointer(m: Mark) -> list[str]:
    """Return a line that names the section to read and the call for a hint; [] if all is right."""
    return [] if m.verdict in RIGHT else [f'read {m.section}, or ask edu.hint("{m.item}", 1)']


def as_text(x: Report | Mark) -> str:
    """Write feedback as plain text.

    ex03.2 tile for the cache: keep going (2.4 of 6 points)
      ok  the right result
      no  few cache misses
          expected: at most 300 cache misses
          got: 1,024 cache misses
      hint: read notebook 03, section 2, or ask edu.hint("ex03.2", 1)
    """
    if isinstance(x, Report):
        return "\n\n".join(["\n".join([x.title, *x.facts]), *x.notes, *map(as_text, x.marks)])
    lines = [headline(x)]
    for part in x.parts:
        lines.append(f"  {SIGN[part.outcome.status]}  {part.title}")
        for label, text in details(part):
            lines.append(f"      {label}: " + text.replace("\n", "\n        "))
    return "\n".join([*lines, *(f"  hint: {words}" for words in pointer(x))])


def as_markdown(x: Report | Mark) -> str:
    """Write feedback as Markdown, with all text from the student as code."""
    if isinstance(x, Report):
        facts = "\n".join(f"- {escaped(fact)}" for fact in x.facts)
        blocks = [f"# {escaped(x.title)}", facts, *map(_code, x.notes), *map(as_markdown, x.marks)]
        return "\n\n".join(blocks) + "\n"
    lines = [f"**{headline(x)}**", ""]
    for part in x.parts:
        lines.append(f"- {SIGN[part.outcome.status]} {part.title}")
        for label, text in details(part):
            if "\n" in text:
                lines += [f"  - {label}:", "", indent(_code(text), "    "), ""]
            else:
                lines.append(f"  - {label}: `{text.replace('`', chr(39))}`")
    return "\n".join([*lines, *(f"\nHint: {words}" for words in pointer(x))])


def escaped(words: str) -> str:
    """Escape text that a student may have chosen, such as a file name, for a line of Markdown."""
    return html.escape(MARKUP.sub(r"\\\g<0>", words.replace("\n", " ")), quote=False)


def _code(text: str) -> str:
    return "```\n" + text.replace("```", "'''") + "\n```"


def as_html(x: Report | Mark) -> str:
    """Write feedback as HTML without scripts: a page for a report, or a box for a mark."""
    if isinstance(x, Report):
        title, facts = html.escape(x.title), "<br>".join(map(html.escape, x.facts))
        notes = "".join(f"<pre>{html.escape(note)}</pre>" for note in x.notes)
        boxes = "".join(f"<div style='margin:12px 0'>{as_html(m)}</div>" for m in x.marks)
        return (
            f"<!DOCTYPE html>\n<html lang='en'><meta charset='utf-8'><title>{title}</title>"
            "<body style='font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em'>"
            f"<h1>{title}</h1><p>{facts}</p>{notes}{boxes}</body></html>\n"
        )
    border, background = COLOR[x.verdict]
    parts = "".join(
        f"<li><b>{SIGN[p.outcome.status]}</b> {html.escape(p.title)}{_rows(details(p))}</li>"
        for p in x.parts
    )
    foot = "".join(f"<p style='margin:0'>Hint: {html.escape(words)}</p>" for words in pointer(x))
    style = f"border-left:6px solid {border};background:{background};color:#111;padding:8px 12px"
    return (
        f"<div role='note' style='{style}'><b>{html.escape(headline(x))}</b>"
        f"<ul style='list-style:none;margin:4px 0;padding:0'>{parts}</ul>{foot}</div>"
    )


def _rows(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<div>{label}</div><div style='{TEXT}'>{html.escape(text)}</div>" for label, text in rows
    )
    return f"<div style='{ROWS}'>{cells}</div>" if cells else ""
