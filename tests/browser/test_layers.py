"""Rooflines of layers, waterfalls and Amdahl's law in a real notebook."""

from .accelerator_cells import TALK


def test_a_clicked_layer_says_its_limit(show) -> None:
    page = show(f'{TALK}\nviz.LayerRoofline([viz.layer_row("C2", program)])')
    page.locator('.mtvm-stage [data-key="layer:0"] > rect').first.click()
    page.wait_for_selector(".mtvm-message:has-text('the limit is')")
    assert page.locator(".mtvm-line.mtvm-linked").inner_text().startswith("C2")


def test_a_waterfall_of_another_unit(show) -> None:
    page = show(f"{TALK}\nviz.StallWaterfall(program)")
    page.select_option("[data-name=unit]", "load")
    page.wait_for_selector(".mtvm-stage svg > text:has-text('the load unit')")


def test_parts_of_a_waterfall_are_walked_from_the_keyboard(show) -> None:
    page = show(f"{TALK}\nviz.StallWaterfall(program)")
    page.focus(".mtvm-stage")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mtvm-message:has-text('load uop: ')")


def test_a_cpu_of_another_speed(show) -> None:
    page = show('viz.AmdahlBar([viz.NetworkPart("conv", 3e9, 0.04), viz.NetworkPart("rest", 1e8)])')
    page.fill("[data-name=gflops]", "22")
    page.keyboard.press("Enter")
    page.wait_for_selector(".mtvm-message:has-text('CPU alone 141 ms')")
