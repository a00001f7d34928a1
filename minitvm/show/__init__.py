"""The command line of programs: python -m minitvm show FORMULA prints every stage of one."""

# pyright: reportUnusedImport=false

from .commands import main
