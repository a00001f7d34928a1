"""The package stays small: lines per package and of the reading tours, against budgets.toml."""

import re
import tomllib
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parent.parent
BUDGETS = tomllib.loads((TOP / "tests" / "budgets.toml").read_text(encoding="utf-8"))


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def lines_per_package() -> Counter[str]:
    """Count the lines of each package; a single file is a package of its own."""
    lines: Counter[str] = Counter()
    for file in (TOP / "minitvm").rglob("*.py"):
        package, *inside = file.relative_to(TOP / "minitvm").parts
        lines[package if inside else package.removesuffix(".py")] += lines_of(file)
    return lines


def table(lines: Counter[str], budgets: dict[str, int]) -> str:
    """One line per package, the largest first: its lines, its budget and what is left."""
    rows = [
        f"{package:18}{n:7,}{budgets.get(package, 0):9,}{budgets.get(package, 0) - n:8,}"
        for package, n in lines.most_common()
    ]
    head = f"{'package':18}{'lines':>7}{'budget':>9}{'left':>8}"
    return "\n".join([head, *rows, f"{'all':18}{lines.total():7,}{BUDGETS['total']:9,}"])


def test_no_package_exceeds_its_budget() -> None:
    lines, budgets = lines_per_package(), BUDGETS["packages"]
    shown = table(lines, budgets)
    print(shown)
    assert lines.keys() == budgets.keys(), "tests/budgets.toml names every package, and no other"
    over = [package for package, n in lines.items() if n > budgets[package]]
    assert not over, shown
    assert lines.total() <= BUDGETS["total"], shown


def test_the_reading_tours_are_short() -> None:
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    part = readme.split("## The reading tour")[1].split("\n## ")[0]
    main, *side = part.split("\n### ")
    assert len(side) == 4, "the shorter tours were not found in README.md"
    for tour, budget in [(main, BUDGETS["tour"]), *((each, BUDGETS["side_tour"]) for each in side)]:
        files = re.findall(r"\]\((minitvm/[\w/]+\.py)\)", tour)
        assert len(files) > 2, f"no table of files: {tour}"
        lines = {file: lines_of(TOP / file) for file in files}
        assert sum(lines.values()) <= budget, f"{sum(lines.values())} lines: {lines}"
