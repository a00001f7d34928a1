"""GridView in a real notebook: steps are played, a barrier is removed, a line is clicked."""

import pytest

from .gpu_cells import ON_GPU


@pytest.fixture
def view(show):
    """The page of a kernel with one barrier."""
    return show(f"{ON_GPU}\nview = viz.GridView(f); view")


def caption(page) -> str:
    return page.locator(".mtvm-caption").inner_text()


def test_steps_light_threads_elements_and_lines(view) -> None:
    view.focus(".mtvm-stage")
    view.keyboard.press("Home")
    assert caption(view).startswith("step 1 of 4, after 0 barriers: 32 threads read 32 elements")
    view.keyboard.press("ArrowRight")
    assert view.locator('.mtvm-stage [data-key^="thread:"][data-mark="write"]').count() == 32
    assert "A_shared[ax1] =" in view.locator(".mtvm-line[data-mark]").inner_text()


def test_a_barrier_is_removed_by_a_button_and_put_back(view) -> None:
    view.locator("[data-name='barrier_1']").click()
    view.wait_for_selector(".mtvm-message:has-text('read after write')")
    assert "RACE: in step 3 thread 0 reads A_shared[31]" in caption(view)
    assert view.locator('.mtvm-stage [data-key^="thread:"][data-mark="race"]').count() == 2
    view.locator("[data-name=restore]").click()
    view.wait_for_selector(".mtvm-message:has-text('no fault')")


def test_a_click_on_an_access_shows_what_it_costs(view) -> None:
    view.locator("[data-key='access:2']").click()
    view.wait_for_selector("text=1 wavefront: banks 0 to 31")
