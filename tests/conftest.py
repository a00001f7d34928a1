"""What all tests share: checks switched on, hypothesis without a clock, golden files."""

import gc
import os
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["MINITVM_CHECK"] = "1"  # nodes are frozen and every pass is verified; read at import

# A deadline would be a timed assertion. make exhaustive takes the other profile.
settings.register_profile("minitvm", deadline=None, max_examples=50)
settings.register_profile("exhaustive", deadline=None, max_examples=1000)
settings.load_profile("minitvm")

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store texts as the golden ones")


def pytest_collection_finish() -> None:
    """Let garbage collections be rare, and leave out the thousands of tests collected so far.

    A test makes many small objects and few cycles: collections took a fifth of all time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with tests/golden/<module>/<test>.txt, exactly, once per test.

    `pytest --update-golden` stores the text instead; the difference in git is then the review.
    """
    module = request.path.relative_to(TESTS).with_suffix("")
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")  # test_a[8x8] -> test_a-8x8
    file = TESTS / "golden" / module / f"{name}.txt"

    def compare(text: str) -> None:
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8", newline="\n")
        stored = file.read_text(encoding="utf-8") if file.exists() else ""
        if stored != text + "\n":
            old, new = stored.split("\n"), [*text.split("\n"), ""]
            difference = unified_diff(old, new, "golden", "now", lineterm="")
            head = f"{file.relative_to(TESTS.parent)} differs"
            accept = f"to accept: pytest --update-golden '{request.node.nodeid}'"
            pytest.fail("\n".join([head, *difference, accept]), pytrace=False)

    return compare
