"""CacheLens: what is counted, what the ways hold, what is said about an access."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from minitvm import accesses, cachesim, te, viz
from minitvm.base import ArgumentError
from minitvm.cachesim import Cache

from .programs import blur, matmul

TINY = Cache(128, 16, 2)
RECORDED = accesses.record(*blur())


def run_of(s, args, cache: Cache) -> viz.CacheRun:
    return viz.cache_run(accesses.record(s, args), cache)


def lens() -> viz.CacheLens:
    """The accesses of a small program, all in one window."""
    return viz.CacheLens(*blur(), TINY)


def said(view: viz.CacheLens) -> list[str]:
    """The second line of every caption."""
    return [f["caption"].split("\n")[1] for f in view.view["frames"]]


def test_the_whole_run_shows_misses_in_the_colours_of_their_kinds() -> None:
    view = viz.CacheLens(*matmul(16), Cache(512, 64, 2))
    run, shapes = view.run, view.scene().shapes
    high = dict.fromkeys(("blue", "orange", "red"), 0.0)
    for s in shapes:
        if s.key.startswith("bin:") and isinstance(s, viz.Rect) and s.kind in high:
            high[s.kind] += s.height
    r = run.replay
    assert all(high.values())
    assert (high["red"] > high["orange"]) == (r.conflict > r.capacity)


def test_as_text(golden) -> None:
    golden(repr(viz.CacheLens(*matmul(16))))


def test_the_picture_shows_the_cache_after_an_access_in_the_middle() -> None:
    view = lens()
    frame = view.layout().frames[36]
    shapes = view.picture().shapes
    lines = {s.key: s for s in shapes if isinstance(s, viz.Group)}
    assert {key for key in frame.marks if key.startswith("t")} == {*lines}
    for key, line in lines.items():
        rect, label = line.shapes
        assert rect.kind == frame.marks[key]
        assert line.tip.split()[1] == label.text.split()[1]
    texts = [s.text for s in shapes if isinstance(s, viz.Text)]
    assert texts[-2:] == frame.caption.split("\n")
    assert [line for line in repr(view).split("\n")[2:] if line] == [
        s.text for s in shapes if isinstance(s, viz.Text) and s.mono and s.text
    ]


def test_an_access_has_a_bar_in_the_colour_of_its_outcome() -> None:
    view = lens()
    colours = dict(zip(cachesim.OUTCOMES, ("green", "blue", "orange", "red"), strict=True))
    outcomes = [cachesim.OUTCOMES[n] for n in view.run.replay.outcome.tolist()]
    shapes = [s for s in view.scene().shapes if isinstance(s, viz.Rect)]
    columns = {s.key: s.x for s in shapes if s.kind == "hidden" and s.key}
    bars = {(s.x, s.kind) for s in shapes if s.kind in colours.values()}
    assert len(columns) == len(outcomes)
    for n, outcome in enumerate(outcomes):
        assert (columns[f"a{n}"], colours[outcome]) in bars


def test_the_whole_run_is_drawn_in_parts_that_can_be_clicked() -> None:
    scene = viz.CacheLens(*matmul(8), TINY).scene()
    assert [key for key in viz.keys_of(scene) if key.startswith("bin:")][-1] == "bin:199"


def test_the_share_of_misses_is_told_by_tensor_and_part() -> None:
    assert "<title>B: 3 of 3 accesses miss</title>" in viz.CacheLens(*matmul(8), TINY).svg()


def test_as_png() -> None:
    image = Image.open(io.BytesIO(lens().png()))
    assert image.size[0] == 1800


def test_every_access_is_a_frame_with_its_place_in_the_loops() -> None:
    frames = lens().view["frames"]
    assert len(frames) == 72
    assert frames[0]["caption"] == (
        "access 1 of 72  i_outer=0, i=0\n"
        "loads A[i_outer*4 + i], element 0: compulsory miss in line A 0"
    )


def test_what_is_driven_out_is_said() -> None:
    assert [text for text in said(lens()) if "drives out" in text] == [
        "stores C[i_outer*4 + i_inner], element 0: compulsory miss in line C 0, drives out A 0",
        "stores C[i_outer*4 + i_inner], element 4: compulsory miss in line C 1, drives out A 1",
    ]


def test_the_line_just_used_is_marked_in_its_way_and_in_its_tensor() -> None:
    first = lens().view["frames"][0]["marks"]
    assert first == {"t0": "blue", "0/0": "blue", "a0": "now", "line:5": "now"}


def test_the_statement_that_runs_is_marked() -> None:
    (panel,) = lens().view["panels"]
    (text,) = [line["text"].strip() for line in panel["lines"] if line["key"] == "line:5"]
    assert text == "B[i] = A[i_outer*4 + i] * 2.0"


def test_lines_are_hidden_until_frames_fill_the_ways() -> None:
    drawn = lens().view["svg"].partition('<g data-key="t0">')[2]
    assert drawn.startswith('<title>line 0 of A</title>\n<rect class="k-hidden"')


def test_totals_add_up_to_the_replay() -> None:
    run = run_of(*matmul(16), Cache(1024, 64, 2))
    totals = viz.totals(run)
    assert list(totals) == ["A", "B", "C"]
    rows = totals.values()
    assert sum(r.hits for r in rows) == run.replay.hits
    assert sum(r.misses for r in rows) == run.replay.misses
    assert sum(r.evictions for r in rows) == run.replay.evictions == 1594


@given(
    st.lists(st.integers(0, 23), min_size=1, max_size=80),
    st.sampled_from([(1, 4), (2, 2), (4, 1), (2, 3)]),
    st.sampled_from(["lru", "fifo"]),
    st.data(),
)
def test_ways_hold_what_the_replay_hits(lines, shape, policy, data) -> None:
    sets, ways = shape
    run = run_over(lines, Cache(sets * ways * 64, 64, ways, policy))
    start = data.draw(st.integers(0, len(lines) - 1))
    found = viz.cached_lines(run, start, len(lines))
    for n in range(start, len(lines)):
        there = [t for t in found if t.first <= n < t.last]
        assert len({(t.set, t.way) for t in there}) == len(there)
        assert all(t.way < ways and t.set == t.line % sets for t in there)
        (mine,) = [t for t in there if t.line == run.lines[n]]
        if n > start:
            assert (mine.first == n) == (run.replay.outcome[n] != cachesim.HIT)


def run_over(lines: list[int], cache: Cache) -> viz.CacheRun:
    """A run that loads the first element of each of these lines."""
    index = np.array(lines, np.int64) * 16
    nothing = np.zeros(len(lines), np.int32)
    fields = {"site": nothing, "buffer": nothing, "index": index, "address": 4096 + index * 4}
    write = nothing.astype(bool)
    return viz.cache_run(replace(RECORDED, **fields, write=write, loops=()), cache)


def test_a_large_run_is_counted_as_a_whole_and_shown_in_windows() -> None:
    view = viz.CacheLens(*matmul(16), Cache(1024, 64, 2))
    assert len(view.view["frames"]) == 200
    assert view.run.replay.accesses == 16640
    view.event("window", 83)
    assert len(view.view["frames"]) == 40
    assert view.view["frames"][-1]["caption"].startswith("access 16640 of 16640")


def test_a_click_on_the_whole_run_moves_the_window() -> None:
    view = viz.CacheLens(*matmul(16), Cache(1024, 64, 2))
    view.event("click", "bin:100")
    assert view.view["frames"][0]["caption"].startswith("access 8201 of 16640")


def test_another_cache_keeps_the_window() -> None:
    view = viz.CacheLens(*matmul(16))
    view.event("window", 3)
    view.event("bytes", "4 KiB")
    assert view.cache == Cache(4096, 64, 2)
    assert view.message == str(cachesim.simulate(view.cache, view.run.trace))
    assert view.view["frames"][0]["caption"].startswith("access 601 of")


def test_full_associativity_and_fifo_are_choices() -> None:
    view = viz.CacheLens(*matmul(16))
    view.event("ways", "all")
    view.event("policy", "fifo")
    assert view.cache == Cache(1024, 64, None, "fifo")


def test_a_cache_that_cannot_be_is_refused_and_changes_nothing() -> None:
    view = viz.CacheLens(*blur(), Cache(256, 64, 2))
    view.event("ways", "16")
    assert view.refused
    assert "256 is not a multiple of ways * line = 1024" in view.message
    assert view.cache == Cache(256, 64, 2)


def test_a_line_and_its_ways_light_up_together() -> None:
    links = lens().view["links"]
    assert links["t0"] == ["0/0"]
    assert "t0" in links["0/0"]


def test_of_many_sets_those_of_the_window_are_drawn() -> None:
    view = viz.CacheLens(*matmul(32), Cache.l1())
    assert "16 of 64 sets, used in this window" in view.svg()


def test_one_large_set_is_drawn_in_rows() -> None:
    view = viz.CacheLens(*matmul(32), Cache(32768, 64, None))
    assert "128 of 512 ways" in view.svg()


def test_what_is_sent_to_the_browser_stays_small() -> None:
    view = viz.CacheLens(*matmul(32), Cache.l1())
    assert len(json.dumps(view.view)) < 1_000_000


def test_long_names_get_letters() -> None:
    A = te.placeholder((8,), name="weights")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="shifted")
    view = viz.CacheLens(te.create_schedule(B.op))
    assert "a = weights: 1 line" in view.svg()
    assert view.ascii().split("\n")[3].startswith("a weigh…")


def test_a_recorded_run_can_be_given() -> None:
    trace = accesses.record(*blur())
    assert repr(viz.CacheLens(trace, cache=TINY)) == repr(lens())


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: viz.CacheLens(3), "neither a schedule nor a program nor a recorded run"),
        (lambda: viz.CacheLens(*blur(), 1024), "cache=1024: not a Cache"),
        (lambda: viz.CacheLens(*blur(), Cache(64, 2, 1)), "smaller than an element of 4 bytes"),
        (lambda: viz.CacheLens(*blur(), Cache(16384, 8192, 1)), "larger than a page of 4096 bytes"),
    ],
)
def test_nonsense_is_refused(make, why) -> None:
    with pytest.raises(ArgumentError, match=why):
        make()


@pytest.mark.parametrize("value", [-1, 84, "x", True, None])
def test_a_window_that_is_not_there_is_refused(value) -> None:
    view = viz.CacheLens(*matmul(16))
    view.event("window", value)
    assert view.message.startswith(f"window {value!r}: not a number from 0 to 83")
