"""AcceleratorView in a real notebook: steps are played in the browser."""

import pytest

from .accelerator_cells import TALK


@pytest.fixture
def view(show):
    return show(f"{TALK}\nviz.AcceleratorView(program)")


def test_steps_fill_the_memories(view) -> None:
    weights = view.locator('.mtvm-stage [data-key="w:2:WGT"]')
    view.focus(".mtvm-stage")
    view.keyboard.press("Home")
    assert weights.get_attribute("data-mark") is None
    for _ in range(2):
        view.keyboard.press("ArrowRight")
    assert weights.get_attribute("data-mark") == "pale_blue"
    assert "writes  WGT[0]" in view.locator(".mtvm-caption").inner_text()
    assert view.locator('.mtvm-stage [data-key="load:W:WGT"]').first.get_attribute("data-mark")


def test_pointing_at_an_instruction_shows_its_step(view) -> None:
    view.locator('.mtvm-line[data-key="line:7"]').hover()
    assert view.locator(".mtvm-caption").inner_text().startswith("step 8 of ")
    assert view.locator('.mtvm-stage [data-key="unit:gemm"]').get_attribute("data-mark") == "now"


def test_a_clicked_piece_of_memory_says_what_it_is(view) -> None:
    view.focus(".mtvm-stage")
    view.keyboard.press("End")
    view.locator('.mtvm-stage [data-key="w:2:WGT"] > rect').first.click()
    view.wait_for_selector(".mtvm-message:has-text('WGT: W[0], written in step 3')")
