"""Notebooks announce their items with the right points, and items name sections that exist."""

import json
import re

import pytest

from .course import EXERCISES, ROOT

ITEMS = [(exercise, item) for exercise in EXERCISES for item in exercise.items]
SECTION = re.compile(r"notebook (\d\db?)(?:, sections? ([\d, tound]+))?")


def texts(number: str) -> str:
    """The text cells of a notebook: "09" or "09b"."""
    (path,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def numbers(words: str) -> list[int]:
    """The sections of a list: "2, 4 and 6" -> [2, 4, 6], "1 to 3" -> [1, 2, 3]."""
    ends = [int(n) for n in re.findall(r"\d+", words)]
    return list(range(ends[0], ends[-1] + 1)) if " to " in words else ends


@pytest.mark.parametrize(("exercise", "item"), ITEMS, ids=[item.id for _, item in ITEMS])
def test_an_item_names_sections_that_exist(exercise, item) -> None:
    for number, words in SECTION.findall(item.section):
        missing = [n for n in numbers(words) if f"\n## {n}. " not in texts(number)]
        assert not missing, f"{item.id}: notebook {number} has no section {missing}"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_a_notebook_announces_every_item_with_its_points(exercise) -> None:
    number = exercise.id[2:]
    parts = sorted(path.name.split("_")[0] for path in (ROOT / "notebooks").glob(f"{number}*"))
    announced: dict[str, float] = {}
    for part in parts:
        for name, points in re.findall(
            rf"\*\*({exercise.id}\.\d)\*\*(?:(?!\*\*ex).)*?\[(\d+) points?\]", texts(part), re.S
        ):
            announced[name] = float(points)
    if announced:
        assert announced == {i.id: i.points for i in exercise.items}
    elif parts:  # the capstone has no notebook of its own
        assert re.search(
            rf"\b{exercise.points:g}\s+points|\({exercise.items[0].points:g} points\)",
            texts(number),
        )


def test_lists_of_sections() -> None:
    assert numbers("2, 4 and 6") == [2, 4, 6]
    assert numbers("1 to 3") == [1, 2, 3]
