"""Detect whether code runs in a notebook, in a batch run of a notebook, or outside Jupyter."""

import sys
from typing import Literal


def front_end() -> Literal["notebook", "batch", ""]:
    """Return "notebook" if a user runs a notebook, "batch" if a tool does, "" outside Jupyter.

    A tool (nbconvert --execute, nbval, nbgrader) tells the kernel that no one can answer input().
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return ""
    return "notebook" if getattr(kernel, "_allow_stdin", True) else "batch"
