"""The base of widgets: what a notebook stores, what an event does."""

import base64
import io
import subprocess
import sys
from html import unescape

import pytest
from PIL import Image

from minitvm import viz
from minitvm.base import ScheduleError
from minitvm.viz import (
    Button,
    Circle,
    CodeLine,
    Frame,
    Layout,
    Panel,
    Scene,
    Slider,
    Visual,
    stored,
    visual,
)

from .accelerator_programs import talk
from .programs import matmul

LIVE = "application/vnd.jupyter.widget-view+json"


class Dot(Visual):
    """A dot whose radius is a slider."""

    def __init__(self, radius: float = 10) -> None:
        self.radius = radius
        super().__init__()

    def scene(self) -> Scene:
        return Scene(100, 100, (Circle(50, 50, self.radius, "blue", key="dot"),), "a dot")

    def ascii(self) -> str:
        return f"dot of radius {self.radius}"

    def layout(self) -> Layout:
        return Layout(
            controls=(Slider("radius", "radius", 1, 40, self.radius), Button("fail", "fail")),
            frames=(Frame({"dot": "now"}, "first"),),
            links={"dot": ("line",)},
            panels=(Panel("code", (CodeLine("dot", "line"),)),),
        )

    def on(self, name: str, value) -> str | None:
        if name == "fail":
            raise ScheduleError("a step", "it is not legal", "another one")
        self.radius = value
        return f"now {value}"


def test_a_notebook_stores_text_svg_and_png(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINITVM_WIDGETS", raising=False)
    data, about = Dot()._repr_mimebundle_()
    assert list(data) == ["text/plain", "image/svg+xml", "image/png", LIVE]
    assert data["text/plain"] == "dot of radius 10"
    assert data["image/svg+xml"].startswith("<svg")
    assert Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).size == (200, 200)
    assert about["image/png"] == {"width": 100, "height": 100, "alt": "a dot"}


def test_static_leaves_the_live_view_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_WIDGETS", "static")
    assert LIVE not in Dot()._repr_mimebundle_()[0]


def displayed(dot: Dot, monkeypatch: pytest.MonkeyPatch, runs_in: str) -> list[list[str]]:
    """The mime types of each output of a cell that ends with `dot`."""
    found: list[list[str]] = []
    monkeypatch.delenv("MINITVM_WIDGETS", raising=False)
    for file in (visual, stored):
        monkeypatch.setattr(file, "front_end", lambda: runs_in)
    monkeypatch.setattr(stored, "show_in_notebook", lambda data, **_: found.append(list(data)))
    try:
        dot._ipython_display_()
    except NotImplementedError:
        found.append(list(dot._repr_mimebundle_()[0]))
    return found


STILL = ["text/plain", "image/svg+xml", "image/png"]


def test_in_a_notebook_the_picture_is_an_output_of_its_own(monkeypatch) -> None:
    live, style, picture = displayed(Dot(), monkeypatch, "notebook")
    assert (live, style, picture) == ([LIVE, "text/html"], ["text/html"], STILL)


def test_a_batch_run_stores_the_picture_alone(monkeypatch) -> None:
    assert displayed(Dot(), monkeypatch, "batch") == [STILL]


def test_two_equal_widgets_store_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_WIDGETS", "static")
    assert Dot()._repr_mimebundle_() == Dot()._repr_mimebundle_()


def test_repr_is_the_text() -> None:
    assert repr(Dot(3)) == "dot of radius 3"


def test_the_browser_gets_everything_in_one_trait() -> None:
    view = Dot().view
    assert view["controls"][0] == {
        "type": "Slider", "name": "radius", "label": "radius",
        "low": 1, "high": 40, "value": 10, "step": 1,
    }  # fmt: skip
    assert view["frames"] == [{"marks": {"dot": "now"}, "caption": "first"}]
    assert view["links"] == {"dot": ["line"]}
    assert view["panels"][0]["lines"][0] == {"text": "dot", "key": "line", "note": ""}


class Steps(Dot):
    """Three frames: three shapes are marked in turn, while four others keep their marks."""

    def layout(self) -> Layout:
        rest = dict.fromkeys("wxyz", "seen")
        return Layout(frames=tuple(Frame({**rest, key: "now"}, key) for key in "abc"))


@pytest.mark.parametrize(
    "widget",
    [
        pytest.param(lambda: viz.NestPlayer(*matmul()), id="NestPlayer"),
        pytest.param(lambda: viz.IndexLens(matmul()[1][2]), id="IndexLens"),
        pytest.param(lambda: viz.CacheLens(*matmul()), id="CacheLens"),
        pytest.param(lambda: viz.AcceleratorView(talk()), id="AcceleratorView"),
    ],
)
def test_a_live_widget_starts_at_the_frame_of_its_picture(widget) -> None:
    shown = widget()
    layout = shown.layout()
    caption = layout.frames[layout.first].caption
    assert 0 < layout.first < len(layout.frames)
    assert all(line.strip() in unescape(shown.svg()) for line in caption.split("\n"))


def test_a_frame_is_sent_as_changes_if_these_are_fewer() -> None:
    first, second, third = Steps().view["frames"]
    assert first["marks"] == {"w": "seen", "x": "seen", "y": "seen", "z": "seen", "a": "now"}
    assert second == {"changes": {"a": None, "b": "now"}, "caption": "b"}
    assert third == {"changes": {"b": None, "c": "now"}, "caption": "c"}


def test_an_event_draws_anew_and_leaves_a_message() -> None:
    dot = Dot()
    dot.event("radius", 20, selected="dot")
    assert (dot.message, dot.refused, dot.selected) == ("now 20", False, "dot")
    assert 'r="20"' in dot.view["svg"]


def test_a_refusal_is_shown_and_changes_nothing() -> None:
    dot = Dot()
    before = dot.view["svg"]
    dot.event("fail", None, selected="dot")
    assert dot.view["selected"] == "dot"
    assert dot.view["message"] == "a step: it is not legal\n  try: another one"
    assert dot.view["refused"] is True
    assert dot.view["svg"] == before


def test_every_answer_has_a_new_number_so_that_the_browser_can_send_the_next_event() -> None:
    dot = Dot()
    for n, name in enumerate(("radius", "fail", "shout"), 1):
        dot.event(name, 20)
        assert dot.view["answered"] == n


def test_the_style_of_a_live_picture_is_the_page_s() -> None:
    dot = Dot()
    assert "<style>" in dot.svg()
    assert "<style>" not in dot.view["svg"]
    assert ".mtvm .k-blue{" in dot._css


def test_a_bug_in_a_reaction_is_shown_too() -> None:
    dot = Dot()
    dot.event("click", "dot")
    assert dot.view["message"].startswith("TypeError: ")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("radius", "wide", "radius 'wide': not a number from 1 to 40"),
        ("radius", 41, "radius 41: not a number from 1 to 40"),
        ("shout", None, "event 'shout': Dot does not offer this event"),
        ("drag", ["dot", "dot"], "event 'drag': Dot does not offer this event"),
    ],
)
def test_what_the_layout_does_not_offer_is_refused(name: str, value, why: str) -> None:
    dot = Dot()
    dot.event(name, value)
    assert (dot.radius, dot.refused) == (10, True)
    assert dot.message.startswith(why)


def test_a_message_from_the_browser_is_an_event() -> None:
    dot = Dot()
    dot._handle_custom_msg({"name": "radius", "value": 7, "selected": ""}, [])
    assert dot.radius == 7


def test_minitvm_imports_no_widgets_until_asked() -> None:
    code = (
        "import sys, minitvm; print(sorted({'anywidget', 'ipywidgets', 'PIL'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
