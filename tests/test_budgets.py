"""The house stays small: lines per room and of the reading tour, against tests/budgets.toml."""

import re
import tomllib
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parent.parent
BUDGETS = tomllib.loads((TOP / "tests" / "budgets.toml").read_text(encoding="utf-8"))


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def lines_per_room() -> Counter[str]:
    """room -> its lines; a single file is a room of its own."""
    found: Counter[str] = Counter()
    for file in (TOP / "minitvm").rglob("*.py"):
        room, *inside = file.relative_to(TOP / "minitvm").parts
        found[room if inside else room.removesuffix(".py")] += lines_of(file)
    return found


def table(lines: Counter[str], budgets: dict[str, int]) -> str:
    """One line a room, the largest first: its lines, its budget and what is left."""
    rows = [
        f"{room:18}{n:7,}{budgets.get(room, 0):9,}{budgets.get(room, 0) - n:8,}"
        for room, n in lines.most_common()
    ]
    head = f"{'room':18}{'lines':>7}{'budget':>9}{'left':>8}"
    return "\n".join([head, *rows, f"{'all':18}{lines.total():7,}{BUDGETS['total']:9,}"])


def test_no_room_passes_its_budget() -> None:
    lines, budgets = lines_per_room(), BUDGETS["rooms"]
    shown = table(lines, budgets)
    print(shown)
    assert lines.keys() == budgets.keys(), "tests/budgets.toml names every room, and no other"
    over = [room for room, n in lines.items() if n > budgets[room]]
    assert not over, shown
    assert lines.total() <= BUDGETS["total"], shown


def test_the_reading_tours_are_short() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    part = readme.split("## The reading tour")[1].split("\n## ")[0]
    main, *side = part.split("\n### ")
    assert len(side) == 3, "the shorter tours were not found in README.md"
    for tour, budget in [(main, BUDGETS["tour"]), *((each, BUDGETS["side_tour"]) for each in side)]:
        files = re.findall(r"\]\((minitvm/[\w/]+\.py)\)", tour)
        assert len(files) > 2, f"no table of files: {tour}"
        lines = {file: lines_of(TOP / file) for file in files}
        assert sum(lines.values()) <= budget, f"{sum(lines.values())} lines: {lines}"
