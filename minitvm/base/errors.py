"""Every error minitvm raises on purpose. A message says what, why, and what to try."""


class TVMError(Exception):
    """Base class: catch this to catch anything minitvm refuses to do.

    str() gives  "what: why", then a line "  try: ..." where a way out is known.
    All parts travel in `args`, so errors survive pickling across process pools.
    """

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)

    def __str__(self) -> str:
        what, why, fix = self.args
        return what + (f": {why}" if why else "") + (f"\n  try: {fix}" if fix else "")


class ExprError(TVMError, TypeError):
    """A formula that has no meaning: mixed-up types, a condition used as a Python bool, ..."""


class ScheduleError(TVMError):
    """A schedule step that is not legal. The schedule it was applied to is unchanged."""


class LoweringError(TVMError):
    """A schedule that cannot be turned into loops, or arguments that do not fit it."""


class VerifyError(TVMError):
    """Loop IR that breaks a law: an unbound variable, an access out of bounds, ..."""


class BuildError(TVMError):
    """Loops that a target cannot run, or code its compiler refuses."""


class ArgumentError(TVMError, ValueError):
    """A value handed to a public function or to a compiled kernel does not fit."""


class MeasureError(TVMError):
    """A kernel could not be timed."""
