"""Seeds for random tests: a few each time, many once a week."""

from typing import Any

import pytest


def seeds(few: int, many: int) -> list[Any]:
    """Return seeds for parametrize: `few`, and up to `many` under the marker exhaustive."""
    rest = [pytest.param(n, marks=pytest.mark.exhaustive) for n in range(few, many)]
    return [*range(few), *rest]
