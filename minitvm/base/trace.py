"""Debug output, which the environment variable MINITVM_DEBUG switches on.

Its value is a level, which includes the output of all lower ones: 1 one line per build, 2 time and
size of every pass, 3 schedule steps, 4 the IR after each pass that changed it, 5 generated source.
"""

import os
import sys


def debug_level() -> int:
    """Return the level in the environment variable MINITVM_DEBUG; 0 if it is not a number."""
    text = os.environ.get("MINITVM_DEBUG", "0")
    return int(text) if text.isdigit() else 0


def debug(level: int, text: str) -> None:
    """Print `text` to stderr if MINITVM_DEBUG is at least `level`."""
    if debug_level() >= level:
        print(text, file=sys.stderr)
