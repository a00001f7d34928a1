"""Stored notebooks are honest: executed, without errors, and compared wherever they can be.

nbval passes a notebook whose outputs were stripped, and never looks at cells tagged as ignored;
these rules check both. The second half shows each of them a notebook that breaks it.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
IGNORED = "nbval-ignore-output"
TAGS = {IGNORED, "nbval-skip", "raises-exception"}
# other at every run
MEASURES = (
    *("measure(", "interleaved(", "fma_peak(", "share_of_peak(", "time_evaluator(", ".profile("),
    *("tune.run(", "graph.tune(", "searched(", "rounds(", "course.ledger("),
)
MACHINE = (  # trees, rounding, installed tools
    *("Target()", 'source("asm")', "report.accuracy", "errors = [", ".resources()"),
)
GIVEN = (  # a described machine, recorded or simulated times: always alike
    *("viz.Machine(", "from_records(", "viz.NetworkPart("),
    *("TableMeasurer(", "from_trials(", "run_seconds="),  # frozen tables, a given limit
    *("graph.A100", ".cycles", "times.write", "simulated(rate"),  # a cost, cycles, stored times
    "finish_line()",  # stored times
)
RATE = re.compile(r"\d (?:GFLOP/s|s|ms|us)\b")
PATH = re.compile(r"(?<![\w.)])/[A-Za-z]\w*/\w|[A-Z]:\\\\|site-packages")  # /a/b or C:\\a
FILE = re.compile(r"\b(?:minitvm|docs|exercises|tests)/[\w/.]*\w")  # of this repository
SECTIONS = ("Goals", "Try it yourself", "Exercises", "Check yourself", "Further reading")
MAX_BYTES = 1_500_000
MAX_LINES = 60

Notebook = dict[str, Any]


def code_cells(notebook: Notebook) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, cell) of every code cell."""
    for n, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            yield f"cell {cell.get('id', n)}", cell


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def printed(cell: dict[str, Any]) -> str:
    """All text among the outputs of a cell."""
    texts = [output.get("text", []) for output in cell["outputs"]]
    texts += [output.get("data", {}).get("text/plain", []) for output in cell["outputs"]]
    return "\n".join("".join(text) for text in texts)


def page_of(output: dict[str, Any]) -> str:
    """The HTML of an output, such as a folded answer."""
    return "".join(output.get("data", {}).get("text/html", ""))


def tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def unrun_faults(notebook: Notebook) -> list[str]:
    """Cells that were not run, or not once from top to bottom."""
    counts = [(name, cell["execution_count"]) for name, cell in code_cells(notebook)]
    return [f"{name}: execution count {n}" for k, (name, n) in enumerate(counts, 1) if n != k]


def silent_faults(notebook: Notebook) -> list[str]:
    """Cells that print or end with a value, but have no output: somebody stripped it."""
    speaks = re.compile(r"^(?:(?:print|plt\.show|measure)\(|with course\.predict)", re.M)
    return [
        f"{name}: no output"
        for name, cell in code_cells(notebook)
        if speaks.search(source(cell)) and not cell["outputs"]
    ]


def error_faults(notebook: Notebook) -> list[str]:
    """Stored errors and warnings, unless the cell is there to fail."""
    return [
        f"{name}: {output.get('ename') or 'stderr'}"
        for name, cell in code_cells(notebook)
        for output in cell["outputs"]
        if (output["output_type"] == "error" and "raises-exception" not in tags(cell))
        or output.get("name") == "stderr"
    ]


def path_faults(notebook: Notebook) -> list[str]:
    """Outputs that know where they were made."""
    cells = code_cells(notebook)
    return [f"{name}: a path of one machine" for name, cell in cells if PATH.search(printed(cell))]


def ignored_faults(notebook: Notebook) -> list[str]:
    """Ignored outputs that could be compared, and compared ones that change at every run."""
    faults: list[str] = []
    for name, cell in code_cells(notebook):
        ignored = IGNORED in tags(cell)
        varies = any(word in source(cell) for word in MEASURES + MACHINE)
        if ignored and not varies:
            faults.append(f"{name}: ignored, but nothing in it is measured")
        given = any(word in source(cell) for word in GIVEN)
        if not ignored and not given and RATE.search(printed(cell)):
            faults.append(f"{name}: a measured number is compared")
        faults += [f"{name}: unknown tag {tag}" for tag in sorted(tags(cell) - TAGS)]
        if "NBVAL_" in source(cell):
            faults.append(f"{name}: a tag says it, not a comment")
    return faults


def widget_faults(notebook: Notebook) -> list[str]:
    """Live views, and widget state, for which exported pages load scripts from the network."""
    live = "application/vnd.jupyter.widget-view+json"
    cells = [(name, o) for name, cell in code_cells(notebook) for o in cell["outputs"]]
    faults = [f"{name}: a live view is stored" for name, o in cells if live in o.get("data", {})]
    return faults + ["metadata.widgets is stored"] * ("widgets" in notebook["metadata"])


def kernel_faults(notebook: Notebook) -> list[str]:
    """Another kernel than the one that every installation has."""
    name = notebook["metadata"]["kernelspec"]["name"]
    return [] if name == "python3" else [f"kernel {name}"]


def file_faults(notebook: Notebook) -> list[str]:
    """Files that the text names, and that have moved."""
    prose = [source(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    named = sorted({name for text in prose for name in FILE.findall(text)})
    return [f"no file {name}" for name in named if not (ROOT / name).exists()]


def form_faults(notebook: Notebook) -> list[str]:
    """Missing parts, long cells, figures without words, too many bytes."""
    cells = notebook["cells"]
    prose = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    faults = [f"no part {part!r}" for part in SECTIONS if part not in prose]
    for here, after in zip(cells, [*cells[1:], {"cell_type": ""}], strict=True):
        if len(source(here).splitlines()) > MAX_LINES and here["cell_type"] == "code":
            faults.append(f"cell {here['id']}: more than {MAX_LINES} lines")
        figure = any(
            "image/png" in out.get("data", {}) or "<img" in page_of(out)
            for out in here.get("outputs", [])
        )
        if figure and after["cell_type"] != "markdown":
            faults.append(f"cell {here['id']}: a figure without a description after it")
    return faults + (["too large"] if len(json.dumps(notebook)) > MAX_BYTES else [])


RULES = (
    unrun_faults,
    silent_faults,
    error_faults,
    path_faults,
    ignored_faults,
    widget_faults,
    kernel_faults,
    file_faults,
    form_faults,
)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_notebook_keeps_the_rules(file: Path, rule) -> None:
    assert rule(json.loads(file.read_text(encoding="utf-8"))) == []


# --- the rules can fail --------------------------------------------------------------------------


def cell(text: str, *outputs: dict[str, Any], count: int = 1, tags: tuple[str, ...] = ()) -> dict:
    return {
        "cell_type": "code",
        "id": "a",
        "source": [text],
        "metadata": {"tags": list(tags)},
        "outputs": list(outputs),
        "execution_count": count,
    }


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": [text]}


PROSE = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": list(SECTIONS)}
GOOD = {
    "cells": [PROSE, cell("print(1)", stream("1"))],
    "metadata": {"kernelspec": {"name": "python3"}},
}
PICTURE = {"output_type": "display_data", "data": {"image/png": ""}}
FOLDED = {"output_type": "display_data", "data": {"text/html": "<details><img></details>"}}
ERROR = {"output_type": "error", "ename": "ValueError"}


@pytest.mark.parametrize("rule", [unrun_faults, error_faults, path_faults, widget_faults])
@pytest.mark.parametrize("file", SOLUTIONS, ids=lambda file: file.stem)
def test_a_solution_was_run_as_it_is(file: Path, rule) -> None:
    assert rule(json.loads(file.read_text(encoding="utf-8"))) == []


def test_a_good_notebook_has_no_faults() -> None:
    assert [fault for rule in RULES for fault in rule(GOOD)] == []


@pytest.mark.parametrize(
    ("rule", "bad", "fault"),
    [
        (unrun_faults, cell("x = 1", count=7), "cell a: execution count 7"),
        (silent_faults, cell("print(1)"), "cell a: no output"),
        (error_faults, cell("f()", ERROR), "cell a: ValueError"),
        (error_faults, cell("f()", stream("careful", "stderr")), "cell a: stderr"),
        (path_faults, cell("f", stream("<f at /home/ann/x.py>")), "cell a: a path of one machine"),
        (ignored_faults, cell("print(1)", tags=(IGNORED,)), "nothing in it is measured"),
        (ignored_faults, cell("x", stream("3.1 GFLOP/s")), "a measured number is compared"),
        (ignored_faults, cell("x", tags=("nbval-ignore",)), "unknown tag nbval-ignore"),
        (ignored_faults, cell("# NBVAL_SKIP"), "a tag says it"),
        (form_faults, cell("plt.show()", PICTURE), "a figure without a description"),
        (form_faults, cell("plt.show()", FOLDED), "a figure without a description"),
        (silent_faults, cell('with course.predict("03.a"):\n    f()'), "cell a: no output"),
        (form_faults, cell("x\n" * 61), "more than 60 lines"),
    ],
)
def test_a_cell_that_breaks_a_rule_is_found(rule, bad: dict, fault: str) -> None:
    notebook = copy.deepcopy(GOOD)
    notebook["cells"][1] = bad
    found = rule(notebook)
    assert len(found) == 1
    assert fault in found[0]


def test_a_file_that_has_moved_is_found() -> None:
    text = "see `minitvm/tir/stmt.py` and [it](../docs/calls.md), not `minitvm/tir/gone.py`"
    assert file_faults({"cells": [PROSE | {"source": [text]}]}) == ["no file minitvm/tir/gone.py"]


def test_a_rate_of_a_described_machine_may_be_compared() -> None:
    described = cell("viz.RooflineDot(s, machine=viz.Machine(9.0, 3.0))", stream("9 GFLOP/s"))
    assert ignored_faults({"cells": [described]}) == []


def test_recorded_times_may_be_compared() -> None:
    recorded = cell("viz.TimingLab.from_records(rows)", stream("from 1 ms to 2 ms"))
    assert ignored_faults({"cells": [recorded]}) == []


def test_null_counts_saved_widgets_and_other_kernels_are_found() -> None:
    notebook = copy.deepcopy(GOOD)
    notebook["cells"][1]["execution_count"] = None
    notebook["metadata"] |= {"widgets": {}, "kernelspec": {"name": "conda-env"}}
    assert unrun_faults(notebook) == ["cell a: execution count None"]
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}}
    notebook["cells"][1]["outputs"].append({"output_type": "display_data", "data": view})
    faults = ["cell a: a live view is stored", "metadata.widgets is stored"]
    assert widget_faults(notebook) == faults
    assert kernel_faults(notebook) == ["kernel conda-env"]
