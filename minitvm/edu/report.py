"""Write marks to files: results.json for Gradescope, feedback, grades.csv, JUnit XML, a summary."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .feedback import RIGHT, Report, as_html, as_markdown, as_text, details, escaped, headline
from .files import write as write_file
from .grader import Graded
from .score import Mark

COLUMNS = ("student", "exercise", "points", "best", "worth", "path", "sha256", "problem")


def folder_of(out: Path, student: str, exercise: str) -> Path:
    """Return the folder for reports, such as OUT/ann/ex03; `student` is a label()."""
    return out / student / (exercise or "unknown")


def report(g: Graded) -> Report:
    """Return the feedback on one notebook, with the student, the file and the hash of its bytes."""
    student = f"{g.student} " if g.student else ""
    title = f"{student}{g.exercise}: {g.points:g} of {g.worth:g} points"
    notes = [g.problem] if g.problem else []
    for c in g.cells:
        if c.error != "NotImplementedError":
            stop_text = f"cell {c.number} stopped: {c.error}: {c.message}".rstrip(": ")
            notes.append(f"{stop_text}\n{c.trace}" if c.trace else stop_text)
    facts = (f"graded: {g.path}", f"sha256: {g.sha256}")
    return Report(title, facts, tuple(notes), g.marks)


# --- Gradescope ----------------------------------------------------------------------------------


def results(g: Graded, key: str, best: float, sure: float) -> dict[str, Any]:
    """Return the content of results.json for Gradescope; later runs read its "extra_data".

    key    as returned by command.version(); a result with the same key is reused
    best   the most points that this student has had for the exercise, this run included
    sure   the same, but without runs that the machine was too busy to measure
    """
    return {
        "score": best,
        "execution_time": round(g.seconds, 1),
        "output": as_text(replace(report(g), marks=())),
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": [_test(n, m) for n, m in enumerate(g.marks, 1)],
        "extra_data": {
            "key": "" if g.unsure else key,
            "student": g.student,
            "path": g.path,
            "sha256": g.sha256,
            "exercise": g.exercise,
            "points": g.points,
            "best": best,
            "sure": sure,
            "problem": g.problem,
            "cells": [[c.number, c.error, c.message, c.trace] for c in g.cells],
            "marks": [m.to_json() for m in g.marks],
        },
    }


def _test(n: int, m: Mark) -> dict[str, Any]:
    return {
        "name": f"{m.item} {m.title}",
        "number": str(n),
        "score": m.points,
        "max_score": m.worth,
        "status": "passed" if m.verdict in RIGHT else "failed",
        "output": as_markdown(m),
        "output_format": "md",
        "visibility": "visible",
    }


def write(out: Path, g: Graded, key: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """Write results.json and the feedback for one student; return the extra_data of results.json.

    before: the extra_data of an earlier run, or None. If that run had more points, they are kept.
    """
    folder = folder_of(out, g.student, g.exercise)
    content = _content(g, key, before)
    for name, written in (("feedback.md", as_markdown), ("feedback.html", as_html)):
        write_file(folder / name, written(report(g)))
    write_file(folder / "results.json", json.dumps(content, indent=1) + "\n")  # last: it is the key
    return content["extra_data"]


def row_of(g: Graded, key: str, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return what write() returns, without writing."""
    return _content(g, key, before)["extra_data"]


def _content(g: Graded, key: str, before: dict[str, Any] | None) -> dict[str, Any]:
    sure = float(before.get("sure", before["best"])) if before else 0.0
    best = max(g.points, sure)
    return results(g, key, best, sure if g.unsure else best)


def read(folder: Path) -> dict[str, Any] | None:
    """Read "extra_data" from the results.json in `folder`; return None if that fails."""
    try:
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))["extra_data"]
        return data if {"key", "best", "marks"} <= data.keys() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# --- all students together -----------------------------------------------------------------------


def safe(cell: Any) -> Any:
    """Quote text that a spreadsheet would run as a formula; return other values unchanged."""
    return "'" + cell if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return grades.csv: one row for each student and exercise, one column for each item."""
    items = sorted({m["item"] for row in rows for m in row["marks"]})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *items])
    for row in rows:
        points = {m["item"]: m["points"] for m in row["marks"]}
        values = {**row, "worth": sum(m["worth"] for m in row["marks"])}
        writer.writerow([safe(values[c]) for c in COLUMNS] + [points.get(i, "") for i in items])
    return out.getvalue()


def junit(rows: Sequence[dict[str, Any]]) -> str:
    """Return JUnit XML: a suite for each notebook, a case for each item."""
    suites = ElementTree.Element("testsuites")
    for row in rows:
        marks = [Mark.from_json(m) for m in row["marks"]]
        wrong = [m for m in marks if m.verdict not in RIGHT]
        suite = ElementTree.SubElement(
            suites, "testsuite", name=_xml(f"{row['student']} {row['exercise']}".strip()),
            tests=str(len(marks)), failures=str(len(wrong)), errors="0", skipped="0",
        )  # fmt: skip
        for m in marks:
            case = ElementTree.SubElement(
                suite, "testcase", classname=m.item.partition(".")[0], name=f"{m.item} {m.title}"
            )
            if m in wrong:
                failure = ElementTree.SubElement(case, "failure", message=_xml(headline(m)))
                failure.text = _xml(as_text(m))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(words: str) -> str:
    """Replace characters that are not allowed in XML by "?"."""
    return "".join(c if c.isprintable() or c in "\t\n" else "?" for c in words)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table with one row per notebook, for the page of a workflow run."""
    lines = ["| student | exercise | points | what to look at |", "|---|---|---|---|"]
    for row in rows:
        marks = [Mark.from_json(m) for m in row["marks"]]
        open_items = [m for m in marks if m.verdict not in RIGHT or _reason(m)]
        notes = [f"{m.item}: {m.verdict}{_reason(m)}" for m in open_items]
        worth = sum(m.worth for m in marks)
        remarks = "; ".join([row["problem"], *notes] if row["problem"] else notes) or "all correct"
        cells = (row["student"], row["exercise"], f"{row['best']:g} of {worth:g}", remarks)
        lines.append("| " + " | ".join(_cell(str(c)) for c in cells) + " |")
    return "\n".join(lines) + "\n"


def _reason(m: Mark) -> str:
    """Return " (what the first failed part got)", or "" if there is no such text."""
    got_texts = (f" ({text})" for p in m.parts for label, text in details(p) if label == "got")
    return next(got_texts, "")


def _cell(words: str) -> str:
    """Escape text for one cell of a Markdown table."""
    return escaped(" ".join(words.split())[:300])
