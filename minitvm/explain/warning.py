"""Warnings about what is likely slow in a schedule. None of them is an error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, repr=False)
class PerformanceWarning:
    """A loop or stage that is likely slow, with the reason and what to try.

    stage: the name of the stage. what: the loop or stage in words. why: the reason.
    fix: what to try; "" if nothing is known.
    factor: the estimated slowdown of the program; 1 if there is no estimate, and 0 for a step that
    has no effect, or costs more than it gains, at any program size.
    """

    stage: str
    what: str
    why: str
    fix: str = ""
    factor: float = 0

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" + (f"\n  try: {self.fix}" if self.fix else "")

    __repr__ = __str__


class PerformanceWarnings(tuple[PerformanceWarning, ...]):
    """A tuple of warnings that is printed as a list."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing looks slow"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lines = [str(w).replace("\n ", ";") for w in self]
        return "\n".join(f"- {line}" for line in lines) or str(self)
