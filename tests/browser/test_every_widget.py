"""All widgets and feedback on one narrow page: pressed, in two themes, run twice, saved, exported.

The tests share the page, in this order. test_notebooks.py does the same to the notebooks of the
course (make browser-all).
"""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from .accelerator_cells import TALK
from .conftest import ROOT, SETUP
from .gpu_cells import ON_GPU
from .pages import (
    failures,
    illegible,
    press_everything,
    reopen_without_kernel,
    run_all,
    save,
    shown,
    use_theme,
)
from .search_cells import EVOLUTION, MODELS, SCHEDULER

NAME = "widgets.ipynb"

WIDGETS = (
    "viz.NestPlayer(*matmul(4))",
    "viz.TripleView(*matmul(4))",
    "s, (A, B, C) = matmul(4); viz.IndexLens(C)",
    "viz.PassExplorer(*matmul(4))",
    "viz.CacheLens(*matmul(8))",
    "viz.RooflineDot({'a': s, 'b': s}, machine=viz.Machine(100.0, 20.0), gflops=[2.0, 20.0])",
    "D = te.compute((3, 3), lambda y, x: C[y, x] + C[y + 1, x + 1], name='D')\n"
    "viz.ComputeAtSlider(te.create_schedule(D.op), C, D)",
    "import numpy as np\na, b, c = np.ones((3, 4, 4), 'float32')\n"
    "f = tvm.build(*matmul(4), 'python')\n"
    "viz.TimingLab({'compiled': f, 'plain': lambda *given: f(a, b, c)}, [a, b, c], repeat=3)",
    "viz.TimingLab.from_records([(n, 1e-3 + k * 1e-5) for k in range(12) for n in 'ab'])",
    f"{TALK}\ndisplay(viz.TokenGantt(program), viz.AcceleratorView(program))",
    "row = viz.layer_row('C2', program); display(viz.LayerRoofline([row]), viz.OverlapBars([row]))",
    "display(viz.StallWaterfall(program))\n"
    "viz.AmdahlBar([viz.NetworkPart('conv', 3e9, 0.04), viz.NetworkPart('rest', 1e8)])",
    "from minitvm import vta\nlayers = {'fc': vta.Dense(channels=(64, 64))}\n"
    "viz.ParetoFront(vta.explore(layers, budget=4))",
    "from minitvm import graph\nnet = graph.networks.squeezenet(size=32)\n"
    "display(viz.GraphStepper(net), viz.MemoryPlan(graph.optimized(net)))",
    f"{ON_GPU}\nviz.GridView(f)",
    "display(viz.TokenQueues(), viz.MemoryOrder())",
    "viz.NetworkTimes({'minitvm': {'conv1': 1e-3, 'fc': 1e-4}}, ['conv1'], 'the first')",
    "viz.ManyPrograms({'plain': matmul(4)[0]})",
    "viz.PackedBlocks()",
    "viz.ScoreBars({'yours': 64, 'best known': 48}, 'cache misses')",
    EVOLUTION,
    MODELS,
    f"{SCHEDULER}\nviz.TaskAllocation.from_outcome(scheduler(0.0).tune(trials=48, batch=8))",
    f"from minitvm import edu\nchecks = {str(ROOT / 'exercises/checks')!r}\n"
    "edu.check('ex00.1', lambda A, B: A.no_such_attribute_of_a_tensor, checks=checks)",
    "A = B = C = D = a = b = c = f = s = program = row = matmul = net = None",
)
COUNT = 30
PLAYER = ".mtvm-player button"


@pytest.fixture(scope="module")
def page(open_page: Callable):
    page, errors = open_page(NAME, SETUP, *WIDGETS, width=1024)
    run_all(page)
    yield page
    assert errors == []


def test_all_cells_run_and_show_their_widgets(page) -> None:
    assert failures(page) == []
    assert page.locator(".mtvm-visual svg.mtvm").count() == COUNT


def test_everything_is_legible_in_both_themes(page) -> None:
    assert illegible(page) == []
    use_theme(page, "Dark")
    assert illegible(page) == []
    use_theme(page, "Light")


def test_feedback_keeps_words_whole_and_has_no_number_below(page) -> None:
    box = page.locator(".jp-RenderedHTMLCommon [role=note]")
    assert "keep going" in box.inner_text()
    assert box.evaluate("e => [...e.querySelectorAll('*')].every((x) => getComputedStyle(x)"
                        ".wordBreak === 'normal')")  # fmt: skip
    outputs = box.locator('xpath=ancestor::*[contains(@class, "jp-OutputArea-child")]/..').locator(
        ".jp-OutputArea-child"
    )
    assert outputs.count() == 1


def test_no_button_needs_a_font_with_symbols(page) -> None:
    page.locator("[data-name=play]").first.click()
    labels = "".join(page.locator(PLAYER).all_inner_texts())
    assert "pause" in labels
    assert labels.isascii()
    icon = page.locator(f"{PLAYER} .mtvm-pause").first.bounding_box()
    assert icon["width"] > 5 < icon["height"]
    page.locator("[data-name=play]").first.click()


def test_every_control_works_and_moves_no_picture(page) -> None:
    assert list(press_everything(page)) == []


def test_the_cells_run_twice(page) -> None:
    run_all(page)
    assert failures(page) == []
    assert page.locator(".mtvm-visual svg.mtvm").count() == COUNT


def test_a_live_page_shows_no_still_pictures(page) -> None:
    kinds = [text for text in shown(page) if text in ("live", "picture")]
    assert kinds == ["live"] * COUNT


def test_loaded_again_with_its_kernel_it_is_live(page) -> None:
    save(page)
    page.reload()
    page.wait_for_function(
        f"() => document.querySelectorAll('.mtvm-visual svg.mtvm').length === {COUNT}",
        timeout=120_000,
    )
    assert "picture" not in shown(page)


def test_opened_without_its_kernel_it_shows_pictures(page, lab: tuple[str, Path]) -> None:
    reopen_without_kernel(page, f"{lab[0]}/lab/tree/{NAME}?reset", COUNT)
    assert page.get_by_text("model not found").count() == COUNT  # hidden
    seen = shown(page)
    assert seen.count("picture") == COUNT
    assert not [text for text in seen if "model not found" in text]


def test_exported_it_shows_pictures_without_a_network(lab, browser, tmp_path: Path) -> None:
    stored = nbformat.read(lab[1] / NAME, 4)
    assert "widgets" not in stored.metadata
    html, _ = HTMLExporter().from_notebook_node(stored)
    file = tmp_path / "exported.html"
    file.write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.route("http*://**", lambda route: route.abort())
    page.goto(file.as_uri())
    pictures = page.locator("img[src^='data:image/svg+xml']").all()
    assert len(pictures) == COUNT
    for picture in pictures:
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 400
        assert picture.is_visible()
    assert "not found" not in page.locator("body").inner_text()
    page.close()
