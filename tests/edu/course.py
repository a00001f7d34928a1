"""The checks of this checkout, loaded as the grader loads them."""

from pathlib import Path
from types import ModuleType

from minitvm.edu.course import checks_module, exercises_in

ROOT = Path(__file__).parent.parent.parent
CHECKS = ROOT / "exercises" / "checks"
EXERCISES = exercises_in(CHECKS)
EX00 = EXERCISES[0]


def module(exercise: str) -> ModuleType:
    """The file of one exercise."""
    return checks_module(CHECKS / f"{exercise}.py")
