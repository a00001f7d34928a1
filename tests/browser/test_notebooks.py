"""Every notebook of the course in Chromium: run, pressed, in two themes and widths, again, saved.

Takes minutes: make browser-all, once a week.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import ROOT
from .pages import (
    failures,
    illegible,
    press_everything,
    reopen_without_kernel,
    reveal,
    run_all,
    save,
    shown,
    use_theme,
)

FOLDERS = ("notebooks", "solutions", "exercises")
NOTEBOOKS = [path for folder in FOLDERS[:2] for path in sorted((ROOT / folder).glob("*.ipynb"))]

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def course(lab: tuple[str, Path]) -> None:
    """The notebooks, and what they read, in the folder of JupyterLab."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, lab[1] / folder)


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook(path: Path, lab: tuple[str, Path], open_page: Callable) -> None:
    name = str(path.relative_to(ROOT))
    page, errors = open_page(name, width=1024)
    run_all(page)
    reveal(page)
    found = [*failures(page), *illegible(page)]
    use_theme(page, "Dark")
    found += illegible(page)
    page.set_viewport_size({"width": 1500, "height": 1100})
    found += [*illegible(page), *press_everything(page), *illegible(page)]
    use_theme(page, "Light")
    run_all(page)
    reveal(page)
    found += [f"run twice: {text}" for text in failures(page)]
    live = shown(page).count("live")
    save(page)
    reopen_without_kernel(page, f"{lab[0]}/lab/tree/{name}?reset", live)
    kept = shown(page)
    assert found + errors == []
    assert kept.count("live") == 0
    assert kept.count("picture") >= live
    assert not [text for text in kept if "model not found" in text]
    page.close()
