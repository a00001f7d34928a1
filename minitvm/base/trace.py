"""What MINITVM_DEBUG shows: one verb, `debug(level, text)`, read by every room.

1 one line per build, 2 time and size of every pass, 3 schedule steps, 4 the IR after each pass
that changed it, 5 generated source.
"""

import os
import sys


def debug_level() -> int:
    """The level set by the environment variable MINITVM_DEBUG; 0 if unset or not a number."""
    text = os.environ.get("MINITVM_DEBUG", "0")
    return int(text) if text.isdigit() else 0


def debug(level: int, text: str) -> None:
    """Print `text` to stderr if MINITVM_DEBUG is at least `level`."""
    if debug_level() >= level:
        print(text, file=sys.stderr)
