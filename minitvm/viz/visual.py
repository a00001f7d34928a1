"""The base class of all widgets: it draws them, and checks the events that they handle."""

from __future__ import annotations

import base64
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import anywidget
import traitlets

from minitvm.base import ArgumentError, TVMError, front_end

from .controls import Control, Layout, as_data, frames_data
from .png import png
from .scene import Scene
from .stored import is_live, live_view, show_live_or_stored
from .svg import kinds_css, marks_css, svg

STATIC = Path(__file__).parent / "static"


class Visual(anywidget.AnyWidget):
    """A widget that can also be shown as SVG, PNG and text.

    A subclass describes itself in pure methods, and handles events in one:

        scene()          the picture; override picture() too if saved notebooks show another one
        ascii()          the picture as text, at most 25 lines
        layout()         controls, frames, links, panels
        on(name, value)  handle an event by changing attributes; a returned string is shown

    An event has a name and a value: the name of a control and its value (None for a button),
    "click" and a key, or "drag" and (from key, to key). An event that the layout does not offer,
    or whose value the control does not accept, is refused. During `on`, `self.selected` is the
    selected key. An error in `on` is shown as a message. After each event everything is redrawn.

    Call super().__init__() last, because it draws. MINITVM_WIDGETS=static omits the live view, and
    so does a batch run (nbconvert --execute, nbval).
    """

    _esm = (STATIC / "visual.js").read_text(encoding="utf-8")
    _css = (STATIC / "visual.css").read_text(encoding="utf-8") + kinds_css() + marks_css()
    view = traitlets.Dict().tag(sync=True)

    def __init__(self) -> None:
        self.selected = getattr(self, "selected", "")
        self.message, self.refused, self._answered = "", False, 0
        super().__init__(view=self._drawn())
        self.on_msg(self._receive)  # pyright: ignore[reportUnknownMemberType]

    # --- for subclasses ---

    def scene(self) -> Scene:
        """Return the current picture."""
        raise NotImplementedError

    def picture(self) -> Scene:
        """Return the picture for saved notebooks, SVG and PNG, where nothing can be clicked."""
        return self.scene()

    def ascii(self) -> str:
        """Return the picture as text, at most 25 lines, without addresses or times."""
        raise NotImplementedError

    def layout(self) -> Layout:
        """Return the controls, frames, links and panels around the picture."""
        return Layout()

    def on(self, name: str, value: Any) -> str | None:
        """Handle an event; a returned string is shown as a message below the controls."""
        return None

    # --- for users ---

    def event(self, name: str, value: Any = None, selected: str | None = None) -> None:
        """Handle an event as if it came from the browser; an error is shown as a message."""
        if selected is not None:
            self.selected = selected
        self._answered += 1
        try:
            self.message, self.refused = self.on(name, self._accepted(name, value)) or "", False
            self.refresh()
        except Exception as e:  # bugs too: an exception in a widget's callback would be lost
            known = isinstance(e, TVMError)
            self.message, self.refused = str(e) if known else f"{type(e).__name__}: {e}", True
            reply = {"selected": self.selected, "message": self.message, "refused": True}
            reply["answered"] = self._answered
            self.view = {**self.view, **reply}

    def _accepted(self, name: str, value: Any) -> Any:
        """Return an event's value, converted for `on`; raise ArgumentError to refuse the event."""
        if name == "click":
            return str(value)
        if name == "drag" and self._draggable:
            if not isinstance(value, list | tuple) or len(cast("list[Any]", value)) != 2:
                raise ArgumentError(f"drag {value!r}", "a drag needs two keys, from and to")
            return tuple(map(str, cast("list[Any]", value)))
        for control in self._offered:
            if control.name == name:
                return control.accept(value)
        raise ArgumentError(f"event {name!r}", f"{type(self).__name__} does not offer this event")

    def refresh(self) -> None:
        """Draw everything again; may be called from any thread."""
        self.view = self._drawn()

    def svg(self) -> str:
        """Return the picture as SVG."""
        return svg(self.picture())

    def png(self) -> bytes:
        """Return the picture as PNG."""
        return png(self.picture())

    # --- drawing and events ---

    def _drawn(self) -> dict[str, Any]:
        layout = self.layout()
        self._offered: tuple[Control, ...] = layout.controls
        self._draggable = layout.draggable
        return {
            "svg": svg(self.scene(), style=False),
            "controls": [as_data(c) for c in layout.controls],
            "frames": frames_data(layout.frames),
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
            "answered": self._answered,  # changes with each event: the browser may send the next
        }

    def _receive(self, _: object, content: dict[str, Any], buffers: object) -> None:
        self.event(str(content.get("name")), content.get("value"), content.get("selected"))

    def __repr__(self) -> str:
        return self.ascii()

    def _ipython_display_(self) -> None:
        """Show the live widget in a notebook, followed by the picture for the saved notebook."""
        if front_end() != "notebook" or not is_live():
            raise NotImplementedError  # IPython then shows the bundle
        show_live_or_stored(cast("str", self.model_id), *self._stored())

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the widget as text, SVG and PNG, and as a live view if `is_live()` is true."""
        data, about = self._stored()
        if is_live():
            data |= live_view(cast("str", self.model_id))
        return data, about

    def _stored(self) -> tuple[dict[str, Any], dict[str, Any]]:
        scene = self.picture()
        data: dict[str, Any] = {
            "text/plain": self.ascii(),
            "image/svg+xml": svg(scene),
            "image/png": base64.b64encode(png(scene)).decode("ascii"),
        }
        about = {"width": scene.width, "height": scene.height, "alt": scene.title}
        return data, {"image/png": about}
