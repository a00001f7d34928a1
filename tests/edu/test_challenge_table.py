"""The table of challenges for instructors has the values that our answers have today."""

from minitvm.edu.challenges import challenge_table

from .course import EXERCISES, ROOT


def test_the_table_for_instructors_is_what_the_command_prints() -> None:
    text = (ROOT / "docs" / "instructor.md").read_text(encoding="utf-8")
    assert challenge_table(EXERCISES) in text
