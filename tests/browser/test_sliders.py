"""A slider in a real notebook: the picture follows while it is dragged, and the last value wins."""

import pytest

NUMBER = """
import time

class Number(viz.Visual):
    value = events = 0

    def __init__(self, pause):
        self.pause = pause
        super().__init__()

    def scene(self):
        text = f"value {self.value} after {self.events} events"
        return viz.Scene(300, 40, (viz.Text(10, 20, text),), text)

    def ascii(self):
        return ""

    def layout(self):
        return viz.Layout(controls=(
            viz.Slider("n", "n", 0, 40 + self.value, self.value), viz.Button("b", "b")))

    def on(self, name, value):
        time.sleep(self.pause)
        self.events += 1
        self.value = self.value if value is None else value
        if value == 13:
            raise ValueError(value)
"""
DRAG = """(slider, values) => {
  for (const value of values) {
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
}"""


@pytest.fixture
def number(show):
    """number(pause) -> the page of a widget that takes so many seconds for an event."""
    return lambda pause: show(f"{NUMBER}\nNumber({pause})")


def drag(page, *values: int) -> None:
    """Drag the slider over these values without releasing it."""
    page.locator(".mtvm-visual [data-name=n]").evaluate(DRAG, list(values))


def wait_for_text(page, text: str) -> None:
    page.wait_for_selector(f".mtvm-visual .mtvm-stage:has-text('{text}')")


def test_every_position_is_drawn_before_the_slider_is_released(number) -> None:
    page = number(0)
    for n in range(1, 9):
        drag(page, n)
        wait_for_text(page, f"value {n} after {n} events")


def test_positions_passed_while_the_kernel_is_busy_are_skipped(number) -> None:
    page = number(0.2)
    drag(page, *range(1, 41))
    wait_for_text(page, "value 40 after 2 events")


def test_a_button_waits_for_its_turn(number) -> None:
    page = number(0.2)
    drag(page, 1, 2)
    page.click("[data-name=b]")
    wait_for_text(page, "value 2 after 3 events")


def test_a_slider_goes_on_after_an_error(number) -> None:
    page = number(0)
    drag(page, 13)
    page.wait_for_selector(".mtvm-refused:has-text('ValueError')")
    drag(page, 14)
    wait_for_text(page, "value 14")


def test_a_new_range_does_not_take_the_slider_from_the_mouse(number) -> None:
    page = number(0)
    slider = page.locator(".mtvm-visual [data-name=n]").element_handle()
    drag(page, 20)
    wait_for_text(page, "value 20")
    assert slider.get_attribute("max") == "60"
    assert slider.evaluate("e => e.isConnected")
