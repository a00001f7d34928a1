"""Pictures for puzzles: what they show as text."""

import numpy as np

from minitvm import edu, te


def test_the_picture_of_the_visits_numbers_them_from_0():
    A = te.placeholder((2, 3), name="A")
    B = te.compute((3, 2), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    assert edu.visits_picture(s, [A, B]).ascii() == "the visits to B\n0 1\n2 3\n4 5"
    s[B].reorder(*reversed(B.op.axis))
    assert edu.visits_picture(s, [A, B]).ascii() == "the visits to B\n0 3\n1 4\n2 5"


def test_a_cell_with_a_negative_number_is_empty():
    grid = edu.NumberGrid("reads", np.array([[1, -1], [12, -1]]))
    assert grid.ascii() == "reads\n 1  .\n12  ."
    assert ">12<" in grid.svg()


def test_equal_numbers_mark_their_cells():
    assert ">1<" not in edu.NumberGrid("reads", np.array([[1, -1], [1, -1]])).svg()
