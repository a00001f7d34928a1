"""GraphStepper and MemoryPlan in a real notebook: passes, parts of a network, calls, plans."""

import pytest

SETUP = "from minitvm import graph\nnet = graph.networks.squeezenet(size=32)\n"
TARGET = "'llvm -mcpu=skylake-avx512'"


@pytest.fixture
def stepper(show):
    return show(f"{SETUP}viz.GraphStepper(net, {TARGET}, at='assign_layouts')")


@pytest.fixture
def memory(show):
    return show(f"{SETUP}viz.MemoryPlan(graph.optimized(net, {TARGET}))")


def test_a_click_on_a_pass_shows_it(stepper) -> None:
    stepper.locator('.mtvm-visual [data-key="pass:fuse"]').click()
    stepper.wait_for_selector(".mtvm-stage:has-text(': fuse')")


def test_the_slider_moves_the_part_of_the_network(stepper) -> None:
    assert stepper.locator('.mtvm-stage [data-key="after:1"]').count() == 1
    stepper.focus("[data-name=row]")
    stepper.keyboard.press("End")
    stepper.wait_for_function("() => !document.querySelector('[data-key=\"after:1\"]')")


def test_arrow_keys_go_from_call_to_call(memory) -> None:
    assert "call 0: " in memory.locator(".mtvm-caption").inner_text()
    memory.focus(".mtvm-stage")
    memory.keyboard.press("ArrowRight")
    assert "call 1: " in memory.locator(".mtvm-caption").inner_text()
    assert memory.locator(".mtvm-stage [data-mark=now]").count() == 3  # by each plan


def test_one_plan_alone(memory) -> None:
    memory.select_option("[data-name=plan]", "offsets")
    memory.wait_for_function(
        "() => document.querySelectorAll('[data-key=\"tensor:1\"]').length === 1"
    )
    memory.locator('.mtvm-stage [data-key="tensor:1"]').click()
    memory.wait_for_selector(".mtvm-message:has-text('offsets at')")
