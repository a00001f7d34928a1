"""The options of knobs: their number and their order are AutoTVM's."""

from typing import Any

import numpy as np
import pytest

from minitvm import autotvm, te
from minitvm.autotvm import AnnotateEntity, ConfigSpace, SplitEntity
from minitvm.base import ArgumentError


def splits(length: int, **options: Any) -> list[tuple[int, ...]]:
    cfg = ConfigSpace()
    cfg.define_split("t", length, **options)
    return [e.size for e in cfg.space_map["t"].entities if isinstance(e, SplitEntity)]


@pytest.mark.parametrize(
    ("length", "options", "count"),
    [
        (512, {}, 10),
        (512, {"num_outputs": 4}, 220),
        (12, {}, 6),
        (12, {"policy": "power2"}, 4),  # 1 2 4 8: 8 leaves a tail
        (12, {"policy": "power2", "no_tail": True}, 3),
        (12, {"policy": "verbose"}, 7),  # 1 2 3 4 6 8 12
        (12, {"policy": "verbose", "max_factor": 4}, 4),
        (12, {"num_outputs": 1}, 1),
        (224, {"filter": lambda e: e.size[-1] <= 8}, 5),  # 1 2 4 7 8
        (12, {"policy": "candidate", "candidate": [[-1, 5], [3, 4]]}, 2),
    ],
)
def test_a_split_has_this_many_options(length: int, options: dict[str, Any], count: int) -> None:
    assert len(splits(length, **options)) == count


def test_the_innermost_part_of_a_split_changes_slowest() -> None:
    assert splits(4, num_outputs=3) == [
        (-1, 1, 1),
        (-1, 2, 1),
        (-1, 4, 1),
        (-1, 1, 2),
        (-1, 2, 2),
        (-1, 1, 4),
    ]


def orders(policy: str, **options: Any) -> list[tuple[int, ...]]:
    cfg = ConfigSpace()
    axes = [cfg.axis(n) for n in (4, 8, 2)]
    given = {k: f(axes) if callable(f) else f for k, f in options.items()}
    cfg.define_reorder("o", axes, policy, **given)
    return [e.perm for e in cfg.space_map["o"].entities]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("policy", "options", "expected"),
    [
        ("identity", {}, [(0, 1, 2)]),
        ("all", {}, [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]),
        ("interval_all", {"interval": (1, 3)}, [(0, 1, 2), (0, 2, 1)]),
        ("candidate", {"candidate": lambda a: [[a[2], a[0], a[1]]]}, [(2, 0, 1)]),
        (
            "interleave",
            {"spatial": lambda a: [[a[0], a[1]]], "reduce": lambda a: [[a[2]]]},
            [(0, 1, 2)],
        ),
    ],
)
def test_a_reorder_has_these_options(policy: str, options: Any, expected: Any) -> None:
    assert orders(policy, **options) == expected


@pytest.mark.parametrize(
    ("policy", "count"),
    [
        ("none", 1),
        ("unroll", 1),
        ("vec", 0),
        ("try_unroll", 8),
        ("try_vec", 4),
        ("try_unroll_vec", 20),
    ],
)
def test_at_most_one_loop_is_a_vector(policy: str, count: int) -> None:
    cfg = ConfigSpace()
    axes = [cfg.axis(4)] * 3
    if not count:
        with pytest.raises(ArgumentError, match="no option is left"):
            cfg.define_annotate("a", axes, policy)
        return
    cfg.define_annotate("a", axes, policy)
    found = [e.anns for e in cfg.space_map["a"].entities if isinstance(e, AnnotateEntity)]
    assert len(found) == count
    assert all(anns.count("vec") <= 1 for anns in found)


def test_caches_are_placed_at_loops_in_order() -> None:
    cfg = ConfigSpace()
    cfg.define_annotate("at", [cfg.axis(4)] * 3, "locate_cache", num_anchor=2)
    found = [e.anns for e in cfg.space_map["at"].entities if isinstance(e, AnnotateEntity)]
    assert found == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("define", "why"),
    [
        (lambda c: c.define_split("t", 8, policy="halves"), "no policy"),
        (lambda c: c.define_split("t", 8, filter=lambda e: False), "no option is left"),
        (lambda c: c.define_split("t", te.var("n")), "integer"),
        (lambda c: c.define_split("t", 8, policy="candidate"), "candidate"),
        (lambda c: c.define_split("t", c.define_split("s", 8)[0]), "depends on another knob"),
        (lambda c: c.define_knob("k", []), "no option is left"),
        (
            lambda c: c.define_annotate("a", [c.axis(4)] * 4, "bind_gpu"),
            "which a template does itself",
        ),
        (lambda c: c.define_reorder("o", [c.axis(4)], "random"), "no policy"),
        (lambda c: [c.define_knob("k", [1]) for _ in range(2)], "defined twice"),
    ],
)
def test_a_wrong_knob_is_refused_with_the_reason(define: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        define(ConfigSpace())


def test_the_index_counts_the_first_knob_fastest() -> None:
    cfg = ConfigSpace()
    cfg.define_knob("a", [1, 2])
    cfg.define_knob("b", ["x", "y", "z"])
    assert [tuple(e.val for e in cfg.get(i).chosen.values()) for i in range(6)] == [  # type: ignore[union-attr]
        (1, "x"),
        (2, "x"),
        (1, "y"),
        (2, "y"),
        (1, "z"),
        (2, "z"),
    ]
    with pytest.raises(ArgumentError, match="6 candidates"):
        cfg.get(6)


def test_a_configuration_survives_json_in_tvms_form() -> None:
    cfg = ConfigSpace()
    y, x = cfg.axis(8), cfg.axis(4)
    cfg.define_split("tile", y)
    cfg.define_reorder("order", [y, x], "all")
    cfg.define_annotate("ann", [y, x], "try_vec")
    cfg.define_knob("step", [0, 16])
    one = cfg.get(23)
    written = one.to_json_dict()
    assert written["entity"] == [
        ["tile", "sp", [-1, 8]],
        ["order", "re", [1, 0]],
        ["ann", "an", ["vec", "none"]],
        ["step", "ot", 0],
    ]
    assert autotvm.ConfigEntity.from_json_dict(written) == one
    assert cfg.row(one) == (3, 1, 2, 0)
    assert cfg.space.index(cfg.row(one)) == 23


def test_a_configuration_of_another_space_is_refused() -> None:
    one, other = ConfigSpace(), ConfigSpace()
    one.define_split("tile", 8)
    other.define_split("tile", 27)
    with pytest.raises(ArgumentError, match=r"no option \[-1, 27\]"):
        one.row(other.get(3))
    other.define_knob("more", [1, 2])
    with pytest.raises(ArgumentError, match="no knob 'more'"):
        one.row(other.get(3))


def test_a_filter_leaves_holes_in_the_index_space() -> None:
    cfg = ConfigSpace()
    cfg.define_split("y", 8)
    cfg.define_split("x", 8)
    cfg.multi_filter(lambda c: c["y"].size[-1] * c["x"].size[-1] <= 8)
    assert (cfg.range_length, len(cfg)) == (16, 10)
    assert not cfg.is_index_valid(15)


@pytest.fixture
def holes() -> ConfigSpace:
    """Two splits of 8 whose tiles have at most 8 elements: 10 of 16 configurations."""
    cfg = ConfigSpace()
    cfg.define_split("y", 8)
    cfg.define_split("x", 8)
    cfg.multi_filter(lambda c: c["y"].size[-1] * c["x"].size[-1] <= 8)
    return cfg


def test_a_configuration_is_a_point_or_the_options_of_its_knobs(holes: ConfigSpace) -> None:
    assert holes.dims == [4, 4]
    assert holes.point2knob(9) == [1, 2]
    assert [holes.knob2point(holes.point2knob(n)) for n in range(16)] == list(range(16))
    for wrong in ([1], [4, 0], [0, -1]):
        with pytest.raises(ArgumentError, match=r"have \[4, 4\] options"):
            holes.knob2point(wrong)


def test_numbers_are_drawn_once_and_only_if_they_are_allowed(holes: ConfigSpace) -> None:
    allowed = [n for n in range(16) if holes.is_index_valid(n)]
    rng = np.random.default_rng(0)
    assert sorted(holes.sample_ints(100, rng)) == allowed
    assert set(holes.sample_ints(4, rng)) < set(allowed)
    assert {holes.get_rand_index(4, 8, rng=rng) for _ in range(50)} == {4, 5, 6}
    assert holes.get_rand_index(to_exclude=allowed[1:], rng=rng) == 0
    assert holes.get_rand_index(to_exclude=allowed) is None


def test_a_random_walk_changes_one_knob(holes: ConfigSpace) -> None:
    rng, walked = np.random.default_rng(0), set[int]()
    for _ in range(50):
        point = holes.random_walk(9, rng)
        assert holes.is_index_valid(point)
        assert sum(a != b for a, b in zip(holes.point2knob(point), [1, 2], strict=True)) == 1
        walked.add(point)
    assert len(walked) > 1


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((0,), 1),
        ((3,), 4),
        ((6,), 8),  # 7 has 8 x 2 elements
        ((6, 2), 9),
        ((8, -1), 6),
        ((8, -1, 7), None),
        ((6, 1, None, 8), None),
        ((12,), None),
        ((0, -1), None),
    ],
)
def test_the_next_number_skips_what_is_not_allowed(
    holes: ConfigSpace, args: Any, expected: int | None
) -> None:
    assert holes.get_next_index(*args) == expected


def test_a_fallback_split_takes_the_largest_divisors_below_the_limits() -> None:
    for length, expected in ((128, (4, 8, 4)), (49, (7, 7, 1))):
        cfg = autotvm.FallbackConfigEntity()
        cfg.define_split("tile", length, num_outputs=3)
        cfg.fallback_split("tile", [-1, 8, 4])
        assert cfg["tile"].size == expected
