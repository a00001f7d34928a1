"""What a student reads: the same words in the notebook, the terminal and the report."""

from __future__ import annotations

import html
from collections.abc import Iterator

from .score import Mark, PartMark

SIGN = {"passed": "ok", "failed": "no", "not started": "--", "inconclusive": "??", "skipped": "--"}
COLOR = {  # border, background: the palette of Okabe and Ito, pale; words say the same
    "not started": ("#0072B2", "#eef5fa"),
    "keep going": ("#E69F00", "#fdf6e7"),
    "correct": ("#009E73", "#e9f6f2"),
    "fast enough": ("#009E73", "#e9f6f2"),
}
CELL = "text-align:left;vertical-align:top;background:none;color:#111;font-weight:normal"


def headline(m: Mark) -> str:
    """ex03.2 tile for the cache: keep going (2.4 of 6 points)"""
    return f"{m.item} {m.title}: {m.verdict} ({m.points:g} of {m.worth:g} points)"


def details(part: PartMark) -> Iterator[tuple[str, str]]:
    """(label, text) of what there is to say about a part that did not pass."""
    o = part.outcome
    if o.status in ("failed", "not started", "inconclusive"):
        named = (
            ("expected", o.expected), ("got", o.got), ("first difference", o.where),
            ("for", o.case), ("why", o.why),
        )  # fmt: skip
        yield from ((label, text) for label, text in named if text)


def pointer(m: Mark) -> str:
    """Where help is: the section to read and the call that gives hints; "" if none is needed."""
    if m.verdict in ("correct", "fast enough"):
        return ""
    return f'read {m.section}, or ask edu.hint("{m.item}", 1)'


def plain(m: Mark) -> str:
    """The mark as text.

    ex03.2 tile for the cache: keep going (2.4 of 6 points)
      ok  the right result
      no  few cache misses
          expected: at most 300 cache misses
          got: 1,024 cache misses
      hint: read notebook 03, section 2, or ask edu.hint("ex03.2", 1)
    """
    lines = [headline(m)]
    for part in m.parts:
        lines.append(f"  {SIGN[part.outcome.status]}  {part.title}")
        for label, text in details(part):
            lines.append(f"      {label}: " + text.replace("\n", "\n        "))
    if help_ := pointer(m):
        lines.append(f"  hint: {help_}")
    return "\n".join(lines)


def markdown(m: Mark) -> str:
    """The mark as Markdown."""
    lines = [f"**{headline(m)}**", ""]
    for part in m.parts:
        lines.append(f"- {SIGN[part.outcome.status]} {part.title}")
        for label, text in details(part):
            if "\n" in text:
                lines += [f"  - {label}:", "", "    ```", *indented(text, 4), "    ```", ""]
            else:
                lines.append(f"  - {label}: `{text.replace('`', chr(39))}`")
    if help_ := pointer(m):
        lines += ["", f"Hint: {help_}"]
    return "\n".join(lines)


def indented(text: str, by: int) -> list[str]:
    return [" " * by + line for line in text.replace("```", "'''").splitlines()]


def page(m: Mark) -> str:
    """The mark as a box of HTML. Everything a student wrote is escaped."""
    border, background = COLOR[m.verdict]
    rows: list[str] = []
    for part in m.parts:
        sign = SIGN[part.outcome.status]
        cells = "".join(
            f"<tr><th style='{CELL};white-space:nowrap'>{label}</th>"
            f"<td style='{CELL}'><pre style='margin:0;white-space:pre-wrap'>{html.escape(text)}"
            "</pre></td></tr>"
            for label, text in details(part)
        )
        table = f"<table style='margin:0 0 0 1.5em'>{cells}</table>" if cells else ""
        rows.append(f"<li><b>{sign}</b> {html.escape(part.title)}{table}</li>")
    help_ = pointer(m)
    foot = f"<p style='margin:0'>Hint: {html.escape(help_)}</p>" if help_ else ""
    style = f"border-left:6px solid {border};background:{background};color:#111;padding:8px 12px"
    return (
        f"<div role='note' style='{style}'><b>{html.escape(headline(m))}</b>"
        f"<ul style='list-style:none;margin:4px 0;padding:0'>{''.join(rows)}</ul>{foot}</div>"
    )
