"""What a notebook shows of an error: the user's lines and the message; %tb shows the rest."""

import pickle
import sys

import nbclient
import nbformat
import pytest

from minitvm import te
from minitvm.base import ArgumentError, BuildError, ScheduleError, TVMError, importing

SETUP = """\
from minitvm import te
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)

def lab(factor):
    s[B].split(s[B].op.axis[0], factor=factor)"""


def caught(factor: int) -> TVMError:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    with pytest.raises(ScheduleError) as info:
        te.create_schedule(B.op)[B].split(B.op.axis[0], factor=factor)
    return info.value


def test_the_short_form_has_the_users_line_once_the_message_and_the_way_to_the_rest() -> None:
    error = caught(0)
    place, *message, more = error._render_traceback_()
    assert place.startswith("at test_errors.py line ")
    assert place.endswith(": te.create_schedule(B.op)[B].split(B.op.axis[0], factor=factor)")
    assert message == [f"ScheduleError: {error}"]
    assert more == "%tb shows the full traceback"


def test_a_note_that_is_no_line_of_the_traceback_is_shown() -> None:
    error = caught(0)
    error.add_note("in question 3")
    assert error._render_traceback_()[-2:] == ["in question 3", "%tb shows the full traceback"]


def test_the_second_time_all_frames_are_shown() -> None:
    error = caught(0)
    short = error._render_traceback_()
    full = error._render_traceback_()
    assert len(full) > len(short)
    assert any("minitvm" in line and "File" in line for line in full)
    assert full == error._render_traceback_()


def test_an_error_from_another_process_has_its_message_and_its_note() -> None:
    # Dask's serialization, once imported, keeps tracebacks; other processes send none
    error = pickle.loads(pickle.dumps(caught(0))).with_traceback(None)
    first, note, _ = error._render_traceback_()
    assert first == f"ScheduleError: {error}"
    assert note.startswith("at test_errors.py line ")


def test_a_real_notebook_shows_the_short_form_and_tb_the_full_one() -> None:
    cells = [SETUP, "lab(4)\nlab(0)", "%tb"]
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    nbclient.NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute()
    short, full = (cell.outputs[0].traceback for cell in notebook.cells[1:])
    assert short[:2] == [
        "at notebook cell line 2: lab(0)",
        "at notebook cell line 7: s[B].split(s[B].op.axis[0], factor=factor)",
    ]
    assert short[2].startswith("ScheduleError: ")
    assert short[3:] == ["%tb shows the full traceback"]
    assert any("/minitvm/te/" in line for line in full)


@pytest.mark.parametrize("error", [ArgumentError, BuildError])
def test_an_import_that_fails_says_what_to_install(error: type[TVMError], monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "colorsys", None)
    with pytest.raises(error) as caught, importing("colorsys", "drawing", "pip install it", error):
        import colorsys  # noqa: F401
    assert str(caught.value).startswith("drawing: the package colorsys cannot be imported: ")
    assert str(caught.value).endswith("\n  try: pip install it")
