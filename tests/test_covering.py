"""covering: any two values meet, in fewer combinations than the product has."""

from itertools import combinations

from .covering import covering


def test_any_two_values_of_two_axes_meet() -> None:
    axes = "abcd", "ABC", "xy", "01"
    chosen = covering(*axes)
    for (n, one), (m, other) in combinations(enumerate(axes), 2):
        assert {(c[n], c[m]) for c in chosen} == {(a, b) for a in one for b in other}
    assert 12 <= len(chosen) <= 16 < 4 * 3 * 2 * 2


def test_two_axes_have_no_shorter_covering_than_their_product() -> None:
    assert sorted(covering("ab", "xyz")) == sorted((a, x) for a in "ab" for x in "xyz")
