"""The base of every widget: a picture, what stands around it, and what happens on an event."""

from __future__ import annotations

import base64
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import anywidget
import traitlets

from minitvm.base import TVMError

from .controls import Layout, as_data, frame_data
from .png import png
from .scene import Scene
from .svg import marks_css, svg

STATIC = Path(__file__).parent / "static"
LIVE = "application/vnd.jupyter.widget-view+json"


class Visual(anywidget.AnyWidget):
    """A widget that is also a picture and a text.

    A subclass draws itself with pure methods, and reacts in one:

        scene()          the picture; picture() where nothing can be clicked, if that differs
        ascii()          the same as text, at most 25 lines
        layout()         controls, frames, links, panels
        on(name, value)  what an event does: change attributes; a text it returns is shown below

    Events are the name of a control with its value (None for a button), "click" with a key, and
    "drag" with [from key, to key]. Before each, `selected` becomes the key now selected. An error
    in `on` is shown as a message. After each event everything is drawn anew.

    Call super().__init__() last: it draws. MINITVM_WIDGETS=static leaves the live view out.
    """

    _esm = (STATIC / "visual.js").read_text(encoding="utf-8")
    _css = (STATIC / "visual.css").read_text(encoding="utf-8") + marks_css()
    view = traitlets.Dict().tag(sync=True)

    def __init__(self) -> None:
        self.selected = getattr(self, "selected", "")
        self.message, self.refused = "", False
        super().__init__(view=self._drawn())
        self.on_msg(self._receive)  # pyright: ignore[reportUnknownMemberType]

    # --- for subclasses ---

    def scene(self) -> Scene:
        """The picture as it is now."""
        raise NotImplementedError

    def picture(self) -> Scene:
        """The picture that stands alone: in a saved notebook, as SVG or PNG."""
        return self.scene()

    def ascii(self) -> str:
        """The picture as text, at most 25 lines, without addresses or times."""
        raise NotImplementedError

    def layout(self) -> Layout:
        """What stands around the picture."""
        return Layout()

    def on(self, name: str, value: Any) -> str | None:
        """React to an event; the text returned becomes the message."""
        return None

    # --- for everybody ---

    def event(self, name: str, value: Any = None, selected: str | None = None) -> None:
        """Let an event happen, as a click in the browser does; never raises."""
        if selected is not None:
            self.selected = selected
        try:
            self.message, self.refused = self.on(name, value) or "", False
            self.refresh()
        except Exception as e:  # shown, bugs too: in a callback of a widget they would be lost
            known = isinstance(e, TVMError)
            self.message, self.refused = str(e) if known else f"{type(e).__name__}: {e}", True
            now = {"selected": self.selected, "message": self.message, "refused": True}
            self.view = {**self.view, **now}

    def refresh(self) -> None:
        """Draw everything anew; may be called from any thread."""
        self.view = self._drawn()

    def svg(self) -> str:
        """The picture as SVG."""
        return svg(self.picture())

    def png(self) -> bytes:
        """The picture as PNG."""
        return png(self.picture())

    # --- drawing and events ---

    def _drawn(self) -> dict[str, Any]:
        layout = self.layout()
        return {
            "svg": svg(self.scene()),
            "controls": [as_data(c) for c in layout.controls],
            "frames": [frame_data(f) for f in layout.frames],
            "trail": layout.trail,
            "first": layout.first,
            "columns": layout.columns,
            "beside": layout.beside,
            "links": {key: list(others) for key, others in layout.links.items()},
            "panels": [asdict(p) for p in layout.panels],
            "selectable": layout.selectable,
            "draggable": layout.draggable,
            "selected": self.selected,
            "message": self.message,
            "refused": self.refused,
        }

    def _receive(self, _: object, content: dict[str, Any], buffers: object) -> None:
        self.event(str(content.get("name")), content.get("value"), content.get("selected"))

    def __repr__(self) -> str:
        return self.ascii()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The picture as text, SVG and PNG, and the live widget unless that is switched off."""
        scene = self.picture()
        data: dict[str, Any] = {
            "text/plain": self.ascii(),
            "image/svg+xml": svg(scene),
            "image/png": base64.b64encode(png(scene)).decode("ascii"),
        }
        about = {"width": scene.width, "height": scene.height, "alt": scene.title}
        if os.environ.get("MINITVM_WIDGETS") != "static":
            model = cast("str", self.model_id)
            data[LIVE] = {"version_major": 2, "version_minor": 0, "model_id": model}
        return data, {"image/png": about}
