"""Arguments that do not fit: which, why, and what to try."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from minitvm.base import ArgumentError, Target, check_flag, check_kind, check_text


def test_what_fits_is_handed_on() -> None:
    target = Target()
    assert check_kind("target", target, Target, fix="Target()") is target
    assert check_kind("n", 5, str, int, fix="5") == 5
    assert check_text("name", "k", 'name="k"') == "k"
    assert check_flag("flat", np.bool_(True)) is True


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (
            lambda: check_kind("target", 5, Target, fix="Target()"),
            "target=5: not a Target\n  try: Target()",
        ),
        (
            lambda: check_kind("error", 5, ArgumentError, fix="one"),
            "error=5: not an ArgumentError\n  try: one",
        ),
        (
            lambda: check_kind("order", 5, Sequence, np.ndarray, fix="[0, 1]"),
            "order=5: neither a Sequence nor an ndarray\n  try: [0, 1]",
        ),
        (
            lambda: check_text("for_range: name", None, 'name="i"'),
            'for_range: name=None: not a string\n  try: name="i"',
        ),
        (
            lambda: check_flag("flat", 2),
            "flat=2: neither true nor false\n  try: True or False",
        ),
    ],
)
def test_a_refusal_says_what_to_try(check: Callable[[], object], says: str) -> None:
    with pytest.raises(ArgumentError) as error:
        check()
    assert str(error.value) == says


def test_a_long_argument_is_quoted_in_short() -> None:
    with pytest.raises(ArgumentError) as error:
        check_kind("target", list(range(10**4)), Target, fix="Target()")
    assert str(error.value).startswith("target=[0, 1, 2, 3, 4, 5, ...]: not a Target")
