"""NestPlayer in a real notebook: mouse, keyboard, messages."""

import pytest

BARS = (
    "() => [...document.querySelectorAll('.mtvm-stage [data-key^=\"loop:\"]')]"
    ".map(e => e.dataset.key.slice(5))"
)


@pytest.fixture
def player(show):
    """The page of a player of C[i, j] with loops i, j_outer, j_inner, k."""
    return show("player = viz.NestPlayer(*matmul(8)); player")


def order(page) -> list[str]:
    """The loops from the outermost inwards, as the bars stand."""
    return page.evaluate(BARS)


def wait_for_order(page, *names: str) -> None:
    page.wait_for_function(
        f"names => JSON.stringify(({BARS})()) === JSON.stringify(names)", arg=names
    )


def bar(page, name: str):
    return page.locator(f'.mtvm-stage [data-key="loop:{name}"] > rect').first


def caption(page) -> str:
    return page.locator(".mtvm-caption").inner_text()


def test_bars_code_and_steps_are_shown(player) -> None:
    assert order(player) == ["i", "j_outer", "j_inner", "k"]
    assert player.locator(".mtvm-panel").count() == 2
    assert "s[C].split(j, factor=4)" in player.locator(".mtvm-line.now").inner_text()


def test_arrow_keys_step_through_the_ticks(player) -> None:
    assert caption(player).startswith("tick 290 of 576")
    player.focus(".mtvm-stage")
    player.keyboard.press("Home")
    player.keyboard.press("ArrowRight")
    assert caption(player).startswith("tick 2 of 576  i=0, j_outer=0, j_inner=0, k=0")
    player.keyboard.press("End")
    assert caption(player).startswith("tick 576 of 576")
    player.keyboard.press("Home")
    assert caption(player).startswith("tick 1 of 576")


def test_the_element_written_is_marked(player) -> None:
    player.focus(".mtvm-stage")
    player.keyboard.press("Home")
    marked = player.locator('.mtvm-stage [data-mark="write"]')
    assert marked.get_attribute("data-key") == "cell:C/0/0"


def test_dragging_a_bar_reorders_the_loops(player) -> None:
    spot = {"x": 99, "y": 8}
    bar(player, "k").drag_to(bar(player, "j_outer"), source_position=spot, target_position=spot)
    wait_for_order(player, "i", "k", "j_outer", "j_inner")
    assert "s[C].reorder(k, j_outer, j_inner)" in player.locator(".mtvm-message").inner_text()


def test_alt_and_arrows_move_the_selected_loop(player) -> None:
    player.focus(".mtvm-stage")
    for key in ("ArrowDown", "ArrowDown", "Alt+ArrowUp"):
        player.keyboard.press(key)
    wait_for_order(player, "j_outer", "i", "j_inner", "k")


def test_an_illegal_step_changes_nothing_and_says_why(player) -> None:
    bar(player, "k").click(position={"x": 30, "y": 8})
    player.click("button[data-name=vectorize]")
    player.wait_for_selector(".mtvm-refused")
    assert "it is a reduce axis" in player.locator(".mtvm-message").inner_text()
    assert order(player) == ["i", "j_outer", "j_inner", "k"]
    assert player.locator(".mtvm-selected").get_attribute("data-key") == "loop:k"


def test_a_clicked_loop_lights_up_its_code(player) -> None:
    bar(player, "j_inner").click(position={"x": 30, "y": 8})
    lit = player.locator(".mtvm-line.mtvm-linked")
    assert lit.first.inner_text().strip() == "for j_inner in range(4):"


def test_the_factor_typed_is_the_one_that_splits(player) -> None:
    bar(player, "i").click(position={"x": 30, "y": 8})
    player.fill("[data-name=factor]", "2")
    player.click("button[data-name=split]")
    wait_for_order(player, "i_outer", "i_inner", "j_outer", "j_inner", "k")
    assert "factor=2" in player.locator(".mtvm-message").inner_text()


def test_the_step_slider_goes_back_in_time(player) -> None:
    player.focus("[data-name=step]")
    player.keyboard.press("ArrowLeft")
    wait_for_order(player, "i", "j", "k")


def test_a_refusal_moves_nothing(show) -> None:
    page = show("viz.NestPlayer(*matmul(8))")
    stage = page.locator(".mtvm-visual .mtvm-stage")
    before = stage.bounding_box()
    page.fill("[data-name=factor]", "no whole number at all, " * 20)
    page.keyboard.press("Enter")
    page.locator('.mtvm-stage [data-key="loop:i"]').click(position={"x": 5, "y": 5})
    page.click("[data-name=split]")
    page.wait_for_selector(".mtvm-message.mtvm-refused")
    assert stage.bounding_box() == before
