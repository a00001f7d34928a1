"""Draw a scene as PNG, for places that show no SVG, such as an untrusted notebook."""

from __future__ import annotations

import io
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from .kinds import COLOURS, KINDS
from .scene import Circle, Group, Line, Polygon, Rect, Scene, Shape, Text, hatch_lines, walk_shapes
from .svg import arrow_head

SCALE = 2  # pixels of the PNG per pixel of the scene: sharp on high-resolution screens
FINE = 2 * SCALE  # drawn at this scale and then halved, to smooth slanted lines
SHADES = (0.0, 0.5)  # mixing ratios of two colours at an edge: few, for a small file
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}
Ends = tuple[float, float, float, float]


def png(scene: Scene) -> bytes:
    """Return the scene as a PNG file of twice its size; equal scenes give equal bytes."""
    size = (round(scene.width * FINE), round(scene.height * FINE))
    image = Image.new("RGB", size, COLOURS["paper"])
    pen = ImageDraw.Draw(image)
    shapes = [s for s in walk_shapes(scene.shapes) if not isinstance(s, Group)]
    for s in shapes:
        _draw(pen, s)
    smooth = image.reduce(FINE // SCALE)
    for s in shapes:  # text at its final size: equal letters are equal pixels, which compress well
        if isinstance(s, Text):
            _text(smooth, s)
    indexed_image = smooth.quantize(palette=_palette(scene), dither=Image.Dither.NONE)
    file = io.BytesIO()
    indexed_image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _palette(scene: Scene) -> Image.Image:
    """Return a palette of the scene's colours and of the shades between adjacent colours."""
    pairs = [("paper", "ink"), ("panel", "ink"), ("paper", "soft")]
    shapes = walk_shapes(scene.shapes)
    used = dict.fromkeys(s.kind for s in shapes if not isinstance(s, Group))  # in order
    for kind in map(KINDS.__getitem__, used):
        fill, stroke = kind.fill, kind.stroke
        pairs += [(fill, kind.ink), (fill, stroke), ("paper", fill), ("paper", stroke)]
    mixes = [_mixed(b, a, s) for a, b in pairs for s in (*SHADES, 1.0) if "none" not in (a, b)]
    colours = list(dict.fromkeys(mixes))[:256]
    flat = [part for colour in colours for part in colour]
    image = Image.new("P", (1, 1))
    image.putpalette(flat + flat[:3] * (256 - len(colours)))
    return image


@cache
def _font(size: float, mono: bool, bold: bool) -> ImageFont.FreeTypeFont:
    """Load a DejaVu font from the files of matplotlib."""
    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(str(path), size * SCALE, layout_engine=ImageFont.Layout.BASIC)


def _draw(pen: ImageDraw.ImageDraw, s: Shape) -> None:
    match s:
        case Rect():
            _rect(pen, s)
        case Circle(x, y, r):
            box = _scaled((x - r, y - r, x + r, y + r))
            pen.ellipse(box, _fill(s), _stroke(s), _width(s) if _stroke(s) else 0)
        case Line(points):
            _line(pen, s, points)
        case Polygon(points):
            pen.polygon([(x * FINE, y * FINE) for x, y in points], _fill(s))
            if _stroke(s):
                _line(pen, s, (*points, points[0]))
        case Text() | Group():
            return


def _scaled(box: Ends) -> Ends:
    x1, y1, x2, y2 = box
    return x1 * FINE, y1 * FINE, x2 * FINE, y2 * FINE


def _colour(name: str) -> str | None:
    colour = COLOURS[name]
    return None if colour == "none" else colour


def _fill(s: Rect | Circle | Polygon) -> str | None:
    return _colour(KINDS[s.kind].fill)


def _stroke(s: Rect | Circle | Polygon | Line) -> str | None:
    return _colour(KINDS[s.kind].stroke)


def _width(s: Rect | Circle | Polygon | Line) -> int:
    return round(KINDS[s.kind].width * FINE)


def _rect(pen: ImageDraw.ImageDraw, s: Rect) -> None:
    half = KINDS[s.kind].width / 2  # SVG draws a border half outside, Pillow inside
    x1, y1, x2, y2 = _scaled(
        (s.x - half, s.y - half, s.x + max(s.width, 0) + half, s.y + max(s.height, 0) + half)
    )
    solid = _stroke(s) is not None and not KINDS[s.kind].dash
    box = (x1, y1, max(x1, x2 - 1), max(y1, y2 - 1))
    pen.rounded_rectangle(
        box, s.radius * FINE, _fill(s), _stroke(s) if solid else None, _width(s) if solid else 0
    )
    if KINDS[s.kind].dash:
        right, bottom = s.x + s.width, s.y + s.height
        corners = ((s.x, s.y), (right, s.y), (right, bottom), (s.x, bottom), (s.x, s.y))
        _line(pen, s, corners)
    hatch = KINDS[s.kind].hatch
    for stroke in hatch_lines(s.x, s.y, s.width, s.height, hatch):
        pen.line(_scaled(stroke), _mixed(KINDS[s.kind].stroke, KINDS[s.kind].fill, 0.35), FINE)


def _mixed(a: str, b: str, share: float) -> tuple[int, ...]:
    """Blend `share` of colour a with the rest of colour b, like stroke-opacity in the SVG."""
    first, second = (bytes.fromhex(COLOURS[c][1:]) for c in (a, b))
    return tuple(round(share * p + (1 - share) * q) for p, q in zip(first, second, strict=True))


def _line(
    pen: ImageDraw.ImageDraw, s: Rect | Polygon | Line, points: tuple[tuple[float, float], ...]
) -> None:
    dash, colour = KINDS[s.kind].dash, _stroke(s)
    if colour is None:
        return
    if dash:
        for stroke in dashes(points, dash):
            pen.line(_scaled(stroke), colour, _width(s))
    else:
        pen.line([(x * FINE, y * FINE) for x, y in points], colour, _width(s), joint="curve")
    if isinstance(s, Line) and s.arrow and len(points) > 1:
        pen.polygon([(x * FINE, y * FINE) for x, y in arrow_head(points)], colour)


def dashes(points: tuple[tuple[float, float], ...], pattern: tuple[int, ...]) -> list[Ends]:
    """Return the strokes of a dashed line; the pattern (on, off, ...) continues around corners."""
    strokes: list[Ends] = []
    part, left = 0, float(pattern[0])
    for (x1, y1), (x2, y2) in pairwise(points):
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        at = 0.0
        while at < length:
            to = min(at + left, length)
            if part % 2 == 0:
                f, g = at / length, to / length
                dx, dy = x2 - x1, y2 - y1
                strokes.append((x1 + dx * f, y1 + dy * f, x1 + dx * g, y1 + dy * g))
            left -= to - at
            at = to
            if left <= 0:
                part += 1
                left = float(pattern[part % len(pattern)])
    return strokes


def _text(image: Image.Image, s: Text) -> None:
    font = _font(s.size, s.mono, s.bold)
    colour = COLOURS[KINDS[s.kind].fill]
    x, y = round(s.x * SCALE), round(s.y * SCALE)
    if not s.turn:
        pen = ImageDraw.Draw(image)
        pen.fontmode = "1"  # no grey edges: they are hardly visible, and make the file larger
        pen.text((x, y), s.text, colour, font, ANCHORS[s.anchor])
        return
    base, width = round(s.size * SCALE), round(font.getlength(s.text))
    mask = Image.new("L", (width, round(1.4 * base)), 0)
    ImageDraw.Draw(mask).text((0, base), s.text, 255, font, "ls")
    rotated_mask = mask.rotate(-s.turn, expand=True)  # reads upwards, its base line on the right
    before = {"start": width, "middle": width // 2, "end": 0}[s.anchor]
    image.paste(Image.new("RGB", rotated_mask.size, colour), (x - base, y - before), rotated_mask)
