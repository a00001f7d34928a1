"""TuningCurve in a real notebook: Start, trials while it runs, Stop."""

import pytest

SEARCH = """
import time
import numpy as np
from minitvm import te, tune
from minitvm.schedule import Split

A = te.placeholder((64, 64), name="A")
C = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="C")
genes = tune.split_gene("tile_i", 64, 2), tune.split_gene("tile_j", 64, 2)
steps = Split("C", "i", 8), Split("C", "j", 8)
holes = tune.Hole(0, "factor", ((0, 1),)), tune.Hole(1, "factor", ((1, 1),))
state = te.create_schedule(C.op).state
sketch = tune.Sketch("tiles", (A, C), state, steps, holes, tune.Space(genes))
task = tune.Task("double", (64, 64), tvm.Target("llvm"), (A, C), 64.0**2, (sketch,))

class Slow:
    reference_seconds = 2e-7

    def measure(self, programs):
        for n, _ in enumerate(programs):
            time.sleep(0.05)
            yield tune.Result((1e-6 / (1 + n % 7),))

    def final(self, programs, rounds=10):
        return [tune.Result((1e-7,)) for _ in programs] + [tune.Result((2e-7,))]

policy = tune.RandomPolicy(task, np.random.default_rng(0))
search = tune.Search(task, policy, trials=49, batch=8, measurer=Slow())
viz.TuningCurve(search)
"""


@pytest.fixture
def curve(show):
    page = show(SEARCH)
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
