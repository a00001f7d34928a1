"""predict(): ask for a guess before a cell shows its answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minitvm import viz
from minitvm.base import front_end

from .capture import Output, captured, show_again
from .folded import folded
from .guesses import Guess, store, stored
from .prompt import Prompt
from .question import Answer, Question, as_answer, question_of


@dataclass(slots=True)
class Prediction:
    """The answer to a question; a block that measures sets it.

    A number, one of the options, or one number for each x of a curve.
    """

    answer: Any = None


@contextmanager
def predict(name: str) -> Generator[Prediction]:
    """Ask the question `name` before the outputs of the block are shown.

    A notebook shows a prompt, and the outputs after a guess. A batch run (make notebooks, nbval)
    shows them folded; outside of a notebook they are shown as they come. A question that cannot be
    found asks for no guess. If the block fails, its outputs and the exception are shown.
    """
    question, outputs = question_of(name), list[Output]()
    prediction = Prediction(question.answer)
    if not front_end():
        yield prediction
        return
    prompt = _shown(name, question) if viz.is_live() else None
    try:
        with captured(outputs):
            yield prediction
    except BaseException:
        if prompt:
            prompt.fail()
        show_again(outputs)
        raise
    answer = as_answer(prediction.answer)
    if answer is not None and question.kind and not question.accepts(answer):
        answer = None  # the block and the file disagree; the outputs still answer
    if prompt:
        prompt.finish(answer, outputs)
    else:
        viz.show_in_notebook(folded(question, answer, outputs), raw=True)


def _shown(name: str, question: Question) -> Prompt:
    """Show a prompt, with the reader's latest guess, if any."""
    earlier = stored().get(name)
    guess = earlier.guess if earlier and question.accepts(earlier.guess) else None

    def keep(guess: Answer, answer: Answer | None) -> None:
        store(Guess(name, guess, answer))

    prompt = Prompt(question, guess, keep)
    prompt.show()
    return prompt
