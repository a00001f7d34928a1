"""TripleView in a real notebook: what lights up, on click and from the keyboard."""

import pytest


@pytest.fixture
def view(show):
    return show("viz.TripleView(*matmul(8))")


def lit(page) -> list[str]:
    """The lines of all panels that are lit."""
    return [t.strip() for t in page.locator(".mtvm-line.mtvm-linked").all_inner_texts()]


def test_a_clicked_loop_lights_up_its_axis_and_its_code(view) -> None:
    view.locator('.mtvm-stage [data-key="loop:k"] > rect').first.click(position={"x": 99, "y": 8})
    assert lit(view)[:2] == ["k: summed over, 8 -> k", "for k in range(8):"]


def test_arrow_keys_go_from_loop_to_loop(view) -> None:
    view.focus(".mtvm-stage")
    view.keyboard.press("ArrowDown")
    assert "for i in range(8):" in lit(view)
    view.keyboard.press("ArrowDown")
    assert lit(view)[:2] == ["j: 8 -> j_outer, j_inner", "for j_outer in range(2):"]


def test_a_clicked_line_selects_its_loop(view) -> None:
    view.locator(".mtvm-line", has_text="for j_inner in range(4)").click()
    chosen = view.locator(".mtvm-selected")
    assert chosen.get_attribute("data-key") == "loop:j_inner"


def test_llvm_on_request(view) -> None:
    view.select_option("[data-name=code]", "llvm")
    view.wait_for_selector(".mtvm-title:has-text('llvm')")
    view.focus(".mtvm-stage")
    view.keyboard.press("ArrowDown")
    assert "i.loop:" in lit(view)
