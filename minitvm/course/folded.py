"""The answer as stored in a notebook: folded HTML, and text."""

from __future__ import annotations

import base64
import re
from html import escape
from typing import Any

from minitvm import viz

from .capture import Output
from .question import Answer, Question

CODE = re.compile(r"`([^`]+)`")
TITLE = re.compile(r"<title>(.*?)</title>")


def folded(question: Question, answer: Answer | None, outputs: list[Output]) -> dict[str, str]:
    """Return the mime bundle of an answer: details to open, and text."""
    head = question.text(answer)
    shown = viz.stored_only(outputs)
    parts = [f"<p>The answer: <b>{coded(head)}</b></p>"] if head else []
    parts += [_html(output) for output in shown]
    parts += [reason(question)] if question.why else []
    prediction = f" (predict first): <b>{coded(question.prompt)}</b>" if question.prompt else ""
    summary = f"<summary>Answer{prediction}</summary>"
    lines = [f"Answer (predict first): {head}".rstrip()]
    lines += [_text(output) for output in shown] + [question.why] * bool(question.why)
    html = "\n".join([f'<details class="mtvm-answer">{summary}', *parts, "</details>"])
    return {"text/html": html, "text/plain": "\n".join(lines)}


def reason(question: Question) -> str:
    """Return the reason for an answer as HTML."""
    return f"<p>{coded(question.why)}</p>"


def coded(text: str) -> str:
    """Return a text as HTML, with `names` in backticks as code."""
    return CODE.sub(r"<code>\1</code>", escape(text))


def _text(output: Output) -> str:
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    return text.rstrip("\n")


def _html(output: Output) -> str:
    data = output.get("data", {})
    if picture := data.get("image/svg+xml"):
        title = TITLE.search(picture)
        return _image("image/svg+xml", _base64(picture), title[1] if title else "", {})
    if picture := data.get("image/png"):
        about = output["metadata"].get("image/png", {})
        return _image("image/png", "".join(picture.split()), escape(about.get("alt", "")), about)
    if html := data.get("text/html"):
        return html
    return f"<pre><code>{escape(_text(output))}</code></pre>"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _image(kind: str, data: str, alt: str, about: dict[str, Any]) -> str:
    size = f' width="{about["width"]}"' if "width" in about else ""
    return f'<img src="data:{kind};base64,{data}" alt="{alt or "figure"}"{size}>'
