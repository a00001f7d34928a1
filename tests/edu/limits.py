"""How long students' processes run in tests, and what this kernel can keep them from."""

from minitvm.edu.sandbox import Limits, landlock_version

QUICK = Limits(seconds=3.0)
REFUSED = ("PermissionError", "FileNotFoundError", "OSError")  # by Python, by the kernel; not there


def landlock() -> int:
    """The version of Landlock that this kernel speaks; below 1: none."""
    return landlock_version()
