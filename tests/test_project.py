"""What is written twice is equal: pins, the command of continuous integration, links."""

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def project() -> dict:
    """The [project] table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def conda_pins(text: str) -> set[str]:
    """The requirements listed in an environment.yml, those for pip among them, without `-e .`"""
    listed = re.findall(r"^ +- +([^\s#]+) *(?:#.*)?$", text.split("\ndependencies:")[1], re.M)
    return {pin for pin in listed if not pin.endswith(":")}


def commands(workflow: str) -> list[str]:
    """What the steps of a workflow run."""
    return re.findall(r"^ +(?:- )?run: (.+)$", workflow, re.M)


def make_targets(text: str) -> set[str]:
    """Targets called by the `make` commands in a script, without variables."""
    calls = re.findall(r"^make (.+)$", text, re.M)
    return {word for call in calls for word in call.split() if "=" not in word}


def broken_links(markdown: str, folder: Path) -> list[str]:
    """Relative links and images of a text in `folder` that lead nowhere."""
    links = re.findall(r"\]\(<?([^)\s>#]+)", markdown)
    links += re.findall(r"(?:src|href)=\"([^\"#]+)", markdown)
    relative = [link for link in links if not re.match(r"[a-z]+:", link)]
    return [link for link in relative if not (folder / link).exists()]


def test_conda_and_pip_install_the_same_pins() -> None:
    table = project()
    pip = {*table["dependencies"], *table["optional-dependencies"]["test"]}
    conda = conda_pins((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert conda - {"pip"} == pip | {f"python{table['requires-python']}"}


def test_the_workflow_runs_what_ci_run_runs() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert commands(workflow) == [".ci/run"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_scripts_call_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    weekly = (ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    called = make_targets("\n".join([script, *commands(weekly)]))
    assert {"ci-deps", "test", "unit", "nbval", "browser-all", "exhaustive", "mutants"} == called
    assert called <= set(re.findall(r"^([a-z-]+):", makefile, re.M))


def test_links_of_the_readme_lead_somewhere() -> None:
    readme = ROOT / "README.md"
    assert broken_links(readme.read_text(encoding="utf-8") if readme.exists() else "", ROOT) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "here.md").touch()
    text = "[a](here.md#part) [b](gone.md) [c](https://example.org) [d](#part) <img src='x'>"
    assert broken_links(text + '<img src="gone.png">', tmp_path) == ["gone.md", "gone.png"]


def test_pins_are_read_from_conda_and_pip_sections() -> None:
    head = "channels:\n  - c\ndependencies:\n"
    pins = "  - a>=1,!=2\n  - pip:\n      - b>=3  # why\n      - -e .\n"
    assert conda_pins(head + pins) == {"a>=1,!=2", "b>=3"}
