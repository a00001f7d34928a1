"""IndexLens in a real notebook: mouse, arrows, a formula typed by hand."""

import pytest


@pytest.fixture
def lens(show):
    """The page of a lens on C = A B of 8 x 8."""
    return show("s, (A, B, C) = matmul(8); viz.IndexLens(C)")


def lit(page, kind: str = "read") -> list[str]:
    return page.evaluate(
        f"[...document.querySelectorAll('.mtvm-visual [data-mark={kind}]')].map(e => e.dataset.key)"
    )


def caption(page) -> str:
    return page.locator(".mtvm-visual .mtvm-caption").inner_text()


def cell(page, key: str):
    return page.locator(f'.mtvm-visual .mtvm-stage [data-key="{key}"]')


def test_pointing_at_a_cell_lights_up_what_it_reads(lens) -> None:
    cell(lens, "C/1/2").hover()
    assert lit(lens, "write") == ["C/1/2"]
    assert lit(lens) == [f"A/1/{k}" for k in range(8)] + [f"B/{k}/2" for k in range(8)]
    assert caption(lens) == "C[1, 2] reads A[1, 0..7] (8), B[0..7, 2] (8)"


def test_pointing_is_a_preview_that_ends_when_the_mouse_leaves(lens) -> None:
    cell(lens, "C/1/2").click()
    cell(lens, "C/5/6").hover()
    assert lit(lens, "write") == ["C/5/6"]
    lens.locator(".mtvm-visual .mtvm-count").hover()
    assert lit(lens, "write") == ["C/1/2"]
    assert caption(lens).startswith("C[1, 2] reads")


def test_pointing_does_not_disturb_the_player_but_a_click_stops_it(lens) -> None:
    lens.focus(".mtvm-visual .mtvm-stage")
    lens.keyboard.press("Home")
    lens.keyboard.press("Space")
    for key in ("C/0/0", "C/0/1"):
        cell(lens, key).hover()
    assert "pause" in lens.locator(".mtvm-visual [data-name=play]").inner_text()
    cell(lens, "C/0/1").click()
    assert "play" in lens.locator(".mtvm-visual [data-name=play]").inner_text()
    assert lit(lens, "write") == ["C/0/1"]


def test_the_help_on_keys_is_reached_by_the_keyboard(lens) -> None:
    lens.focus(".mtvm-visual [data-name=shape]")
    for _ in range(lens.locator(".mtvm-visual .mtvm-bar input[type=range]").count() + 1):
        lens.keyboard.press("Tab")
    lens.keyboard.press("Enter")
    message = lens.locator(".mtvm-visual .mtvm-message")
    assert "Space plays" in message.inner_text()
    lens.keyboard.press("Enter")
    assert message.inner_text() == ""


def test_arrows_go_to_the_neighbours(lens) -> None:
    lens.focus(".mtvm-visual .mtvm-stage")
    lens.keyboard.press("Home")
    for key, at in (("ArrowDown", "C/1/0"), ("ArrowRight", "C/1/1"), ("ArrowUp", "C/0/1")):
        lens.keyboard.press(key)
        assert lit(lens, "write") == [at]


def test_the_upper_row_is_the_end(lens) -> None:
    lens.focus(".mtvm-visual .mtvm-stage")
    lens.keyboard.press("Home")
    lens.keyboard.press("ArrowUp")
    assert lit(lens, "write") == ["C/0/0"]


def test_another_formula_reads_other_cells(lens) -> None:
    lens.fill("[data-name=formula]", "lambda i, j: te.sum(A[k, i] * B[k, j], axis=k)")
    lens.keyboard.press("Enter")
    lens.wait_for_selector(".mtvm-stage:has-text('A[k, i] * B[k, j]')")
    cell(lens, "C/0/1").click()
    assert caption(lens) == "C[0, 1] reads A[0..7, 0] (8), B[0..7, 1] (8)"


def test_a_mistake_in_the_formula_is_shown(lens) -> None:
    lens.fill("[data-name=formula]", "lambda i, j: A[i, j + 100]")
    lens.keyboard.press("Enter")
    lens.wait_for_selector(".mtvm-refused")
    assert "the range of j" in lens.locator(".mtvm-visual .mtvm-message").inner_text()
    assert cell(lens, "C/7/7").count() == 1
