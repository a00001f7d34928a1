"""CacheLens in a real notebook: frames fill the ways, controls change the cache."""

import pytest


@pytest.fixture
def lens(show):
    """The page of a small matmul in the default cache."""
    return show("lens = viz.CacheLens(*matmul(16)); lens")


def caption(page) -> str:
    return page.locator(".mtvm-caption").inner_text()


def held(page) -> list[str]:
    """What is written in the ways that hold a line now."""
    return page.locator('.mtvm-stage g[data-key^="t"][data-mark] > text').all_text_contents()


def test_frames_fill_the_ways(lens) -> None:
    lens.focus(".mtvm-stage")
    lens.keyboard.press("Home")
    assert held(lens) == ["C 0"]
    for _ in range(3):
        lens.keyboard.press("ArrowRight")
    assert held(lens) == ["A 0", "B 0"]
    assert caption(lens).endswith("line B 0, drives out C 0")


def test_the_ways_that_hold_nothing_are_empty(lens) -> None:
    lens.focus(".mtvm-stage")
    lens.keyboard.press("Home")
    hidden = lens.locator('.mtvm-stage g[data-key="t5"] > text')
    style = hidden.evaluate("e => [getComputedStyle(e).fill, getComputedStyle(e).stroke]")
    assert style == ["none", "none"]


def test_the_statement_that_runs_is_lit(lens) -> None:
    lens.focus(".mtvm-stage")
    lens.keyboard.press("Home")
    assert lens.locator(".mtvm-line[data-mark]").inner_text().strip().endswith("= 0.0")
    lens.keyboard.press("ArrowRight")
    assert "A[i*16 + k]" in lens.locator(".mtvm-line[data-mark]").inner_text()


def test_another_cache_is_replayed(lens) -> None:
    lens.select_option("[data-name=ways]", "all")
    lens.wait_for_selector(".mtvm-message:has-text('0 conflict')")
    assert "fully associative" in lens.locator(".mtvm-stage svg > text").first.text_content()


def test_a_cache_that_cannot_be_is_refused(lens) -> None:
    lens.select_option("[data-name=bytes]", "256 bytes")
    lens.wait_for_selector(".mtvm-message:has-text('16640 accesses')")
    lens.select_option("[data-name=ways]", "16")
    lens.wait_for_selector(".mtvm-refused")
    assert "not a multiple of ways * line" in lens.locator(".mtvm-message").inner_text()


def test_a_click_on_the_whole_run_shows_that_window(lens) -> None:
    part = lens.locator('.mtvm-stage [data-key="bin:100"]').first
    part.click()
    lens.wait_for_selector(".mtvm-caption:has-text('access 8301 of 16640')")
