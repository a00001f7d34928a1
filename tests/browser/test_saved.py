"""A notebook that was run and saved keeps its pictures: without its kernel, and as HTML."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from .conftest import SETUP
from .pages import reopen_without_kernel, run_all, save, shown

NAME = "saved.ipynb"
CELLS = (
    SETUP,
    "viz.NestPlayer(*matmul(4))",
    "print('one'); display(viz.TripleView(*matmul(4))); print('two')",
)
PICTURES = "img[src^='data:image/svg+xml']"


@pytest.fixture(scope="module")
def saved(lab: tuple[str, Path], open_page: Callable) -> tuple:
    """(page, file): two widgets were run and saved, and the page is still open."""
    page, _ = open_page(NAME, *CELLS)
    run_all(page)
    save(page)
    return page, lab[1] / NAME


def test_a_live_notebook_shows_widgets_and_no_pictures(saved: tuple) -> None:
    assert shown(saved[0]) == ["live", "one", "live", "two"]


def test_a_page_loaded_again_with_its_kernel_is_live(saved: tuple) -> None:
    page, _ = saved
    page.reload()
    page.wait_for_selector(".mtvm-visual svg")
    page.wait_for_function("() => document.querySelectorAll('.mtvm-visual svg').length === 2")
    assert shown(page) == ["live", "one", "live", "two"]


def test_a_notebook_opened_without_its_kernel_shows_pictures(saved: tuple, lab) -> None:
    page, _ = saved
    reopen_without_kernel(page, f"{lab[0]}/lab/tree/{NAME}?reset", 2)
    assert page.get_by_text("model not found").count() == 2
    assert shown(page) == ["picture", "one", "picture", "two"]


def test_exported_to_html_it_shows_pictures(saved: tuple, browser, tmp_path: Path) -> None:
    _, file = saved
    stored = nbformat.read(file, 4)
    assert "widgets" not in stored.metadata
    html, _ = HTMLExporter().from_notebook_node(stored)
    exported = tmp_path / "exported.html"
    exported.write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.route("http*://**", lambda route: route.abort())
    page.goto(exported.as_uri())
    pictures = page.locator(PICTURES)
    assert pictures.count() == 2
    for n in range(2):
        assert pictures.nth(n).is_visible()
        wide = "image => image.decode().then(() => image.naturalWidth)"
        assert pictures.nth(n).evaluate(wide) > 700
    assert "not found" not in page.locator("body").inner_text()
    page.close()
