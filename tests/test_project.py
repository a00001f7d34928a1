"""What is written twice is equal: pins, the command of continuous integration, links."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml  # comes with jupyterlab

ROOT = Path(__file__).parent.parent
WORKFLOWS = ROOT / ".github/workflows"


def project() -> dict:
    """The [project] table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def conda_pins(text: str) -> set[str]:
    """The requirements listed in an environment.yml, those for pip among them, without `-e .`"""
    listed = re.findall(r"^ +- +([^\s#]+) *(?:#.*)?$", text.split("\ndependencies:")[1], re.M)
    return {pin for pin in listed if not pin.endswith(":")}


def jobs(workflow: str) -> list[dict]:
    """The jobs of a workflow, such as "ci.yml"."""
    text = (WORKFLOWS / workflow).read_text(encoding="utf-8")
    return list(yaml.safe_load(text)["jobs"].values())


def commands(workflow: str) -> list[str]:
    """What the steps of a workflow run."""
    steps = [step for job in jobs(workflow) for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


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
    assert commands("ci.yml") == [".ci/run", "make docs"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("workflow", [path.name for path in sorted(WORKFLOWS.iterdir())])
def test_a_job_names_its_machine_and_a_step_runs_a_command_or_uses_an_action(workflow: str) -> None:
    for job in jobs(workflow):
        assert job["runs-on"]
        assert job["timeout-minutes"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


def test_scripts_call_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    called = make_targets("\n".join([script, *commands("ci.yml"), *commands("weekly.yml")]))
    once = {"ci-deps", "test", "unit", "nbval", "browser-all", "exhaustive", "mutants", "attacks"}
    once |= {"docs"}
    assert called == once
    assert called <= set(re.findall(r"^([a-z-]+):", makefile, re.M))


def test_workflows_set_variables_that_the_makefile_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    variables = {name for job in jobs("weekly.yml") for name in job.get("env", {})}
    variables |= set(re.findall(r"\b([A-Z]+)=", "\n".join(commands("weekly.yml"))))
    assert variables == {"AS_CPU", "PINS"}
    assert variables <= set(re.findall(r"^([A-Z_]+) \?=", makefile, re.M))


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_unit_passes_for_the_cpu_in_as_cpu() -> None:
    plan = subprocess.check_output(["make", "-n", "unit", "AS_CPU=z80"], cwd=ROOT, text=True)
    assert "--as-cpu z80\n" in plan


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
