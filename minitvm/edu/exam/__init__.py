# pyright: reportUnusedImport=false

"""Exams whose answers the compiler computes: a family of questions is one function."""

from .paper import FAMILIES, exam_page, key_page, questions_of, write_exam
from .question import Question
