"""Reports as HTML pages that load no other files and follow the reader's theme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#111;
background:#fff}
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left;
vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}
pre{background:#f7f7f7;padding:.8em;overflow:auto;font-size:13px;line-height:1.35}
svg{display:block;margin:1em 0;border-radius:4px}
@media (prefers-color-scheme:dark){body{color:#ddd;background:#161616}pre{background:#242424}
td,th{border-color:#444}svg.mtvm{filter:invert(.92) hue-rotate(180deg)}}
"""


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a page with a title and parts in HTML; `style` is more CSS, after ours."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}{style}</style>'
    body = [f"<h1>{escape(title)}</h1>", *parts, "</body></html>\n"]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(body)


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Return a table as HTML; numbers are aligned to the right."""

    def cell(value: object) -> str:
        kind = ' class="n"' if isinstance(value, int | float) else ""
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td{kind}>{escape(text)}</td>"

    lines = ["<tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr>"] if head else []
    lines += ["<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"
