"""TokenGantt in a real notebook: time is played in the browser, clicks edit tokens."""

import pytest

from .accelerator_cells import LONG, TALK


@pytest.fixture
def gantt(show):
    return show(f"{TALK}\ngantt = viz.TokenGantt(program); gantt")


def caption(page) -> str:
    return page.locator(".mtvm-caption").inner_text()


def message(page, text: str) -> str:
    page.wait_for_selector(f".mtvm-message:has-text('{text}')")
    return page.locator(".mtvm-message").inner_text()


def test_arrow_keys_step_through_time(gantt) -> None:
    assert caption(gantt).startswith("cycle 0\n")
    gantt.focus(".mtvm-stage")
    gantt.keyboard.press("End")
    assert "store    has nothing to do" in caption(gantt)
    gantt.keyboard.press("Home")
    gantt.keyboard.press("ArrowRight")
    running = gantt.locator('.mtvm-stage [data-key^="i:"][data-mark=now]')
    assert running.count() == 1


def test_a_clicked_instruction_is_described_and_its_line_lights_up(gantt) -> None:
    gantt.locator('.mtvm-stage [data-key="i:7"] > rect').click()
    assert "instruction 7 (gemm): cycles" in message(gantt, "instruction 7")
    assert "gemm u[0:1]" in gantt.locator(".mtvm-line.mtvm-linked").inner_text()


def test_a_clicked_push_makes_a_deadlock_and_another_click_mends_it(gantt) -> None:
    push = gantt.locator('.mtvm-stage [data-key="f:5:push_next"]')
    push.click()
    assert "deadlock: " in message(gantt, "dropped push_next of instruction 5")
    assert gantt.locator(".mtvm-stage svg > text").first.text_content().startswith("deadlock")
    push.click()
    assert "ok: " in message(gantt, "added push_next of instruction 5")


def test_a_click_on_a_crossed_out_arrow_restores_the_token(gantt) -> None:
    gantt.locator('.mtvm-stage [data-key="f:5:push_next"]').click()
    message(gantt, "dropped push_next of instruction 5")
    gantt.locator('.mtvm-stage [data-key="x:l2g:0"] > rect').click()
    assert "ok: " in message(gantt, "added push_next of instruction 5")
    assert gantt.locator('.mtvm-stage [data-key^="x:"]').count() == 0


def test_the_buttons_edit_the_selected_instruction(gantt) -> None:
    gantt.locator('.mtvm-stage [data-key="i:7"] > rect').click()
    message(gantt, "instruction 7")
    gantt.click("button[data-name=pop_prev]")
    assert "leak: 1 token stays in l2g" in message(gantt, "dropped pop_prev of instruction 7")
    gantt.click("button[data-name=restore]")
    message(gantt, "the tokens are as they were given")


def test_latency_hiding_can_be_switched_off(gantt) -> None:
    gantt.click("[data-name=hiding]")
    gantt.wait_for_selector(".mtvm-stage svg > text:has-text('one unit at a time; with its own')")
    assert gantt.locator("button[data-name=push_next]").is_disabled()


def test_a_long_program_is_zoomed_by_a_click_and_by_the_slider(show) -> None:
    page = show(f"{LONG}\nviz.TokenGantt(program)")
    column = page.locator('.mtvm-stage [data-key="c:60"]')
    assert "instructions start" in column.locator("title").text_content()
    column.click()
    page.wait_for_selector(".mtvm-stage svg > text:has-text('; window ')")
    assert page.locator('.mtvm-stage [data-key^="i:"]').count() > 20
    assert column.count() == 0
    page.locator("[data-name=zoom]").fill("0")
    page.wait_for_selector(".mtvm-stage svg > text:has-text('zoomed out: ')")
    assert page.locator("[data-name=window]").count() == 0


def test_columns_are_walked_and_opened_from_the_keyboard(show) -> None:
    page = show(f"{LONG}\nviz.TokenGantt(program)")
    page.focus(".mtvm-stage")
    page.keyboard.press("ArrowRight")
    assert "tokens   at most" in caption(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mtvm-stage svg > text:has-text('; window 1 of ')")


BESIDE = """() => [...document.querySelectorAll('.mtvm-stage path.k-arrow[data-key^="k:"]')]
    .filter((e) => e.style.fill === 'none').flatMap((e) => {
        const [a, b] = [0.45, 0.55].map((part) => e.getPointAtLength(part * e.getTotalLength())
            .matrixTransform(e.getScreenCTM()));
        const [x, y, long] = [(a.x + b.x) / 2, (a.y + b.y) / 2, Math.hypot(b.x - a.x, b.y - a.y)];
        const [dx, dy] = [5 * (b.x - a.x) / long, 5 * (b.y - a.y) / long];
        return [[x - dy, y + dx], [x + dy, y - dx]];
    }).map(([x, y]) => document.elementFromPoint(x, y).dataset.key ?? '')"""


def test_an_arrow_is_found_five_pixels_beside_it(gantt) -> None:
    keys = gantt.evaluate(BESIDE)
    assert keys
    assert all(key.startswith("k:") for key in keys)
