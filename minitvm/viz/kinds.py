"""The look of each kind of shape, in one table that SVG and PNG share.

The colours are Okabe and Ito's, which colour-blind people can tell apart; a letter or a hatch
repeats every meaning of a colour. Pictures are drawn on white; for a dark theme, a CSS filter
exchanges light and dark (page.py, visual.css). A PNG stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

COLOURS = {
    "none": "none",
    "paper": "#ffffff",
    "panel": "#f7f7f7",
    "faint": "#e8e8e8",
    "edge": "#b5b5b5",
    "ink": "#111111",
    "soft": "#444444",
    "black": "#111111",
    "white": "#ffffff",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "red": "#d55e00",
    "pink": "#cc79a7",
    "grey": "#d0d0d0",
    "pale_orange": "#fbe3b0",
    "pale_sky": "#cfe8f9",
    "pale_green": "#b9e6d8",
    "pale_yellow": "#faf6bd",
    "pale_blue": "#b5d7ec",
    "pale_red": "#f7cfb2",
    "pale_pink": "#f0d6e5",
}


@dataclass(frozen=True, slots=True)
class Kind:
    r"""The look of all shapes of one kind; colours are names in COLOURS.

    fill     the colour of rectangles, circles, polygons and text
    stroke   the colour of lines and borders; `width` is their width in pixels
    ink      the colour of text on `fill`
    hatch    "/", "\", "x", "-" or "|", drawn in `stroke`; "" for none
    letter   marks the kind in legends and on badges
    dash     the lengths of dashes and gaps in pixels; () for a solid line
    """

    fill: str = "none"
    stroke: str = "none"
    width: float = 1
    ink: str = "ink"
    hatch: str = ""
    letter: str = ""
    dash: tuple[int, ...] = ()


KINDS: dict[str, Kind] = {
    # the surroundings
    "": Kind("panel", "edge"),
    "paper": Kind("paper"),
    "frame": Kind("none", "edge"),
    "panel": Kind("panel", "edge"),
    "faint": Kind("faint"),
    "axis": Kind("none", "soft"),
    "grid": Kind("none", "faint"),
    "line": Kind("none", "ink", 1.5),
    "dashed": Kind("none", "soft", 1.5, dash=(5, 4)),
    "arrow": Kind("none", "soft", 1.5),
    "text": Kind("ink"),
    "soft": Kind("soft"),
    "on_dark": Kind("white"),
    "on_light": Kind("black"),
    # loops, by how they run
    "serial": Kind("pale_blue", "blue", ink="black"),
    "reduce": Kind("pale_orange", "orange", ink="black", letter="Σ"),
    "parallel": Kind("pale_green", "green", ink="black", hatch="/", letter="P"),
    "vectorize": Kind("pale_pink", "pink", ink="black", hatch="|", letter="V"),
    "unroll": Kind("pale_yellow", "orange", ink="black", hatch="-", letter="U"),
    "tensorize": Kind("pale_red", "red", ink="black", hatch="x", letter="T"),
    "bind": Kind("pale_sky", "sky", ink="black", hatch="\\", letter="B"),
    # statements
    "store": Kind("paper", "edge"),
    "guard": Kind("paper", "red", dash=(5, 4), letter="if"),
    "dropped": Kind("paper", "red", 2),  # a ring, with a cross in it
    "removed": Kind("none", "red", 2, dash=(6, 4)),  # an arrow, with a cross on it
    "crossed": Kind("none", "red", 1.5),
    "stem": Kind("none", "red", 1, dash=(2, 3)),
    "memory": Kind("faint", "soft", ink="ink", letter="M"),
    # cells of a tensor, and what happens to them
    "cell": Kind("panel", "edge"),
    "read": Kind("sky", "blue", ink="black", letter="r"),
    "write": Kind("orange", "black", 2, ink="black", hatch="/", letter="w"),
    "both": Kind("pink", "black", 2, ink="black", hatch="x", letter="b"),
    "race": Kind("red", "black", 2, ink="black", hatch="x", letter="!"),
    "seen": Kind("pale_sky", "edge", ink="black"),
    "done": Kind("pale_orange", "edge", ink="black"),
    "now": Kind("yellow", "black", 2, ink="black"),
    "way": Kind("none", "soft", 1),
    "start": Kind("soft", "paper"),
    "hidden": Kind(),  # invisible until a frame gives it another kind
    "touch": Kind(),  # an invisible area to point at and click
    "reach": Kind(width=12),  # an invisible line to point at and click
    # series of a plot, points, regions; use with a letter, a dash or a hatch
    "orange": Kind("orange", "orange", 2, ink="black"),
    "sky": Kind("sky", "sky", 2, ink="black"),
    "green": Kind("green", "green", 2, ink="black"),
    "yellow": Kind("yellow", "yellow", 2, ink="black"),
    "blue": Kind("blue", "blue", 2, ink="white"),
    "red": Kind("red", "red", 2, ink="black"),
    "pink": Kind("pink", "pink", 2, ink="black"),
    "grey": Kind("grey", "grey", 2, ink="black"),
    "pale_orange": Kind("pale_orange", "orange", ink="black"),
    "pale_sky": Kind("pale_sky", "sky", ink="black"),
    "pale_green": Kind("pale_green", "green", ink="black"),
    "pale_yellow": Kind("pale_yellow", "orange", ink="black"),
    "pale_blue": Kind("pale_blue", "blue", ink="black"),
    "pale_red": Kind("pale_red", "red", ink="black"),
    "pale_pink": Kind("pale_pink", "pink", ink="black"),
}


def contrast(a: str, b: str) -> float:
    """Return the contrast ratio of two #rrggbb colours, 1 to 21. Source: WCAG 2.1, 1.4.3."""
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


INKS = {"ink": "text", "black": "on_light", "white": "on_dark"}


def ink(kind: str) -> str:
    """Return the kind of text that is readable on shapes of `kind`: serial -> on_light"""
    return INKS[KINDS[kind].ink]
