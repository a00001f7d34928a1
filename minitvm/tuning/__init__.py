"""The command line of tuning: python -m minitvm tune OPERATOR | resume | report | log."""

# pyright: reportUnusedImport=false

from .commands import main, parser
from .operators import OPERATORS, Operator, task_of, task_of_key
from .report import report
