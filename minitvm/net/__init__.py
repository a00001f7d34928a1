"""The command line of networks: python -m minitvm net NAME."""

# pyright: reportUnusedImport=false

from .commands import NETWORKS, main, network, parser, shape
from .measured import Measured, measured
from .report import report
