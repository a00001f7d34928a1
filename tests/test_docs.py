"""docs/from_tvm.md and docs/glossary.md are true: their programs, tests, files and names exist."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir, topi

ROOT = Path(__file__).parent.parent
FROM_TVM = (ROOT / "docs/from_tvm.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", FROM_TVM, re.M | re.S)
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", FROM_TVM)))
FILES = sorted(set(re.findall(r"`((?:minitvm|tests|docs)/[\w./]+)[`:]", FROM_TVM + GLOSSARY)))
ENTRIES = re.findall(r"^## ([^\n]+)\n\n(.+?)\n(?=\n## |\Z)", GLOSSARY, re.M | re.S)
LINKED = re.compile(r"glossary\.md#([^)\\\"]+)\)")  # also in the JSON of a notebook
ANCHORS = {term.replace(" ", "-") for term, _ in ENTRIES}
LESSONS = sorted(ROOT.glob("notebooks/*.ipynb"))
SPELLED = FROM_TVM[FROM_TVM.index("## Spelled") : FROM_TVM.index("Your own pass")]
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", SPELLED, re.M)
PACKAGES: dict[str, Any] = {
    "te": te,
    "tir": tir,
    "topi": topi,
    "tvm": tvm,
    "s": te.Schedule,
    "s[C]": te.StageView,
    "f": tvm.Function,
}


def names(cell: str) -> list[str]:
    """The calls of a table's cell, without arguments: `s[C].split(i)` is s[C].split."""
    found: list[str] = re.findall(r"`((?:s\[C\]|te|tir|topi|tvm|s|f)(?:\.\w+)+)", cell)
    return found


def is_there(name: str) -> bool:
    """Does minitvm have what is spelled so?"""
    package, *path = name.split(".")
    thing = PACKAGES[package]
    for part in path:
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


def test_the_programs_run_one_after_another() -> None:
    space: dict[str, Any] = {"__name__": "from_tvm"}
    for program in PROGRAMS:
        exec(compile(program, "docs/from_tvm.md", "exec"), space)
    assert len(PROGRAMS) > 4


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name for _, name in TESTS])
def test_a_test_that_is_named_exists(path: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).is_file()


def test_each_of_the_fourteen_rows_names_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*?\|(.*)\|$", FROM_TVM, re.M)
    assert [int(n) for n, _ in rows] == list(range(1, 15))
    assert [n for n, cell in rows if "::test_" not in cell] == []


def test_names_of_tvm_that_are_spelled_differently_are_not_there() -> None:
    assert len(ROWS) > 15
    assert [name for left, _ in ROWS for name in names(left) if is_there(name)] == []


def test_names_of_minitvm_in_their_place_are_there() -> None:
    assert [name for _, right in ROWS for name in names(right) if not is_there(name)] == []


def test_operators_that_are_called_missing_are_missing() -> None:
    said = FROM_TVM[FROM_TVM.index("**Fewer operators.**") : FROM_TVM.index("**Not planned:**")]
    missing = re.findall(r"`topi\.(\w+)`", said)
    assert missing
    assert [name for name in missing if hasattr(topi, name)] == []


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^):#]+)\)", FROM_TVM + GLOSSARY)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_the_glossary_is_alphabetical() -> None:
    terms = [term for term, _ in ENTRIES]
    assert len(terms) > 200
    assert terms == sorted(set(terms))
    assert len(terms) == GLOSSARY.count("\n#")


@pytest.mark.parametrize("term", [term for term, _ in ENTRIES])
def test_a_term_has_the_same_anchor_in_jupyterlab_and_on_the_site(term: str) -> None:
    """JupyterLab only replaces spaces; GitHub and MyST also drop capitals and punctuation."""
    assert re.fullmatch(r"[a-z0-9]+([ -][a-z0-9]+)*", term)


@pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])
def test_a_notebook_links_each_term_once_and_to_its_entry(path: Path) -> None:
    linked = LINKED.findall(path.read_text(encoding="utf-8"))
    assert [a for a in linked if a not in ANCHORS] == []
    assert [a for a in linked if linked.count(a) > 1] == []


@pytest.mark.parametrize(("term", "says"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_a_term_says_where_it_lives(term: str, says: str) -> None:
    assert re.search(r"`minitvm/[\w/]+\.py`|\]\(\.\./notebooks/", says)


def test_threads_that_share_a_ragged_sum_store_existing_rows_only() -> None:
    """10 rows, 4 in a block, each summed by 8 threads: rows 10 and 11 are not written."""
    A, k = te.placeholder((10, 8), name="A"), te.reduce_axis((0, 8), name="k")
    C = te.compute((10,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    bx, ty = s[C].split(C.op.axis[0], factor=4)
    for axis, tag in ((bx, "blockIdx.x"), (ty, "threadIdx.y"), (k, "threadIdx.x")):
        s[C].bind(axis, te.thread_axis(tag))
    loops = tvm.lower(s, [A, C], until="nest")
    guard, mark, first = str(loops).splitlines()[3:6]
    assert mark == "        # pragma cross_thread = sum over threadIdx.x"
    assert guard == "      if likely(i_outer*4 + i_inner < 10):"
    assert first == "        C[i_outer*4 + i_inner] = 0.0"
    a, c = np.ones((10, 8), "float32"), np.zeros(10, "float32")
    tir.interpret(loops, a, c)
    assert c.tolist() == [8] * 10
