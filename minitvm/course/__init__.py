"""Predictions of the course: a notebook asks for a guess before it shows an answer.

    with course.predict("03.outer-turns"):
        print(tvm.lower(s, [X, Y]))

What the block prints and displays is the answer. The reader sees a prompt; the answer appears
after a guess, or after "Show me". A block that measures says what came out:

    with course.predict("06.numba-gain") as p:
        ...
        p.answer = slow / fast

The question is the table [outer-turns] of predictions/03.toml, beside the notebook; question.py
lists its keys, and check_questions(text) finds mistakes in such a file. A stored notebook shows
the answer folded, as does a batch run; outside of a notebook the block just prints.

    course.calibration("03")      the reader's guesses beside the answers

    course.ledger("03", s, args)  one layer's share of the machine's peak, after each notebook
    course.finish_line()          a whole network compiled here, beside another library

Guesses are kept in guesses.jsonl beside the notebook, or in the file that MINITVM_GUESSES names;
MINITVM_GUESSES=off keeps none. The ledger's file is ledger.jsonl, or that of MINITVM_LEDGER.
"""
# pyright: reportUnusedImport=false

from . import serving
from .calibration import Calibration, calibration
from .chapters import SEARCHED, Layer, layer, ledger
from .finish_line import finish_line
from .guesses import Guess
from .prediction import Prediction, predict
from .question import Question, check_questions
