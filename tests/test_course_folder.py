"""The course folder has a plan with dates, and every link in it leads somewhere."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs"))  # scripts there import each other by name

import make_course  # noqa: E402


@pytest.fixture(scope="module", params=[6, 14])
def course(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course of that many weeks, which begins on a Monday."""
    out = tmp_path_factory.mktemp("course") / "course"
    assert make_course.main([str(out), "--weeks", str(request.param), "--start", "2027-01-11"]) == 0
    return out


def test_its_weeks_follow_each_other_and_exercises_are_due_a_week_later(course: Path) -> None:
    readme = (course / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\S+) \|.*\| (\S*) ?\|$", readme, re.M)
    assert rows[:2] == [("1", "2027-01-11", "2027-01-18"), ("2", "2027-01-18", "2027-01-25")]
    assert len(rows) == len(list(course.glob("week_*")))


def test_every_link_leads_to_a_file(course: Path) -> None:
    missing: list[str] = []
    assert "](capstone/ex90" in (course / "README.md").read_text(encoding="utf-8")
    for path in (course / "README.md", *course.glob("*/*.ipynb")):
        links = re.findall(
            r"\]\(([\w./]+\.(?:ipynb|md|html))(?:#[^()\s]+)?\)", path.read_text(encoding="utf-8")
        )
        missing += [f"{path.name}: {link}" for link in links if not (path.parent / link).exists()]
    assert missing == []


def test_each_exercise_has_its_checks_and_no_solution_is_there(course: Path) -> None:
    exercises = list(course.glob("*/ex*.ipynb"))
    assert len(exercises) >= 13
    assert all((path.parent / f"checks/{path.name[:4]}.py").is_file() for path in exercises)
    assert [path for path in exercises if "BEGIN SOLUTION" in path.read_text("utf-8")] == []


def test_a_folder_with_files_is_left_alone(course: Path, capsys: pytest.CaptureFixture) -> None:
    assert make_course.main([str(course)]) == 1
    assert "is not empty" in capsys.readouterr().err


def test_six_weeks_leave_out_no_lab_that_a_later_one_needs() -> None:
    labs = {lab for week in make_course.PLANS[14] for lab in week}
    assert labs == {path.name[:2] for path in ROOT.glob("notebooks/*.ipynb")}
    assert labs - {lab for week in make_course.PLANS[6] for lab in week} == {"07", "16", "17"}
