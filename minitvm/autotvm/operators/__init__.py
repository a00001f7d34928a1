"""Templates of operators, and tasks of them by name and shape: task_for("softmax", (64, 1000))."""

# pyright: reportUnusedImport=false

from .recognise import recognised
from .table import OPERATORS, Operator, task_for
