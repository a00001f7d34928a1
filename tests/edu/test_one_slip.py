"""What is said about an answer with one mistake, and what the mistake costs."""

import ast
import json
import math

import numpy as np
import pytest

from minitvm import autotvm, graph, tune
from minitvm.edu import AnswerError, Kept, Space
from minitvm.edu.build import item_in, solution
from minitvm.edu.feedback import as_text
from minitvm.edu.live import call_in_process
from minitvm.edu.notebook import code_cells, source
from minitvm.edu.score import Mark, mark

from .course import EXERCISES, ROOT

ITEMS = {item.id: (item, exercise) for exercise in EXERCISES for item in exercise.items}
NAMES = {"np": np, "math": math, "json": json, "autotvm": autotvm, "graph": graph, "tune": tune}


def marked(name: str, old: str, new: str) -> Mark:
    """The mark of the solution with one text in place of another."""
    item, exercise = ITEMS[name]
    cells = [source(cell) for _, cell in code_cells(solution(ROOT, exercise))]
    (text,) = (t for t in cells if item_in(t, exercise) is item)
    assert text.count(old) == 1
    scope = dict(NAMES)
    exec(compile(ast.parse(text.replace(old, new)), "answer", "exec"), scope)
    return mark(item, lambda *args: call_in_process(scope[item.answer], args))


def failing(m: Mark) -> list[str]:
    return [p.title for p in m.parts if p.outcome.status != "passed"]


@pytest.mark.parametrize(
    ("item", "old", "new", "title"),
    [
        ("ex15.1", "10 * max(0.0, g - bound)", "g - bound", "ten times what is beyond a bound"),
        ("ex15.1", " if w)", ")", "tasks that no network calls"),
        ("ex15.2", "if len(history) > window", "if len(history) > window + 1", "the backward part"),
        ("ex15.2", "-now / len(history)", "-now / (len(history) + 1)", "the first guess"),
        ("ex15.2", "= min(forward", "= max(forward", "the second guess, and the lower of both"),
        ("ex15.2", "return weight * ", "return ", "weight, alpha and the usual values"),
        ("ex15.3", "key=lambda n: weights[n]", "key=lambda n: -n", "the first round of each task"),
        ("ex15.3", "0.8 * past[-1] / len(past)", "0.8 * past[-1]", "the lowest gradient"),
        ("ex15.3", "len(past) < len(curves[n]) and", "len(past) < 30 and",
         "tasks whose candidates are used up"),
        ("ex15.3", "len(past) > patience", "len(past) - 1 > patience", "tasks that have stalled"),
    ],
)  # fmt: skip
def test_one_slip_costs_one_part(item: str, old: str, new: str, title: str) -> None:
    assert failing(marked(item, old, new)) == [title]


@pytest.mark.parametrize(
    ("item", "old", "new", "words"),
    [
        ("ex10.1", ' | ("log", ["exp"])', "", "got: log(exp(...))"),
        ("ex10.1", "b.exp(b.add(*", "b.exp(b.multiply(*", "another one, by\n        def net(x"),
        ("ex10.1", "return str(graph", "return (graph", "a Graph cannot be handed in"),
        ("ex11.1", " <= registers and y * vectors >= 8", " <= registers",
         "why: it has 1 vectors of sums"),
        ("ex11.1", "e.size[2] % lanes == 0 and ", "",
         "columns of a tile are not a multiple of 8 lanes"),
        ("ex11.3", "0.5 * (d == 0)", "(d == 0)", "why: equal scores count half"),
        ("ex11.3", "np.logaddexp(0, -d)", "np.log(1 + np.exp(-np.minimum(d, -30)))",
         "for: judged([2.0, 1.0], [0.001, 0.002])"),
        ("ex14.2", '"fuse 2", ', "", "sketches, among them [["),
        ("ex15.2", "if len(history) > window", "if len(history) > window + 1",
         "why: alpha is 1; 4 rounds, and the window is 3"),
        ("ex15.3", "len(past) > patience", "len(past) - 1 > patience",
         "brought no improvement in its last"),
    ],
)  # fmt: skip
def test_feedback_names_what_the_failing_case_shows(item, old, new, words) -> None:
    assert words in as_text(marked(item, old, new))


def test_an_error_shows_the_arguments_that_caused_it() -> None:
    text = as_text(marked("ex15.2", "now = history[-1]", "now = history[1]"))
    assert "raised IndexError" in text
    assert "for: the arguments (1, [0.00" in text


def test_an_untouched_stub_is_not_started_and_no_more() -> None:
    item, _ = ITEMS["ex15.1"]

    def stub(*arguments):
        raise NotImplementedError("ex15.1: see notebook 15, section 2")

    found = mark(item, lambda *args: call_in_process(stub, args))
    assert found.verdict == "not started"
    assert all(word not in as_text(found) for word in ("expected", "got", "why"))


def test_an_argument_that_is_kept_must_not_change(started) -> None:
    body = "def f(sizes):\n    sizes[0] = 5\n    return sizes"
    scope: dict = {}
    exec(body, scope)
    for call in (lambda *args: call_in_process(scope["f"], args), started(body).call):
        with pytest.raises(AnswerError, match="changed-argument"):
            call(*(("f", (Kept([1, 2]),)) if call.__name__ == "call" else (Kept([1, 2]),)))


def test_a_space_of_autotvm_arrives_as_its_options_and_allowed_configurations() -> None:
    def space():
        cfg = autotvm.ConfigSpace()
        cfg.define_split("tile", 4, num_outputs=2)
        cfg.define_knob("order", ["ij", "ji"])
        cfg.multi_filter(lambda c: c["tile"].size[-1] > 2)
        return cfg

    options = {"tile": [[-1, 1], [-1, 2], [-1, 4]], "order": ["ij", "ji"]}
    assert call_in_process(space, ()) == Space(options, [[2, 0], [2, 1]])
