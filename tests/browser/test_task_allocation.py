"""TaskAllocation in a real notebook: Start, rounds while it runs, Stop."""

from .search_cells import SCHEDULER

ROUNDS = "document.querySelector('.mtvm-visual .mtvm-stage').textContent"


def test_rounds_appear_while_it_runs_until_stop(show) -> None:
    page = show(f"{SCHEDULER}\nviz.TaskAllocation(scheduler(0.05), trials=144, batch=8)")
    assert "not started" in page.evaluate(ROUNDS)
    page.click("[data-name=start]")
    page.wait_for_function(f"{ROUNDS}.includes('round 3')")
    status = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
    assert page.evaluate(status) == "idle"
    page.click("[data-name=stop]")
    page.wait_for_selector("[data-name=stop]:disabled")
    page.wait_for_function(f"{ROUNDS}.includes('stopped')")
    assert page.locator("[data-name=start]").is_disabled()
