"""The loop nest as a picture: a bar for each loop, nested as the loops are."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, te, tir

from .blocks import Block, Nest, nest_of
from .boxes import MARGIN, Box, column, framed, over, picture, sized, text
from .kinds import KINDS, ink
from .scene import Scene, folded_code, text_width

STEP, GAP, EDGE, STRIP = 16, 4, 5, 20  # pixels: indentation, gap, around a label, width of a badge
FILLS = {  # the fill of a loop's block; the badge on its left has the hatch
    "serial": "pale_blue",
    "reduce": "pale_orange",
    "parallel": "pale_green",
    "vectorize": "pale_pink",
    "unroll": "pale_yellow",
    "tensorize": "pale_red",
    "bind": "pale_sky",
}
MAX_LINES = 24
MAX_LABEL = 3  # most lines of a statement's label


def nest_scene(
    program: te.Schedule | schedule.State | tir.PrimFunc | Nest, width: float = 430
) -> Scene:
    """Draw a loop nest as nested blocks; a loop's bar has the key "loop:<name>"."""
    nest = program if isinstance(program, Nest) else nest_of(program)
    what = ", ".join(f"{b.label} {b.note}" for b in nest.all() if b.key.startswith("loop:"))
    box = nest_box(nest, width - 2 * MARGIN)
    return picture(box, "loop nest", f"loops, outermost first: {what}")


def nest_box(nest: Nest, width: float) -> Box:
    """Draw a loop nest as nested blocks, `width` pixels wide."""
    return _column(nest.blocks, nest.lines, width)


def _column(blocks: tuple[Block, ...], lines: tuple[str, ...], width: float) -> Box:
    return column(*(_bar(b, lines, width) for b in blocks), gap=GAP)


def _bar(b: Block, lines: tuple[str, ...], width: float) -> Box:
    """Draw a block: its outline, badge, label and note, and the blocks nested in it."""
    fill, is_loop = FILLS.get(b.kind, b.kind), b.kind in FILLS
    label = (text(t, ink(fill), mono=True, bold=is_loop) for t in _label(b, width))
    words = column(*label, gap=0)
    parts = [(words, _before(b), EDGE)]
    if is_loop and (letter := KINDS[b.kind].letter):
        badge = text(letter, ink(b.kind), bold=True, width=STRIP - 6, anchor="middle")
        parts.append((framed(badge, b.kind, inset=2, radius=3), 3, 3))
    if b.note:
        parts.append((text(b.note, ink(fill), width=width - 8, anchor="end"), 0, EDGE))
    top = words.height + 2 * EDGE
    inner_box = _column(b.inside, lines, width - STEP - GAP)
    tall = top + inner_box.height + GAP * bool(b.inside)
    ground = sized(over(*parts), width, tall)
    outline = framed(ground, fill, b.key, lines[b.first].strip(), inset=0)
    return over((outline, 0, 0), (inner_box, STEP, top))


def _before(b: Block) -> float:
    """Return the distance in pixels from the left edge of a bar to its label."""
    return STRIP + 8 if b.kind in FILLS and KINDS[b.kind].letter else 8


def _label(b: Block, width: float) -> list[str]:
    """Fold a bar's label into lines that fit its width; the label of a loop is one line."""
    room = width - _before(b) - 10 - (text_width(b.note, 12) + 10 if b.note else 0)
    return folded_code(b.label, room, 1 if b.kind in FILLS else MAX_LABEL)


def nest_ascii(nest: Nest, most: int = MAX_LINES) -> str:
    """Return the nest as text, with the letter of each loop that is not serial: P, V, U, ..."""
    lines = list(_rows(nest.blocks, 0))
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  … {len(lines) - most + 1} more lines"]
    return "\n".join(lines)


def _rows(blocks: tuple[Block, ...], depth: int) -> Iterator[str]:
    for b in blocks:
        letter = KINDS[b.kind].letter if b.kind in FILLS else ""
        text = f"{b.label}: {b.note}" if b.note else b.label
        yield f"{letter or ' '} {'  ' * depth}{text}"
        yield from _rows(b.inside, depth + 1)
