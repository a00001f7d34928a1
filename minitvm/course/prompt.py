"""The prompt in a live notebook: it takes a guess, then shows the answer below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import anywidget
import ipywidgets
import traitlets

from minitvm import viz

from .capture import Output
from .folded import folded, reason
from .question import Answer, Question, as_answer

STATIC = Path(__file__).parent / "static"
HIDDEN, SHOWN = "none", "block"
link: Callable[..., Any] = vars(ipywidgets)["jsdlink"]


class Prompt(anywidget.AnyWidget):
    """The field, buttons or curve in which the reader guesses, above the hidden answer.

    The answer is in the browser as soon as the block has run. The browser itself shows it, by
    `answer_display`, because the kernel may be busy with the cells that follow.

    keep    called with each guess and the answer to it, once the block has run
    """

    _esm = (STATIC / "predict.js").read_text(encoding="utf-8")
    _css = (STATIC / "predict.css").read_text(encoding="utf-8")
    question = traitlets.Dict().tag(sync=True)
    result = traitlets.Dict().tag(sync=True)  # empty while the block runs
    guess = traitlets.Any().tag(sync=True)
    answer_display = traitlets.Unicode(HIDDEN).tag(sync=True)
    failed = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        question: Question,
        guess: Answer | None,
        keep: Callable[[Answer, Answer | None], None],
    ) -> None:
        question_data = asdict(question)
        del question_data["answer"], question_data["why"]
        display = HIDDEN if guess is None else SHOWN
        self.asked, self.keep = question, keep
        self.early = False  # whether the reader has guessed while the block ran
        super().__init__(question=question_data, guess=guess, answer_display=display)
        layout = ipywidgets.Layout(display=display)
        self.outputs = ipywidgets.Output(layout=layout)
        link((self, "answer_display"), (layout, "display"))
        self.box = ipywidgets.VBox([self, self.outputs])
        self.observe(self._guessed, "guess")

    def show(self) -> None:
        """Show the prompt in a notebook; the block has not run yet."""
        model = cast("str", self.box.model_id)
        empty_bundle = {"text/html": "", "text/plain": ""}
        self.replace_stored = viz.show_live_or_stored(model, empty_bundle, {})

    def finish(self, answer: Answer | None, outputs: list[Output]) -> None:
        """Put the answer below the prompt, hidden until the reader guesses."""
        below = viz.live_only(outputs)
        if self.asked.why:
            why = {"text/html": reason(self.asked), "text/plain": self.asked.why}
            below.append({"output_type": "display_data", "data": why, "metadata": {}})
        self.outputs.outputs = tuple(below)
        bounds = [] if answer is None else self.asked.bounds(answer)
        self.result = {"answer": answer, "text": self.asked.text(answer), "bounds": bounds}
        self.replace_stored(folded(self.asked, answer, outputs))
        if self.early:
            self._guessed()

    def fail(self) -> None:
        """Hide the prompt: the block has failed, and there is no answer."""
        self.failed, self.answer_display = True, HIDDEN

    def _guessed(self, _: Any = None) -> None:
        guess, self.early = as_answer(self.guess), not self.result
        if self.result and guess is not None and self.asked.accepts(guess):
            self.keep(guess, as_answer(self.result["answer"]))

    def __repr__(self) -> str:
        return f"Prompt({self.asked.prompt!r})"
