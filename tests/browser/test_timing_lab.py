"""TimingLab in a real notebook: Start, points while it runs, Stop."""

import pytest

LAB = """
import time
lab = viz.TimingLab({"a": lambda: time.sleep(0.01), "b": lambda: time.sleep(0.02)}, repeat=10_000)
lab
"""


@pytest.fixture
def bench(show):
    page = show(LAB)
    yield page
    if page.locator("[data-name=stop]").is_enabled():
        page.click("[data-name=stop]")
        page.wait_for_selector("[data-name=start]:enabled")


def runs(page) -> int:
    return page.locator('.mtvm-visual [data-key^="run:"]').count()


def test_runs_appear_while_it_measures_until_stop(bench) -> None:
    assert runs(bench) == 0
    bench.click("[data-name=start]")
    bench.wait_for_function(
        "document.querySelectorAll('.mtvm-visual [data-key^=\"run:\"]').length > 9"
    )
    bench.click("[data-name=stop]")
    bench.wait_for_selector("[data-name=start]:enabled")
    assert bench.locator("[data-name=stop]").is_disabled()
    assert "of 20006 runs measured" in bench.locator(".mtvm-visual .mtvm-stage").inner_text()


def test_the_kernel_is_free_while_it_measures(bench) -> None:
    bench.click("[data-name=start]")
    bench.wait_for_function(
        "document.querySelectorAll('.mtvm-visual [data-key^=\"run:\"]').length > 1"
    )
    assert (
        bench.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status")
        == "idle"
    )
