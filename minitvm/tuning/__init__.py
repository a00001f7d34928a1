"""The command line of tuning: python -m minitvm tune OPERATOR | resume | report | log."""

# pyright: reportUnusedImport=false

from .commands import main, parser
from .report import report
from .tasks import operators, sizes, task_of, task_of_key
