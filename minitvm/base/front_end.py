"""Detect whether code runs in a notebook, in a batch run of a notebook, or outside Jupyter."""

import sys
from typing import Literal


def front_end() -> Literal["notebook", "batch", ""]:
    """Return "notebook" in a user's notebook, "batch" if a tool runs it, and "" outside Jupyter.

    Tools (nbconvert --execute, nbval, nbgrader) tell the kernel that input() cannot ask a user.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return ""
    return "notebook" if getattr(kernel, "_allow_stdin", True) else "batch"
