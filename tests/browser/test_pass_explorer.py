"""PassExplorer in a real notebook: slider, buttons, marked lines side by side."""

import pytest


@pytest.fixture
def explorer(show):
    return show("viz.PassExplorer(*matmul(8))")


def marked(page, note: str) -> list[str]:
    return page.locator(f".mtvm-visual .mtvm-line.{note}").all_inner_texts()


def test_lines_that_went_and_came_are_marked(explorer) -> None:
    assert marked(explorer, "removed")[0].lstrip("- ") == "C[i, j_outer*4 + j_inner] = 0.0"
    assert marked(explorer, "added")[0].lstrip("+ ") == "C[i*8 + j_outer*4 + j_inner] = 0.0"


def test_before_stands_left_of_after(explorer) -> None:
    left, right = (p.bounding_box() for p in explorer.locator(".mtvm-visual .mtvm-panel").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]


def test_the_slider_goes_from_pass_to_pass(explorer) -> None:
    explorer.focus("[data-name=pass]")
    explorer.keyboard.press("ArrowRight")
    explorer.wait_for_selector(".mtvm-stage:has-text(': partition')")
    assert marked(explorer, "added") == []


def test_a_click_on_a_pass_shows_it(explorer) -> None:
    explorer.locator('.mtvm-visual [data-key="pass:unroll"]').click()
    explorer.wait_for_selector(".mtvm-stage:has-text(': unroll')")
    assert "after unroll, which took" in explorer.locator(".mtvm-title").last.inner_text()


def test_the_panes_scroll_together(show) -> None:
    page = show("viz.PassExplorer(*matmul(8))")
    page.add_style_tag(content=".mtvm-lines { max-height: 60px !important; max-width: 120px; }")
    left, right = page.locator(".mtvm-visual .mtvm-lines").all()
    together = "([a, b, n]) => a.scrollTop > n && b.scrollTop === a.scrollTop"
    together += " && b.scrollLeft === a.scrollLeft"
    for moved, other, least in ((left, right, 30), (right, left, 50)):
        moved.hover()
        page.mouse.wheel(20, 40)
        page.wait_for_function(
            together, arg=[moved.element_handle(), other.element_handle(), least]
        )
