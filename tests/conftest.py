"""What all tests share: checks on, hypothesis without a clock, other CPUs, golden files."""

import gc
import os
import re
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["MINITVM_CHECK"] = "1"  # nodes are frozen and every pass is verified; read at import
os.environ["MINITVM_GUESSES"] = "off"  # of a reader, who may run the tests beside the notebooks

from minitvm.base import BuildError, host, processor

# A deadline would be a timed assertion. make exhaustive takes the other profile.
settings.register_profile("minitvm", deadline=None, max_examples=50)
settings.register_profile("exhaustive", deadline=None, max_examples=1000)
settings.load_profile("minitvm")

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store texts as the golden ones")
    parser.addoption("--as-cpu", metavar="NAME", help="pass for another CPU, such as haswell")


def pytest_configure(config: pytest.Config) -> None:
    """Pass for the CPU in --as-cpu, here and in all child processes, before a test asks."""
    if name := config.getoption("--as-cpu"):
        try:
            os.environ["MINITVM_CPU"] = passing_for(name)
        except BuildError as e:
            raise pytest.UsageError(f"--as-cpu {name}: {e}") from e
        host.cache_clear()


def passing_for(name: str) -> str:
    """The MINITVM_CPU with which this machine passes for a CPU, if it has all its features."""
    features, _ = processor.described(name, "")
    if why := processor.lacking(features):
        raise BuildError(f"code for {name} cannot run here", why, "a CPU with fewer features")
    return " ".join([name, *sorted(features)])


@pytest.fixture
def as_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Let one test pass for another CPU, as_cpu("haswell"), in it and in processes it starts."""

    def become(name: str) -> None:
        try:
            monkeypatch.setenv("MINITVM_CPU", passing_for(name))
        except BuildError as e:
            pytest.skip(str(e))
        host.cache_clear()

    yield become
    monkeypatch.undo()
    host.cache_clear()


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
