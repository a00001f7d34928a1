"""Scenes: data that SVG and PNG draw alike."""

import io
import xml.etree.ElementTree as ET

import pytest
from PIL import Image

from minitvm.base import ArgumentError
from minitvm.viz import (
    COLOURS,
    KINDS,
    Circle,
    Group,
    Line,
    Polygon,
    Rect,
    Scene,
    Text,
    clipped,
    contrast,
    folded_code,
    ink,
    keys_of,
    marked,
    png,
    shifted,
    svg,
    wrapped,
)

ONE_OF_EACH = Scene(
    300,
    120,
    (
        Rect(10, 10, 80, 30, "parallel", key="i", tip="a loop", radius=4),
        Text(16, 30, "i < 8 & more", ink("parallel"), 12, mono=True, bold=True),
        Group((Circle(130, 25, 12, "blue", key="dot"), Text(126, 30, "1", "on_dark")), "both"),
        Line(((10, 60), (90, 80), (140, 60)), "dashed", arrow=True),
        Polygon(((160, 40), (190, 80), (160, 80)), "green"),
        Rect(200, 20, 60, 40, "guard"),
        Text(280, 100, "turned", "soft", turn=-90),
    ),
    "one of each",
    "every kind of shape once",
)


def pixel(scene: Scene, x: float, y: float) -> str:
    """The colour of the PNG at a place of the scene, as #rrggbb."""
    image = Image.open(io.BytesIO(png(scene))).convert("RGB")
    return "#{:02x}{:02x}{:02x}".format(*image.getpixel((round(2 * x), round(2 * y))))


def test_every_shape_as_svg(golden) -> None:
    golden(svg(ONE_OF_EACH))


def test_svg_is_well_formed_and_named() -> None:
    root = ET.fromstring(svg(ONE_OF_EACH))
    assert root.get("role") == "img"
    assert root.get("aria-label") == "one of each"
    assert root.find("{*}desc").text == "every kind of shape once"


def test_png_is_twice_as_large() -> None:
    assert Image.open(io.BytesIO(png(ONE_OF_EACH))).size == (600, 240)


def test_the_same_scene_gives_the_same_bytes() -> None:
    assert png(ONE_OF_EACH) == png(ONE_OF_EACH)
    assert svg(ONE_OF_EACH) == svg(ONE_OF_EACH)


def test_png_has_the_colour_of_the_kind() -> None:
    scene = Scene(40, 40, (Rect(10, 10, 20, 20, "orange"),), "a square")
    assert pixel(scene, 20, 20) == COLOURS["orange"] == "#e69f00"
    assert pixel(scene, 4, 4) == "#ffffff"


def test_marks_give_a_key_another_look() -> None:
    scene = Scene(40, 40, (Group((Rect(10, 10, 20, 20, "cell"),), "c"),), "a square")
    assert pixel(marked(scene, {"c": "read"}), 20, 20) == COLOURS["sky"]
    assert pixel(marked(scene, {"other": "read"}), 20, 20) == COLOURS["panel"]


def test_keys_in_the_order_of_drawing() -> None:
    assert keys_of(ONE_OF_EACH) == ["i", "both", "dot"]


def test_a_shifted_group_moves_all_its_shapes() -> None:
    moved = shifted(Group((Rect(1, 2, 3, 4), Line(((0, 0), (1, 1))))), 10, 20)
    assert moved == Group((Rect(11, 22, 3, 4), Line(((10, 20), (11, 21)))))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ArgumentError, match="kind 'loud': no such kind of shape"):
        Scene(1, 1, (Rect(0, 0, 1, 1, "loud"),), "")


def test_text_too_small_to_read_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 12 pixels"):
        Scene(1, 1, (Text(0, 0, "x", size=9),), "")


@pytest.mark.parametrize("kind", [k for k, look in KINDS.items() if look.fill != "none"])
def test_text_on_a_kind_can_be_read(kind: str) -> None:
    fill, text = COLOURS[KINDS[kind].fill], COLOURS[KINDS[ink(kind)].fill]
    if kind not in ("text", "soft", "on_dark", "on_light", "start"):  # those are text or dots
        assert contrast(fill, text) >= 4.5


@pytest.mark.parametrize(
    ("a", "b", "ratio"), [("#000000", "#ffffff", 21), ("#777777", "#777777", 1)]
)
def test_contrast_is_that_of_wcag(a: str, b: str, ratio: float) -> None:
    assert contrast(a, b) == pytest.approx(ratio)


def test_long_code_goes_on_in_lines_that_are_indented_further() -> None:
    code = "-   C[i*8 + j] = C[i*8 + j] + A[i*8 + k] * B[k*8 + j]"
    assert folded_code(code, 220, 4) == [
        "-   C[i*8 + j] = C[i*8 + j] +",
        "        A[i*8 + k] * B[k*8 +",
        "        j]",
    ]
    assert folded_code(code, 1000, 4) == [code]


def test_code_that_takes_too_many_lines_ends_in_dots() -> None:
    code = "C[i*8 + j] = C[i*8 + j] + A[i*8 + k] * B[k*8 + j]"
    assert folded_code(code, 150, 2) == ["C[i*8 + j] = C[i*8 +", "    j] + A[i*8 + k]…"]


@pytest.mark.parametrize("width", [0, 1, 10, 30])
def test_code_without_room_still_has_lines_of_a_few_letters(width: float) -> None:
    assert all(0 < len(part) <= 4 for part in folded_code("        i = j + k", width, 3))


def test_long_text_is_cut_or_wrapped() -> None:
    assert clipped("a long label", 50, 12, mono=True) == "a lon…"
    assert wrapped("a long label", 60, 12) == ["a long", "label"]
