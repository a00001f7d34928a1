"""Processes of students, which end with their test."""

from collections.abc import Iterator

import pytest

from minitvm.edu.sandbox import Limits
from minitvm.edu.student import Student

from .limits import QUICK


@pytest.fixture
def started() -> Iterator:
    """started(cell, cell, ...) is a student whose process ends with the test."""
    students: list[Student] = []

    def start(*cells: str, limits: Limits = QUICK) -> Student:
        students.append(Student(list(enumerate(cells, 1)), limits))
        return students[-1]

    yield start
    for student in students:
        student.close()
