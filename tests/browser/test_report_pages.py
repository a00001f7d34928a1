"""Pages that the command line writes, read in the light and in the dark."""

import pytest

from minitvm import viz

COLOURS = """() => ['p', 'td', 'pre', 'h1'].map((tag) => {
  const e = document.querySelector(tag);
  const ground = getComputedStyle(tag === 'pre' ? e : document.body);
  return [getComputedStyle(e).color, ground.backgroundColor];
})"""


def hexed(colour: str) -> str:
    return "#" + "".join(f"{int(n):02x}" for n in colour.strip("rgb()").split(","))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_follows_the_theme_of_its_reader(browser, theme: str) -> None:
    page = browser.new_page(color_scheme=theme)
    picture = viz.svg(viz.Scene(10, 10, (), "a picture"))
    parts = ["<p>text</p><pre>code</pre>", viz.table([("a", 1)]), picture]
    page.set_content(viz.page("a title", parts))
    for text, ground in page.evaluate(COLOURS):
        assert viz.contrast(hexed(text), hexed(ground)) > 7
        assert (viz.contrast(hexed(ground), "#000000") < 2) == (theme == "dark")
    turned = page.evaluate("getComputedStyle(document.querySelector('svg')).filter")
    assert ("invert" in turned) == (theme == "dark")
    page.close()
