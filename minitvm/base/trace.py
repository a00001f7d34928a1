"""Debug output. The environment variable MINITVM_DEBUG switches it on.

The variable is a level, and each level includes the output of the lower ones. Level 1 prints one
line per build, 2 the time and the size of the IR for every pass, 3 the schedule steps, 4 the IR
after each pass that changed it, and 5 the generated source.
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
