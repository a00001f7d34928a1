"""The recipe for a JupyterHub names files and variables that exist."""

import re
from pathlib import Path

import yaml  # comes with jupyterlab

ROOT = Path(__file__).parent.parent
HUB = ROOT / "docs/jupyterhub"
DOCKERFILE = (HUB / "Dockerfile").read_text(encoding="utf-8")


def test_what_the_image_copies_exists() -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY")]
    names = [name for words in copied for name in words if not name.startswith("--")]
    assert len(names) > 3
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_variables_of_the_image_are_those_that_minitvm_reads() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "minitvm").rglob("*.py"))
    variables = re.findall(r"(MINITVM_\w+)=", DOCKERFILE)
    assert variables == ["MINITVM_CHECKS", "MINITVM_CACHE", "MINITVM_NUM_THREADS"]
    assert [name for name in variables if f'"{name}"' not in source] == []


def test_the_hub_gives_two_cores_and_2_gib_to_the_image_of_the_recipe() -> None:
    server = yaml.safe_load((HUB / "config.yaml").read_text(encoding="utf-8"))["singleuser"]
    assert (server["cpu"]["limit"], server["memory"]["limit"]) == (2, "2G")
    assert f"{server['image']['name']}:{server['image']['tag']}" in DOCKERFILE
