"""SketchTree and EvolutionView: derivations and populations as pictures and text."""

import numpy as np
import pytest

from minitvm import auto_scheduler, te, tune, viz
from minitvm.base import ArgumentError
from minitvm.viz.evolution_view import components
from minitvm.viz.scene import walk_shapes
from tests.auto_scheduler.programs import args_of, matmul
from tests.tune.fakes import sketch, task

SMALL = tune.Evolution(population=96, generations=2, fewest=1)


def product(relu: bool = True) -> auto_scheduler.SearchTask:
    dag = auto_scheduler.ComputeDAG(args_of(matmul(relu)))
    return auto_scheduler.SearchTask(compute_dag=dag, target="llvm -num-cores=1")


def evolved(rounds: int = 1) -> tuple[tune.Task, list[tune.Generation], list[tune.Candidate]]:
    """Return the generations of rounds in which wide inner loops score high."""
    found, generations = task(sketch("a"), sketch("b")), list[tune.Generation]()
    plain = tune.knob_columns(found)

    def of(n, rows):
        features = plain.of(n, rows)
        return np.column_stack([features, features[:, ::3].sum(axis=1)]).astype(np.float32)

    columns = tune.Columns(of, (*plain.names, tune.ANALYTIC))
    policy = tune.GuidedPolicy(
        found,
        np.random.default_rng(1),
        columns=columns,
        evolution=SMALL,
        watch=generations.append,
    )
    for _ in range(rounds):
        chosen = policy.propose(4)
    return found, generations, chosen


def view(trials=()) -> viz.EvolutionView:
    found, generations, _ = evolved()
    return viz.EvolutionView(found, generations, trials, columns=tune.knob_columns(found))


# --- the tree ------------------------------------------------------------------------------------


def test_a_tree_as_text(golden) -> None:
    golden(repr(viz.SketchTree(product(relu=False))))


def test_an_arrow_leads_from_each_state_to_those_that_a_rule_made_of_it() -> None:
    tree = viz.SketchTree(product(relu=False))
    shapes = tree.scene().shapes
    boxes = {s.key: s.shapes[0] for s in shapes if isinstance(s, viz.Group)}
    arrows = {(s.points[0], s.points[-1]) for s in shapes if isinstance(s, viz.Line) and s.arrow}
    expected = set()
    for n, node in enumerate(tree.nodes):
        box = boxes[f"node:{n}"]
        assert box.kind == ("pale_green" if node.sketch is not None else "cell" if n else "now")
        if node.parent is not None:
            parent = boxes[f"node:{node.parent}"]
            start = parent.x + parent.width, parent.y + parent.height / 2
            expected.add((start, (box.x, box.y + box.height / 2)))
    assert arrows == expected


def test_the_nodes_of_a_tree_are_the_states_of_the_derivation() -> None:
    made = product()
    tree = viz.SketchTree(made)
    sketches = {n.sketch: n for n in tree.nodes if n.sketch is not None}
    dag = made.compute_dag
    found = auto_scheduler.derived(dag.initial, made.target)
    assert [str(sketches[n].state) for n in sorted(sketches)] == [str(s) for s in found]
    for n, node in enumerate(tree.nodes):
        if node.parent is not None:
            assert n in tree.nodes[node.parent].children
            assert node.state.rules[-1] == node.rule


def test_a_selected_state_shows_what_its_rule_changed() -> None:
    tree = viz.SketchTree(product())
    (panel,) = tree.layout().panels
    assert panel.title == "the computation without steps"
    assert {line.note for line in panel.lines} == {""}
    n = next(n for n, node in enumerate(tree.nodes) if node.rule == "multi-level tiling")
    tree.event("click", f"node:{n}")
    assert not tree.refused
    (panel,) = tree.layout().panels
    assert panel.title == "multi-level tiling at C"
    assert "- for i in range(12):" in [line.text for line in panel.lines]
    assert "+ for i.0 in range(TILE_I0):" in [line.text for line in panel.lines]


def test_a_click_on_nothing_selects_nothing() -> None:
    tree = viz.SketchTree(product())
    before = tree.svg()
    tree.event("click", "node:99")
    assert tree.svg() == before


def test_a_tree_of_visits_has_a_column_for_each_stage_below_the_graph() -> None:
    x, w = (te.placeholder((64, 64), name=name) for name in "xw")
    k = te.reduce_axis((0, 64), name="k")
    left = te.compute((64, 64), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="left")
    right = te.compute((64, 64), lambda i, j: x[i, j] + 1.0, name="right")
    both = te.compute((64, 64), lambda i, j: left[i, j] * right[i, j], name="both")
    dag = auto_scheduler.ComputeDAG([x, w, both])
    made = auto_scheduler.SearchTask(compute_dag=dag, target="llvm -num-cores=1")
    tree = viz.SketchTree(made, visits=True)
    assert [n.rule for n in tree.nodes[:3]] == ["", "skip", "always inline"]
    shapes = tree.scene().shapes
    boxes = {s.key: s.shapes[0].x for s in shapes if isinstance(s, viz.Group)}
    stages = [key for key in boxes if key.startswith("stage:")]
    assert stages == ["stage:both", "stage:right", "stage:left", "stage:x", "stage:w"]
    for stage, node in zip(stages, (0, 1, 2, 3, 3), strict=True):
        assert boxes[stage] == boxes[f"node:{node}"]
    words = [s.text for s in walk_shapes(shapes) if isinstance(s, viz.Text)]
    assert {"unchanged", "inlined", "S (SRSRS)", "SS (RSRS)", "SSRSRS"} <= {*words}
    assert words.count("reads") == 5


# --- the population ------------------------------------------------------------------------------


def test_a_population_as_text(golden) -> None:
    golden(repr(view()))


def test_a_dot_is_as_high_as_the_score_of_its_row() -> None:
    shown = view()
    shapes = [*walk_shapes(shown.scene().shapes)]
    dots = {int(s.key[4:]): s for s in shapes if s.key.startswith("row:")}
    scores = {n: shown.members[n].score for n in dots}
    low, high = min(dots, key=scores.get), max(dots, key=scores.get)
    pixels = (dots[low].y - dots[high].y) / (scores[high] - scores[low])
    assert [dots[low].y - dot.y for dot in dots.values()] == pytest.approx(
        [pixels * (score - scores[low]) for score in scores.values()], abs=0.01
    )
    assert dots[low].kind == "grey"
    assert dots[high].kind == "orange"
    children = {n for n in dots if shown.members[n].born == 2}
    ways = {s.points for s in shapes if isinstance(s, viz.Line) and s.kind == "way" and s.key == ""}
    places = {n: (dot.x, dot.y) for n, dot in dots.items()}
    parents = {n: shown.members[n].parent for n in children}
    assert len(children) == 60
    assert {(places[parents[n]], places[n]) for n in children} <= ways


def test_children_have_the_parents_that_they_came_from() -> None:
    found, generations, _ = evolved()
    shown = viz.EvolutionView(found, generations, columns=tune.knob_columns(found))
    rows = sum(len(population.rows) for population in generations[-1].populations)
    assert len(shown.members) == rows
    offspring = {
        (g.number, offspring.sketch, tuple(parent), where, tuple(child))
        for g in generations
        for offspring in g.offspring
        for parent, child, where in zip(
            offspring.parents.tolist(),
            offspring.children.tolist(),
            offspring.where.tolist(),
            strict=True,
        )
    }
    assert {m.born for m in shown.members} == {0, 1, 2}
    for m in shown.members:
        if m.born == 0:
            assert m.parent is None
            continue
        assert m.parent is not None
        one = shown.members[m.parent]
        assert one.born < m.born
        known = m.born, *one.candidate, *m.candidate
        assert known in offspring


def test_the_slider_chooses_the_generation_and_the_list_the_second_axis() -> None:
    shown = view()
    assert shown.scene().title.startswith("generation 2: ")
    shown.event("generation", 0)
    assert shown.scene().title.startswith("generation 0: the start, ")
    assert ">score<" in shown.svg()
    shown.event("map", "features")
    assert "second component, " in shown.svg()
    shown.event("generation", 3)
    assert shown.refused


def test_a_selected_row_shows_the_knobs_that_its_parent_does_not_have() -> None:
    shown = view()
    n, m = next((n, m) for n, m in enumerate(shown.members) if m.born == 2)
    shown.event("click", f"row:{n}", f"row:{n}")
    assert shown.message.endswith(f"score {m.score:.4g}, generation 2")
    (panel,) = shown.layout().panels
    space = evolved()[0].sketches[m.candidate.sketch].space
    assert m.parent is not None
    parent = shown.members[m.parent]
    changed = [
        text
        for text, before in zip(
            space.text(m.candidate.row).split(", "),
            space.text(parent.candidate.row).split(", "),
            strict=True,
        )
        if text != before
    ]
    marked = [line.text for line in panel.lines if line.note == "added"]
    assert [text.removeprefix("+ ") for text in marked if "sketch" not in text] == changed


def test_measured_candidates_get_a_ring() -> None:
    found, generations, chosen = evolved()
    trials = [tune.Trial(c, tune.Result((1e-3,))) for c in chosen]
    trials[0] = tune.Trial(chosen[0], tune.Result((), "crash"))
    shown = viz.EvolutionView(found, generations, trials, columns=tune.knob_columns(found))
    assert "measured: crash" in shown.svg()
    assert shown.svg().count("GFLOP/s") >= 3


def test_of_several_rounds_the_last_one_is_shown() -> None:
    found, generations, _ = evolved(2)
    columns = tune.knob_columns(found)
    assert len(generations) == 6
    both = viz.EvolutionView(found, generations, columns=columns)
    assert repr(both) == repr(viz.EvolutionView(found, generations[3:], columns=columns))


def test_each_view_has_a_generation_of_its_own() -> None:
    found, generations, _ = evolved()
    columns = tune.knob_columns(found)
    first = viz.EvolutionView(found, generations, columns=columns, generation=1)
    last = viz.EvolutionView(found, generations, columns=columns)
    assert first.scene().title.startswith("generation 1: ")
    assert last.scene().title.startswith("generation 2: ")
    with pytest.raises(ArgumentError, match="generation 3: not a number from 0 to 2"):
        viz.EvolutionView(found, generations, columns=columns, generation=3)


def test_a_population_needs_a_first_generation() -> None:
    found, generations, _ = evolved()
    with pytest.raises(ArgumentError, match="there is no first generation"):
        viz.EvolutionView(found, generations[1:])


def test_components_are_those_of_standardised_columns() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    table = np.column_stack([100 * a, a + 0.01 * b, b, np.ones(400)]).astype(np.float32)
    places, shares = components(table, 2)
    assert abs(np.corrcoef(places[:, 0], a)[0, 1]) > 0.99
    assert shares[0] == pytest.approx(2 / 3, abs=0.05)
    assert sum(shares) == pytest.approx(1, abs=0.01)
    alone, shares = components(np.ones((5, 1), np.float32), 2)
    assert not alone.any()
    assert alone.shape == (5, 2)
