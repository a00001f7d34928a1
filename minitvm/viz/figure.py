"""A Figure is a widget whose picture is a box; a click on a part of it shows the part's tip."""

from __future__ import annotations

from typing import Any

from .boxes import Box, column, paragraph, picture
from .controls import Frame
from .scene import Scene, marked, walk_shapes
from .visual import Visual

WIDTH = 788  # pixels: the width of most pictures, without margins


class Figure(Visual):
    """A widget that draws a box: a subclass has title(), body() and ascii().

    Unless a subclass handles its event, a control sets the attribute of the same name.
    """

    def title(self) -> str:
        """Return the title, which screen readers read out."""
        raise NotImplementedError

    def body(self) -> Box:
        """Return the current picture as a box."""
        raise NotImplementedError

    def scene(self) -> Scene:
        """Draw the body."""
        return picture(self.body(), self.title(), self.ascii())

    def stopped(self, frame: Frame) -> Scene:
        """Draw the body as a frame shows it, with the caption of the frame below it."""
        body = self.body()
        words = (paragraph(line, body.width, "soft") for line in frame.caption.split("\n"))
        scene = picture(column(body, column(*words, gap=1)), self.title(), self.ascii())
        return marked(scene, frame.marks)

    def on(self, name: str, value: Any) -> str | None:
        """Set the attribute that a control is named after; return the tip of what was clicked."""
        if name != "click":
            setattr(self, name, value)
            return None
        shapes = walk_shapes(self.scene().shapes)
        return next((s.tip for s in shapes if s.key == value and s.tip), None)
