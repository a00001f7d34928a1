"""Each deck of slides, in Chromium: few slides, few words, and nothing larger than its slide."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
MEASURE = """slides => slides.map(slide => {
    const inside = [slide, ...slide.querySelectorAll("pre")];
    const large = inside.some(
        e => e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth);
    const said = [...slide.children].filter(e => !["PRE", "IMG", "FOOTER"].includes(e.tagName));
    const picture = slide.querySelector("img");
    return {
        words: said.map(e => e.textContent).join(" ").trim().split(/\\s+/).length,
        large,
        lines: Math.max(0, ...[...slide.querySelectorAll("pre.code")]
            .map(e => e.textContent.split("\\n").length)),
        drawn: !picture || picture.naturalWidth > 0 && picture.getBoundingClientRect().height > 200,
    };
})"""


@pytest.fixture(scope="module")
def decks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decks of all notebooks."""
    out = tmp_path_factory.mktemp("slides")
    script = ROOT / "docs/make_slides.py"
    subprocess.run([sys.executable, str(script), str(out), *map(str, NOTEBOOKS)], check=True)
    return out


@pytest.mark.browser
@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_a_deck_fits_its_slides(browser, decks: Path, name: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto((decks / f"{name}.html").as_uri())
    page.emulate_media(media="print")  # all slides at once
    page.wait_for_function("[...document.images].every(i => i.complete)")
    slides = page.eval_on_selector_all("section", MEASURE)
    assert 10 <= len(slides) <= 25
    assert max(slide["words"] for slide in slides) <= 60
    assert max(slide["lines"] for slide in slides) <= 12
    assert [n for n, slide in enumerate(slides, 1) if slide["large"]] == []
    assert [n for n, slide in enumerate(slides, 1) if not slide["drawn"]] == []
    page.close()


@pytest.mark.browser
def test_keys_turn_the_slides(browser, decks: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto((decks / f"{NOTEBOOKS[0].stem}.html").as_uri())
    for key, number in (("ArrowRight", 2), ("PageDown", 3), ("ArrowLeft", 2), ("Home", 1)):
        page.keyboard.press(key)
        assert page.text_content("section.current footer") == str(number)
    page.close()
