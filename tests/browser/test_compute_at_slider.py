"""ComputeAtSlider in a real notebook: the slider, the rows, the loops beside them."""

import pytest

CELL = """
A = te.placeholder((18, 18), name="A")
B = te.compute((18, 16), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="B")
C = te.compute((16, 16), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
viz.ComputeAtSlider(te.create_schedule(C.op), B, C)
"""


@pytest.fixture
def slider(show):
    """B at root, y, x of C, or inline."""
    return show(CELL)


def code(page) -> str:
    return page.locator(".mtvm-lines").nth(1).inner_text()


def test_the_slider_moves_the_producer(slider) -> None:
    slider.focus("[data-name=place]")
    slider.keyboard.press("ArrowRight")
    slider.wait_for_selector(".mtvm-message:has-text('B in loop y of C: it keeps 192 bytes')")
    assert "compute_at" in code(slider)
    assert slider.locator(".mtvm-line.now").first.inner_text().strip() == "for y_1 in range(3):"


def test_a_clicked_row_is_the_same(slider) -> None:
    slider.locator('.mtvm-stage [data-key="place:3"] > text').first.click(force=True)
    slider.wait_for_selector(".mtvm-message:has-text('B inline')")
    assert "compute_inline" in code(slider)


def test_rows_are_chosen_from_the_keyboard(slider) -> None:
    slider.focus(".mtvm-stage")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        slider.keyboard.press(key)
    slider.wait_for_selector(".mtvm-message:has-text('B in loop y of C')")
