"""docs/related.md and docs/field.md have all works that the sources of the course name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RELATED, FIELD = (
    (ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("related", "field")
)
LINES = (ROOT / "tests/works.txt").read_text(encoding="utf-8").splitlines()
WORKS = [line for line in LINES if line and not line.startswith("#")]
# a paragraph names its works in bold; the other page has a heading for each
NAMED = set(re.findall(r"\*\*([^*]+)\*\*", RELATED)) | set(
    re.findall(r"^### ([^:\n]+)", FIELD, re.M)
)
LINKS = re.findall(r"\]\(((?:\.\./)?\w[\w./]*)[)#]", RELATED + FIELD)
MENTIONED = re.findall(r"`(minitvm/[\w/]+\.py)`", RELATED + FIELD)


@pytest.mark.parametrize("work", WORKS)
def test_a_work_has_its_paragraph(work: str) -> None:
    assert work in NAMED


def test_the_list_has_all_works_of_the_page() -> None:
    assert sorted(set(re.findall(r"\*\*([^*]+)\*\*", RELATED)) - set(WORKS)) == []


def test_links_and_files_exist() -> None:
    assert [link for link in LINKS if not (ROOT / "docs" / link).is_file()] == []
    assert [path for path in MENTIONED if not (ROOT / path).is_file()] == []
    assert len(LINKS) >= 15
