"""Rows of integers: every draw and every change is an option, and the same seed draws the same."""

import math
from dataclasses import replace

import numpy as np
import pytest

from minitvm.base import ArgumentError
from minitvm.tune import Space, choice_knob, first_of_each, number_knob, sizes_knob, split_knob


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_a_split_knob_has_every_factorisation_once():
    knob = split_knob("tile", 12, 2)
    assert knob.options == ((12, 1), (6, 2), (4, 3), (3, 4), (2, 6), (1, 12))
    assert len(split_knob("tile", 512, 4)) == math.comb(9 + 3, 3)
    assert split_knob("tile", 12, 2, innermost=3).options == ((12, 1), (6, 2), (4, 3))
    assert split_knob("tile", 7, 1).options == ((7,),)


def test_a_split_mutates_by_moving_one_prime_factor():
    knob = split_knob("tile", 12, 2)
    near = knob.near[knob.starts[2] : knob.starts[3]]
    assert [knob.options[n] for n in near] == [(2, 6), (12, 1)] or {
        knob.options[n] for n in near
    } == {(2, 6), (12, 1)}


def test_numbers_are_ordered_and_mutate_to_the_next():
    knob = number_knob("unroll", [64, 0, 16, 512])
    assert knob.options == (0, 16, 64, 512)
    assert knob.near[knob.starts[1] : knob.starts[2]].tolist() == [0, 2]


def test_rows_stay_within_the_tables():
    space = Space((split_knob("i", 96, 3), number_knob("u", [0, 16]), choice_knob("c", "abc")))
    rows = space.sample(rng(), 500)
    for made in (rows, space.mutate(rng(), rows), space.cross(rng(), rows, rows[::-1])):
        assert made.dtype == np.int32
        assert ((made >= 0) & (made < [len(g) for g in space.knobs])).all()
        assert (space.values(made, 0).prod(axis=1) == 96).all()


def test_a_mutation_changes_exactly_one_knob():
    space = Space((split_knob("i", 96, 3), number_knob("u", [0, 16]), choice_knob("c", "abc")))
    rows = space.sample(rng(), 500)
    assert ((space.mutate(rng(), rows) != rows).sum(axis=1) == 1).all()


def test_a_space_of_one_candidate_mutates_to_itself():
    space = Space((choice_knob("only", ["x"]),))
    rows = space.sample(rng(), 3)
    assert (space.mutate(rng(), rows) == rows).all()


def test_what_is_not_allowed_is_not_drawn_and_not_made():
    knob = split_knob("i", 64, 2)
    space = Space((knob, number_knob("u", [0, 1])), lambda rows: knob.values[rows[:, 0], 1] >= 16)
    rows = space.sample(rng(), 200)
    made = space.mutate(rng(), space.cross(rng(), rows, rows[::-1]))
    assert len(rows) == 200
    assert space.legal(rows).all()
    assert space.legal(made).all()


def test_a_space_without_allowed_rows_gives_none():
    space = Space((number_knob("u", [0, 1]),), lambda rows: np.zeros(len(rows), bool))
    assert space.sample(rng(), 10).shape == (0, 1)


def test_the_first_knob_counts_fastest():
    space = Space((choice_knob("a", "xyz"), choice_knob("b", "pq")))
    assert [space.row(n) for n in range(4)] == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert all(space.index(space.row(n)) == n for n in range(space.size))
    with pytest.raises(ArgumentError, match="candidate 6: the space has 6 candidates"):
        space.row(6)


def test_equal_rows_have_equal_keys_and_different_rows_different_ones():
    space = Space((split_knob("i", 512, 4), split_knob("j", 512, 4), split_knob("k", 512, 2)))
    rows = space.sample(rng(), 20_000)
    keys = space.keys(rows)
    assert len(np.unique(keys)) == len(np.unique(rows, axis=0))
    fresh = first_of_each(keys, keys[:100])
    assert not np.isin(keys[fresh], keys[:100]).any()
    assert len(np.unique(keys[fresh])) == len(fresh)


def test_sampling_is_uniform():
    knob = split_knob("i", 64, 2)
    counts = np.bincount(Space((knob,)).sample(rng(), 70_000)[:, 0])
    assert len(counts) == 7
    assert (abs(counts - 10_000) < 500).all()  # five standard deviations


def test_a_knob_without_options_is_refused():
    with pytest.raises(ArgumentError, match="knob 'tile': it has 0 options"):
        sizes_knob("tile", [])


def test_neighbours_differ_in_one_knob() -> None:
    knobs = (split_knob("i", 12, 2), number_knob("u", [0, 16, 64]), choice_knob("c", "abc"))
    space = Space(knobs, lambda rows: rows[:, 2] != 1)
    row = (knobs[0].options.index((4, 3)), 0, 0)
    shown = [space.text(near) for near in space.neighbours(row).tolist()]
    assert sorted(shown) == [
        "i 12x1, u 0, c a",
        "i 2x6, u 0, c a",
        "i 4x3, u 0, c c",
        "i 4x3, u 16, c a",
    ]


def shaped() -> Space:
    """A space of 12 shapes, as its first and last knobs decide."""
    options = {"order": 4, "tile": 50, "unroll": 30, "pack": 3}
    knobs = [choice_knob(name, range(count)) for name, count in options.items()]
    return Space(tuple(knobs), shaping=(0, 3))


@pytest.mark.parametrize(("shapes", "count"), [(1, 1), (5, 5), (None, 12)])
def test_a_sample_has_no_more_shapes_than_asked_for(shapes, count):
    space = shaped()
    rows = space.sample(rng(), 200, shapes)
    assert len({(a, b) for a, _, _, b in rows.tolist()}) == space.shapes(rows).max() + 1 <= count
    assert len(np.unique(rows[:, 1])) > 40


def test_a_sample_of_one_row_draws_rows_of_one_shape():
    seen = []

    def allowed(rows):
        seen.append(rows)
        return rows[:, 1] < 20

    space = replace(shaped(), allowed=allowed)
    assert len(space.sample(rng(), 1)) == 1
    assert [space.shapes(rows).max() for rows in seen] == [0]


def test_a_child_has_the_shape_of_a_parent():
    space, random = shaped(), rng()
    a, b = space.sample(random, 100), space.sample(random, 100)
    mutated, crossed = space.mutate(random, a), space.cross(random, a, b)
    np.testing.assert_array_equal(mutated[:, [0, 3]], a[:, [0, 3]])
    of_a, of_b = ((crossed == parent)[:, [0, 3]].all(axis=1) for parent in (a, b))
    assert (of_a | of_b).all()
    assert of_a.any()
    assert of_b.any()


def test_reshaped_rows_differ_in_one_knob_that_decides_their_shape():
    space, random = shaped(), rng()
    rows = space.sample(random, 90, 1)
    new = space.reshape(random, rows, 3)
    assert ((new != rows).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(new[:, 1:3], rows[:, 1:3])
    assert all(len(np.unique(part, axis=0)) == 1 for part in np.split(new[:, [0, 3]], 3))
