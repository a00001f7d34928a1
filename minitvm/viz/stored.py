"""Live views, and what stored notebooks show in their place.

JupyterLab shows the live view of an output instead of its picture, even if the kernel is gone and
the view is only an error message. So the view and the picture are two outputs. A third output
between them, a style, hides the picture while the view is live, and otherwise the error message.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import IPython.display

from minitvm.base import front_end

LIVE = "application/vnd.jupyter.widget-view+json"
ONE_OF_BOTH = """<style>
.jp-OutputArea-child:has(.mtvm-visual, .mtvm-predict) + :has(.mtvm-or) + .jp-OutputArea-child,
.jp-OutputArea-child:has(+ .jp-OutputArea-child .mtvm-or):not(:has(.mtvm-visual, .mtvm-predict)),
.jp-OutputArea-child:has(.mtvm-or) { display: none; }
</style><span class="mtvm-or"></span>"""
Bundle = dict[str, Any]  # mime type -> data
Output = dict[str, Any]  # of a notebook, as nbformat has it
show_in_notebook: Callable[..., Any] = vars(IPython.display)["display"]


def is_live() -> bool:
    """Return whether to show live widgets; False in a batch run or with MINITVM_WIDGETS=static."""
    return os.environ.get("MINITVM_WIDGETS") != "static" and front_end() != "batch"


def live_view(model_id: str) -> Bundle:
    """Return the mime bundle of the live view of a widget."""
    return {LIVE: {"version_major": 2, "version_minor": 0, "model_id": model_id}}


def show_live_or_stored(model_id: str, stored: Bundle, about: Bundle) -> Callable[[Bundle], None]:
    """Show a live widget, followed by what a stored notebook shows.

    Return a function that replaces what a stored notebook shows.
    """
    name = uuid4().hex
    empty_bundle = {"text/html": ""}  # what nbconvert shows in place of the live view
    show_in_notebook({**live_view(model_id), **empty_bundle}, raw=True)
    show_in_notebook({"text/html": ONE_OF_BOTH}, raw=True)
    show_in_notebook(stored, metadata=about, raw=True, display_id=name)

    def replace(other: Bundle) -> None:
        show_in_notebook(other, raw=True, display_id=name, update=True)

    return replace


def live_only(outputs: list[Output]) -> list[Output]:
    """Return outputs without what stored notebooks show in place of live views."""
    before = [{}, {}, *outputs]
    return [
        output
        for one_before, output in zip(before[1:], outputs, strict=False)
        if not _is_style(output) and not _is_style(one_before)
    ]


def stored_only(outputs: list[Output]) -> list[Output]:
    """Return outputs without live views."""
    return [o for o in outputs if LIVE not in o.get("data", {}) and not _is_style(o)]


def _is_style(output: Output) -> bool:
    return output.get("data", {}).get("text/html") == ONE_OF_BOTH
