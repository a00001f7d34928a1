"""Draw a scene as SVG; equal scenes give equal bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

from .kinds import COLOURS, KINDS, Kind
from .scene import Circle, Group, Line, Polygon, Rect, Scene, Shape, Text, hatch_lines, kinds_in

SANS = "var(--jp-ui-font-family,'DejaVu Sans',Verdana,sans-serif)"
MONO = "'DejaVu Sans Mono',Menlo,Consolas,monospace"
BASE = (
    f".mtvm text{{font-family:{SANS};stroke:none}}"
    f".mtvm text.mono{{font-family:{MONO};white-space:pre}}.mtvm text.bold{{font-weight:bold}}"
    ".mtvm path.stroke{fill:none;stroke-opacity:.35}"
)
HEAD = 7  # pixels of an arrow head


def svg(scene: Scene, style: bool = True) -> str:
    """Return the scene as an SVG element, self-contained unless the page has the `style`."""
    size = f'width="{num(scene.width)}" height="{num(scene.height)}"'
    box = f'viewBox="0 0 {num(scene.width)} {num(scene.height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mtvm" {size} {box} role="img" '
        f'aria-label="{escape(scene.title)}" style="max-width:100%;height:auto">',
        f"<title>{escape(scene.title)}</title>",
        f"<desc>{escape(scene.description)}</desc>",
        *([f"<style>{kinds_css(kinds_in(scene) | {'paper'})}</style>"] if style else []),
        f'<rect class="k-paper" {size}/>',
        *_elements(scene.shapes),
        "</svg>",
    ]
    return "\n".join(lines)


def num(x: float) -> str:
    """Return a coordinate with at most one digit after the point: 3.14 -> 3.1, 2.0 -> 2"""
    return f"{round(x, 1) + 0.0:g}" if abs(x) < 1e5 else str(round(x))


def class_of(kind: str) -> str:
    """Return the CSS class of a kind."""
    return f"k-{kind or 'plain'}"


def declarations(kind: Kind) -> str:
    """Return the CSS declarations of a kind."""
    text = f"fill:{COLOURS[kind.fill]};stroke:{COLOURS[kind.stroke]}"
    text += f";stroke-width:{num(kind.width)}" if kind.width != 1 else ""
    return text + (f";stroke-dasharray:{','.join(map(str, kind.dash))}" if kind.dash else "")


def kinds_css(kinds: Collection[str] = KINDS) -> str:
    """Return the style of some kinds; of all, for a page that shows many pictures.

    A style inside each picture would be part of the page, too: with each new picture, the browser
    would compute the styles of the whole notebook again.
    """
    rules = (f".mtvm .{class_of(k)}{{{declarations(KINDS[k])}}}" for k in KINDS if k in kinds)
    return BASE + "".join(rules)


def marks_css() -> str:
    """Return CSS that gives elements with data-mark="<kind>" the look of that kind."""
    return "\n".join(
        f'.mtvm [data-mark="{name}"]:is(rect,circle,path),.mtvm [data-mark="{name}"]>rect'
        f'{{{declarations(kind)}}}.mtvm [data-mark="{name}"]>text{{fill:{COLOURS[kind.ink]}}}'
        for name, kind in KINDS.items()
        if name
    )


def _elements(shapes: tuple[Shape, ...]) -> Iterator[str]:
    for s in shapes:
        if isinstance(s, Group):
            yield f"<g{_key(s)}>{_tip(s)}"
            yield from _elements(s.shapes)
            yield "</g>"
        else:
            yield _element(s)


def _key(s: Shape) -> str:
    return f' data-key="{escape(s.key)}"' if s.key else ""


def _tip(s: Shape) -> str:
    return f"<title>{escape(s.tip)}</title>" if s.tip else ""


def _element(s: Rect | Circle | Line | Polygon | Text) -> str:
    look = f'{_key(s)} class="{class_of(s.kind)}'
    match s:
        case Rect():
            return _rect(s, look + '"')
        case Circle():
            at = f'cx="{num(s.x)}" cy="{num(s.y)}" r="{num(s.radius)}"'
            return f'<circle{look}" {at}>{_tip(s)}</circle>'
        case Line(points):
            line = f'<path{look}" style="fill:none" d="{_path(points)}">{_tip(s)}</path>'
            if not s.arrow or len(points) < 2:
                return line
            style = f"fill:{COLOURS[KINDS[s.kind].stroke]};stroke-dasharray:none"
            return f'{line}<path{look}" style="{style}" d="{_path(arrow_head(points))}Z"/>'
        case Polygon(points):
            return f'<path{look}" d="{_path(points)}Z">{_tip(s)}</path>'
        case Text():
            return _text(s, look)


def _rect(s: Rect, look: str) -> str:
    at = f'x="{num(s.x)}" y="{num(s.y)}" width="{num(s.width)}" height="{num(s.height)}"'
    radius_text = f' rx="{num(s.radius)}"' if s.radius else ""
    tip = _tip(s)
    rect = f"<rect{look} {at}{radius_text}" + (f">{tip}</rect>" if tip else "/>")
    hatch = hatch_lines(s.x, s.y, s.width, s.height, KINDS[s.kind].hatch)
    strokes = "".join(f"M{num(a)} {num(b)}L{num(c)} {num(d)}" for a, b, c, d in hatch)
    return rect + (f'<path class="{class_of(s.kind)} stroke" d="{strokes}"/>' if hatch else "")


def _path(points: tuple[tuple[float, float], ...]) -> str:
    return "M" + "L".join(f"{num(x)} {num(y)}" for x, y in points)


def arrow_head(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Return the corners of the arrow head at the end of a line."""
    (x0, y0), (x, y) = points[-2:]
    length = max(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5, 1e-9)
    dx, dy = (x - x0) / length * HEAD, (y - y0) / length * HEAD
    return ((x, y), (x - dx - dy / 2, y - dy + dx / 2), (x - dx + dy / 2, y - dy - dx / 2))


def _text(s: Text, look: str) -> str:
    classes = (" mono" if s.mono else "") + (" bold" if s.bold else "")
    at = f'x="{num(s.x)}" y="{num(s.y)}" font-size="{num(s.size)}"'
    at += f' text-anchor="{s.anchor}"' if s.anchor != "start" else ""
    at += f' transform="rotate({s.turn} {num(s.x)} {num(s.y)})"' if s.turn else ""
    return f'<text{look}{classes}" {at}>{_tip(s)}{escape(s.text, quote=False)}</text>'
