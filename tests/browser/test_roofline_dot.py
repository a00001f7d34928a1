"""RooflineDot in a real notebook: frames move from dot to dot, rows light up."""

import pytest

CELL = """
s = matmul(16)[0]
viz.RooflineDot({"first": s, "second": s}, machine=viz.Machine(100.0, 20.0), gflops=[2.0, 20.0])
"""


@pytest.fixture
def roof(show):
    return show(CELL)


def test_arrow_keys_move_from_dot_to_dot(roof) -> None:
    assert "first: " in roof.locator(".mtvm-caption").inner_text()
    roof.focus(".mtvm-stage")
    roof.keyboard.press("ArrowRight")
    assert "second: bound by memory" in roof.locator(".mtvm-caption").inner_text()
    assert roof.locator(".mtvm-stage [data-mark=now]").get_attribute("data-key") == "dot:1"
    assert roof.locator(".mtvm-line[data-mark]").inner_text().startswith("second")


def test_a_clicked_dot_says_what_limits_it(roof) -> None:
    roof.locator('.mtvm-stage circle[data-key="dot:0"]').click()
    roof.wait_for_selector(".mtvm-message:has-text('first: bound by memory')")
    assert roof.locator(".mtvm-line.mtvm-linked").inner_text().startswith("first")


def test_measuring_replaces_the_machine(roof) -> None:
    roof.click("button[data-name=measure]")
    roof.wait_for_selector(".mtvm-message:has-text('measured: this machine')")
    assert roof.locator(".mtvm-stage svg > text").first.text_content().startswith("this machine")
