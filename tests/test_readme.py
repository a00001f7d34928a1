"""The README is true: its programs run, its paths exist, its picture is the measured one."""

import json
import re
import runpy
from pathlib import Path

import pytest

from minitvm.base import target
from minitvm.course import chapters
from minitvm.schedule import STEPS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
PATHS = sorted(
    set(re.findall(r"`((?:minitvm|tests|notebooks|docs|benchmarks)(?:/[\w./]+)?)`", README))
)


def test_there_is_a_program() -> None:
    assert PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_runs(program: str) -> None:
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_readme_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_status_names_every_primitive_and_every_target() -> None:
    there = README[README.index("**Implemented:**") : README.index("**Planned")]
    primitives = (set(STEPS) - {"annotate"}) | {"tile", "vectorize", "unroll", "parallel"}
    assert {name for name in primitives if name not in there} == set()
    assert {kind for kind in target.KINDS if f"`{kind}`" not in there} == set()


def test_the_ledger_is_the_stored_one() -> None:
    rows = map(json.loads, (ROOT / "minitvm/course/ledger.jsonl").read_text().splitlines())
    stored = {row["notebook"]: 100 * row["share"] for row in rows}
    assert stored.keys() == chapters.CHAPTERS.keys()
    shown = dict(re.findall(r"^\| \[(\w+) .*\| ([\d.]+) %\*? \|$", README, re.M))
    assert shown == {n: f"{share:.{0 if share >= 10 else 1}f}" for n, share in stored.items()}


def test_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\(([^):]+)\)", README)
    assert "docs/calls.md" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_pictures_are_those_of_the_stored_measurement_and_of_todays_widget() -> None:
    make = runpy.run_path(str(ROOT / "docs/make_pictures.py"))
    measured = json.loads((ROOT / "docs/demo.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs/demo.svg").read_text(encoding="utf-8") == make["drawn"](measured)
    assert (ROOT / "docs/nest.svg").read_text(encoding="utf-8") == make["nest"]()


def test_commands_of_the_readme_are_targets_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    assert set(re.findall(r"(?:`|    )make ([a-z]+)", README)) <= targets
