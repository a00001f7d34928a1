"""NestPlayer without a browser: events in, schedules and pictures out."""

import pytest

from minitvm import te, viz
from minitvm.base import ArgumentError
from minitvm.viz.player import reordered

from .programs import blur, matmul, tiled


@pytest.fixture
def player() -> viz.NestPlayer:
    return viz.NestPlayer(*matmul(8))


def loops(player: viz.NestPlayer) -> list[str]:
    """The loops of C, outermost first."""
    return [a.name for a in player.schedule.stages[-1].leaf_iter_vars]


def test_as_text(golden) -> None:
    golden(repr(viz.NestPlayer(*tiled())))


def test_the_picture_shows_a_tick_halfway_and_the_elements_accessed_before() -> None:
    player = viz.NestPlayer(*matmul(4))
    layout = player.layout()
    frame = layout.frames[layout.first]
    kinds = {s.key: s.kind for s in player.picture().shapes if s.key.startswith("cell:")}
    assert len(kinds) == 3 * 4 * 4
    before = {key for f in layout.frames[: layout.first] for key in f.marks}
    for key, kind in kinds.items():
        assert kind == frame.marks.get(key, "seen" if key in before else "cell")
    texts = [s.text for s in player.picture().shapes if isinstance(s, viz.Text)]
    assert texts[-2:] == frame.caption.split("\n")


def test_the_path_of_the_stores_goes_through_all_elements_of_the_output() -> None:
    lines = [s for s in viz.NestPlayer(*matmul(4)).scene().shapes if isinstance(s, viz.Line)]
    assert [len({*line.points}) for line in lines] == [4 * 4]


def test_its_png_is_small(player) -> None:
    assert len(player.png()) < 15_000


@pytest.mark.parametrize(
    ("moved", "to", "between"),
    [("d", "b", "dbc"), ("b", "d", "cdb"), ("a", "b", "ba"), ("c", "b", "cb")],
)
def test_a_dragged_loop_takes_the_place_it_is_dropped_on(moved, to, between) -> None:
    assert "".join(reordered("abcd", moved, to)) == between


def test_dragging_reorders(player) -> None:
    player.event("drag", ["loop:k", "loop:j_outer"])
    assert loops(player) == ["i", "k", "j.outer", "j.inner"]
    assert player.message == "s[C].reorder(k, j_outer, j_inner)"
    assert player.selected == "loop:k"


def test_the_given_schedule_stays_as_it_is() -> None:
    s, args = matmul(8)
    viz.NestPlayer(s, args).event("split", None, "loop:i")
    assert len(s.steps) == 1


def test_the_code_to_keep_makes_the_same_schedule(player) -> None:
    player.event("split", None, "loop:i")
    player.event("drag", ["loop:k", "loop:i_outer"])
    C = player.schedule.outputs[0].output(0)
    names = {"te": te, "C": C}
    exec(player.schedule.python(), names)
    assert names["s"].steps == player.schedule.steps


def test_split_takes_the_factor_typed(player) -> None:
    player.event("factor", " 2 ")
    player.event("split", None, "loop:i")
    assert player.message == "i_outer, i_inner = s[C].split(i, factor=2)"
    assert player.selected == "loop:i_outer"


def test_fuse_takes_the_next_inner_loop(player) -> None:
    player.event("fuse", None, "loop:j_outer")
    assert loops(player) == ["i", "j.outer.j.inner.fused", "k"]


def test_undo_takes_the_last_step_back(player) -> None:
    player.event("parallel", None, "loop:i")
    player.event("undo")
    assert player.message == "taken back: s[C].parallel(i)"
    assert len(player.schedule.steps) == 1


@pytest.mark.parametrize(
    ("event", "value", "selected", "reason"),
    [
        ("vectorize", None, "loop:k", "it is a reduce axis"),
        ("split", None, "", "no loop is selected"),
        ("fuse", None, "loop:k", "this is the innermost loop of C"),
        ("drag", ["loop:k", "loop:gone"], "", "loop 'gone'"),
        ("drag", 3, "", "a drag needs two keys, from and to"),
        ("step", 9, "", "not a number from 0 to 1"),
        ("dance", None, "", "NestPlayer does not offer this event"),
    ],
)
def test_what_cannot_be_done_changes_nothing(player, event, value, selected, reason) -> None:
    before = player.view["svg"], player.schedule.steps
    player.event(event, value, selected)
    assert reason in player.message
    assert player.refused
    assert (player.view["svg"], player.schedule.steps) == before


def test_a_factor_that_is_no_number_is_refused(player) -> None:
    player.event("factor", "four")
    player.event("split", None, "loop:i")
    assert player.message.startswith("split of 'i' by 'four': a factor is a whole number")


def test_arguments_that_do_not_fit_are_refused() -> None:
    s, (A, B, _) = matmul(8)
    with pytest.raises(ArgumentError, match="args: C missing"):
        viz.NestPlayer(s, [A, B])


def test_a_step_after_which_nothing_can_be_lowered_is_refused() -> None:
    s, args = matmul(8)
    player = viz.NestPlayer(s, args, target="numba")
    player._args = args[:2]  # as if the step had made the arguments wrong
    player.event("parallel", None, "loop:i")
    assert "args: C missing" in player.message
    assert len(player.schedule.steps) == 1


def test_loops_of_two_stages_cannot_change_places() -> None:
    player = viz.NestPlayer(*blur())
    player.event("drag", ["loop:i", "loop:i_outer"])
    assert "loops of different stages" in player.message


def test_an_earlier_step_shows_the_loops_it_had(player) -> None:
    player.event("step", 0)
    assert repr(player).splitlines()[:3] == [
        "step 0 of 1: nothing done yet",
        "  i: × 8",
        "    j: × 8",
    ]


def test_an_earlier_step_cannot_be_changed(player) -> None:
    player.event("step", 0)
    player.event("parallel", None, "loop:i")
    assert player.message == (
        "a change at step 0 of 1: later steps follow\n  try: move the slider to step 1"
    )


def test_the_line_of_the_shown_step_is_marked(player) -> None:
    (schedule,) = [p for p in player.view["panels"] if p["title"] == "schedule"]
    assert [line["note"] for line in schedule["lines"]] == ["", "", "", "now"]
    assert schedule["lines"][-1]["text"] == "j_outer, j_inner = s[C].split(j, factor=4)"


def test_a_loop_lights_up_its_lines_and_a_line_its_loop(player) -> None:
    assert player.view["links"]["loop:j_inner"] == ["line:2", "line:3", "line:4", "line:5"]
    assert player.view["links"]["line:3"] == ["loop:j_inner"]


def test_symbolic_sizes_show_loops_without_an_order() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] + 1.0, name="C")
    player = viz.NestPlayer(te.create_schedule(C.op))
    assert player.view["frames"] == []
    assert "the order is not shown" in repr(player)


def test_a_tensor_is_no_schedule() -> None:
    with pytest.raises(ArgumentError, match=r"NestPlayer\(Tensor\): not a schedule"):
        viz.NestPlayer(matmul()[1][0])
