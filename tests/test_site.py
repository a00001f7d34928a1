"""The site has every notebook and page; the page of tutorials names what exists."""

import importlib
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te

ROOT = Path(__file__).parent.parent
TUTORIALS = (ROOT / "docs/tutorials.md").read_text(encoding="utf-8")
LINKS = sorted(set(re.findall(r"\]\(([^)]+)\)", TUTORIALS)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TUTORIALS)))
PLACES: dict[str, Any] = {"tvm": tvm, "s": te.Schedule, "s[C]": te.StageView}
NAMES = sorted(
    set(
        re.findall(
            r"`((?:s\[C\]|s|tvm|te|tir|topi|viz|vta|graph|autotvm|auto_scheduler)\.[\w.]+)",
            TUTORIALS,
        )
    )
)


def script(name: str) -> ModuleType:
    """Load a script of docs/, which is no package; scripts there import each other by name."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


api_pages, _, make_site = script("api_pages"), script("make_slides"), script("make_site")


def anchors(path: Path) -> set[str]:
    """The headings of a page or notebook as anchors: "## 2. Split" is "2-split"."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_of_the_tutorials_leads_to_a_heading(link: str) -> None:
    path, _, anchor = link.partition("#")
    assert (ROOT / "docs" / path).is_file()
    assert not anchor or anchor in anchors(ROOT / "docs" / path)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_tutorials_exists(name: str) -> None:
    place, *path = name.split(".")
    thing = PLACES.get(place) or importlib.import_module(f"minitvm.{place}")
    for part in path:
        thing = getattr(thing, part)


@pytest.mark.parametrize(("path", "name"), TESTS, ids=[name for _, name in TESTS])
def test_a_test_that_runs_a_tutorial_exists(path: str, name: str) -> None:
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_the_contents_list_every_notebook_exercise_and_page() -> None:
    listed = make_site.contents()
    for path in (*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/*.ipynb")):
        assert f"<{path.parent.name}/{path.stem}>" in listed
    for path in ROOT.glob("docs/*.md"):
        assert f"\ndocs/{path.stem}\n" in listed


def test_pages_for_packages_that_people_import() -> None:
    top = (ROOT / "minitvm/__init__.py").read_text(encoding="utf-8")
    for package in api_pages.PACKAGES:
        assert (ROOT / "minitvm" / package).is_dir(), package
        assert api_pages.public_names(importlib.import_module(f"minitvm.{package}")), package
    assert {"te", "tir", "topi"} <= {p for p in api_pages.PACKAGES if p in top}


def test_prose_of_a_docstring_is_escaped_and_the_rest_is_verbatim() -> None:
    page = api_pages.markdown(
        "Return a*b, `c*d`.\n\n    x = 1\n\nfor i: -> nothing\n\nlow   a number"
    )
    prose, *blocks = page.split("\n\n````text\n")
    assert prose == r"Return a\*b, `c*d`."
    assert [block.split("\n````")[0] for block in blocks] == [
        "x = 1",
        "for i: -> nothing",
        "low   a number",
    ]


def test_a_file_of_the_source_is_linked_to_its_page() -> None:
    text, files = make_site.source_linked("`minitvm/tir/nodes.py` [x](minitvm/no.py)", "../")
    assert text == "[`minitvm/tir/nodes.py`](../minitvm/tir/nodes.py.md) [x](minitvm/no.py)"
    assert files == {"minitvm/tir/nodes.py"}


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://x.org">x</a><img src="a.png"><script async src="https://cdn.org/a.js">'
        '<link rel="stylesheet" href="//fonts.org/a.css">'
    )
    (tmp_path / "a.css").write_text("@import url(https://b.org/b.css);")
    assert sorted(make_site.remote(tmp_path)) == [
        "a.css: url(https://b.org/b.css",
        'a.html: <link rel="stylesheet" href="//fonts.org/a.css',
        'a.html: <script async src="https://cdn.org/a.js',
    ]


def test_code_that_jupyterlab_folds_is_folded_on_the_page() -> None:
    cells = [{"metadata": {"jupyter": {"source_hidden": True}}}, {"metadata": {}}]
    shown = json.loads(make_site.folded(json.dumps({"cells": cells})))
    assert [c["metadata"].get("tags") for c in shown["cells"]] == [["hide-input"], None]
