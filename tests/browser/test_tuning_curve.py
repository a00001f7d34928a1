"""TuningCurve in a real notebook: Start, trials while it runs, Stop."""

import pytest

from .search_cells import CURVE


@pytest.fixture
def curve(show):
    page = show(CURVE)
    yield page
    if page.locator("[data-name=stop]").is_enabled():
        page.click("[data-name=stop]")
        page.wait_for_selector("[data-name=stop]:disabled")


def trials(page) -> int:
    return page.locator('.mtvm-visual [data-key^="trial:"]').count()


def test_trials_appear_while_it_runs_until_stop(curve) -> None:
    assert trials(curve) == 0
    curve.click("[data-name=start]")
    curve.wait_for_function(
        "document.querySelectorAll('.mtvm-visual [data-key^=\"trial:\"]').length > 5"
    )
    status = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    assert curve.evaluate(status) == "idle"
    curve.click("[data-name=stop]")
    curve.wait_for_selector("[data-name=stop]:disabled")
    curve.wait_for_function(
        "document.querySelector('.mtvm-visual .mtvm-stage').textContent.includes('stopped')"
    )
    assert 5 < trials(curve) < 49
    assert curve.locator("[data-name=start]").is_disabled()
