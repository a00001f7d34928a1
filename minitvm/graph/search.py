"""Search for a cheaper network by substitutions, some of which first increase the cost.

searched = graph.search(net, cost=graph.A100)
print(searched)                                each substitution, and the cost after it
module = graph.compile(searched.best)

The search is MetaFlow's ("Optimizing DNN Computation with Relaxed Graph Substitutions", Jia et al.
2019): a queue holds networks by cost. The cheapest is taken, and each substitution in it gives
another network, which joins the queue if it costs less than alpha times the best so far. A large
network is cut into parts that are searched one after the other.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import GraphError, check_count

from . import passes
from .costs import A100, Cost
from .evaluate import evaluate
from .node import INPUT, PARAM, Graph, Node, check_graph, substituted
from .pipeline import PASSES, optimized
from .substitutions import RULES, Match, Rule, View

FIRST = ("simplify", "fold_constants", "fold_batch_norm", "merge_same")  # passes that always pay
TOLERANCE = 1e-4  # relative to the largest number of an output
Progress: TypeAlias = Callable[[int, float, float], None]  # networks so far, cost, least cost


@dataclass(frozen=True, slots=True)
class Step:
    """A substitution on the way to the best network.

    rule, where   the name of the rule, and of the first node that it replaced
    cost          the cost of the whole network after it
    """

    rule: str
    where: str
    cost: float


@dataclass(frozen=True, slots=True)
class Searched:
    """The outcome of a search; print shows the path to the best network.

    start, best   the network before the first substitution, and the cheapest one
    costs         their costs
    steps         the substitutions that lead from one to the other
    parts         how many parts were searched
    tried         how many networks had their cost computed
    """

    start: Graph
    best: Graph
    costs: tuple[float, float]
    steps: tuple[Step, ...]
    parts: int
    tried: int
    alpha: float

    @property
    def worse(self) -> tuple[Step, ...]:
        """The steps that increased the cost of the network."""
        costs = [self.costs[0], *(step.cost for step in self.steps)]
        return tuple(step for step, old in zip(self.steps, costs, strict=False) if step.cost > old)

    def __str__(self) -> str:
        (before, after), worse = self.costs, self.worse
        lines = [f"{'start':24} {before:12.6g}"]
        for step in self.steps:
            sign = "worse" if step in worse else ""
            lines.append(f"{step.rule:24} {step.cost:12.6g}  {sign:5}  {step.where}".rstrip())
        lines.append(
            f"{self.start.name}: {before:.6g} -> {after:.6g} ({after / before:.3f}) with alpha "
            f"{self.alpha:g}, parts: {self.parts}, networks: {self.tried}"
        )
        return "\n".join(lines)

    __repr__ = __str__


def search(
    net: Graph,
    cost: Cost = A100,
    *,
    alpha: float = 1.05,
    rules: Sequence[Rule] = RULES,
    budget: int = 1000,
    part: int = 24,
    check: bool = False,
    progress: Progress | None = None,
) -> Searched:
    """Return the cheapest network that substitutions make of a network, and the path to it.

    cost       cost(network) -> a number, such as graph.A100 or a graph.MeasuredCost; in the
               network, what depends on parameters alone is a parameter
    alpha      networks that cost up to this factor of the best one are taken further; 1 allows only
               steps that save something
    rules      the substitutions, by default graph.RULES
    budget     the most networks of each part whose cost is computed
    part       a part with more operators than this is cut where one tensor connects both sides, and
               as few substitutions as possible need nodes of both
    check      evaluate the network after each step of the path on random inputs, and raise
               GraphError if its outputs differ
    progress   is called with (networks so far, cost, least cost of the part) for each network

    The result depends on the arguments alone. Batch normalisation is folded before the search.
    """
    check_graph(net, "search")
    _check(cost, alpha, rules, budget, part)
    first = tuple(each for each in PASSES if each[0] in FIRST)
    start = optimized(net, passes=first)
    pieces = list(_parts(start, rules, part))
    total = before = cost(_folded(start))
    steps, tried, params = list[Step](), 1, start.params
    for number, old in enumerate(pieces):
        piece = replace(old, params=params)  # so that new parameters of two parts differ in name
        state, count = _searched(piece, cost, alpha, rules, budget, progress)
        tried += count
        path = list[Step]()
        for each in state.path:
            pieces[number] = each.graph
            path.append(Step(each.rule, each.where, cost(_folded(_whole(start, pieces)))))
        if path and path[-1].cost < total:
            if check:
                _check_path(piece, state.path)
            steps, total, params = [*steps, *path], path[-1].cost, state.graph.params
        else:  # what the part saved alone is not saved in the network
            pieces[number] = piece
    best = passes.fold_constants(_whole(start, pieces))
    return Searched(start, best, (before, total), tuple(steps), len(pieces), tried, alpha)


def _check(cost: Any, alpha: Any, rules: Any, budget: Any, part: Any) -> None:
    if not callable(cost):
        raise GraphError("search: cost", f"{cost!r:.60} is not a function", "cost=graph.A100")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 1 <= alpha < math.inf:
        raise GraphError(f"search: alpha {alpha!r:.60}", "not a number from 1 on", "alpha=1.05")
    if not isinstance(rules, list | tuple) or not all(isinstance(r, Rule) for r in rules):  # pyright: ignore[reportUnknownVariableType]
        raise GraphError("search: rules", "not a sequence of rules", "rules=graph.RULES")
    check_count("search: budget", budget)
    check_count("search: part", part)


# --- one part ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """A network of the search, the substitution that made it, and the network before that."""

    graph: Graph
    cost: float
    rule: str = ""
    where: str = ""
    before: _State | None = None

    @property
    def path(self) -> list[_State]:
        """The networks from the first substitution to this one."""
        return [] if self.before is None else [*self.before.path, self]


def _searched(
    graph: Graph,
    cost: Cost,
    alpha: float,
    rules: Sequence[Rule],
    budget: int,
    progress: Progress | None,
) -> tuple[_State, int]:
    """Return the cheapest network of a part, and how many networks had their cost computed."""
    folded = _folded(graph)
    best = _State(graph, cost(folded))
    queue, seen, count = [(best.cost, 0, best)], {_key(folded)}, 1
    while queue and count < budget:
        least, _, state = heapq.heappop(queue)
        if least > alpha * best.cost:
            break
        for rule, match in _matches(state.graph, rules):
            new = match.applied(state.graph)
            folded = _folded(new)  # networks that differ in how weights are computed are the same
            if (key := _key(folded)) in seen or count >= budget:
                continue
            seen.add(key)
            after = _State(new, cost(folded), rule.name, match.where, state)
            count += 1
            best = after if after.cost < best.cost else best
            if after.cost < alpha * best.cost or after is best:
                heapq.heappush(queue, (after.cost, count, after))
            if progress is not None:
                progress(count, after.cost, best.cost)
    return best, count


def _matches(graph: Graph, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Match]]:
    view = View(graph)
    return ((rule, match) for rule in rules for match in rule.matches(view))


def _key(graph: Graph) -> tuple[Any, ...]:
    """Return a key that is the same for equal networks, whatever their parameters are called."""
    number = {node: k for k, node in enumerate(graph.nodes)}
    return (
        *((n.op, n.type, *map(number.get, n.inputs), *sorted(n.attrs.items())) for n in number),
        *(number[node] for node in graph.outputs),
    )


def _folded(graph: Graph) -> Graph:
    """Return a network in which what depends on parameters alone is a parameter without a value."""
    constants = [n for n in View(graph).constants if not n.is_leaf]
    new = {n: Node(PARAM, (), n.type, name=f"{n.op}.{k}") for k, n in enumerate(constants)}
    return replace(graph, outputs=substituted(graph.outputs, new), params={})


def _check_path(graph: Graph, path: Sequence[_State]) -> None:
    """Raise GraphError unless all networks of a path compute the same from random inputs."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(n.type.shape).astype(n.type.dtype.numpy) for n in graph.inputs]
    expected = evaluate(graph, *inputs, dtype="float64")
    for state in path:
        for x, y in zip(expected, evaluate(state.graph, *inputs, dtype="float64"), strict=True):
            if np.abs(x - y).max() > TOLERANCE * np.abs(x).max():
                why = f"the outputs of {graph.name} change"
                raise GraphError(f"rule {state.rule!r} at {state.where}", why, "another rule")


# --- parts ---------------------------------------------------------------------------------------


def _parts(graph: Graph, rules: Sequence[Rule], most: int) -> Iterator[Graph]:
    """Yield parts of a network in order; the input of each is the output of the one before it."""
    view = View(graph)
    calls = [n for n in graph.nodes if n not in view.constants]
    place = {node: k for k, node in enumerate(calls)}
    last = [max((place[r] for r in view.readers[n]), default=0) for n in calls]
    last = [len(calls) if n in graph.outputs else k for n, k in zip(calls, last, strict=True)]
    earlier = [0, *accumulate(last, max)]
    cuts = [k for k in range(1, len(calls) - 1) if earlier[k] <= k and not calls[k].is_leaf]
    spans = list[tuple[int, int]]()
    for _, match in _matches(graph, rules):
        places = [place[n] for n in match.nodes]
        spans.append((min(places), max(places)))

    def ends(first: int, stop: int) -> list[int]:
        """Return the places of the last nodes of the parts of calls[first:stop]."""
        inside = [k for k in cuts if first < k < stop - 1]
        if stop - first <= most or not inside:
            return [stop - 1]
        crossing = {k: sum(a <= k < b for a, b in spans) for k in inside}
        k = min(inside, key=lambda k: (crossing[k], abs(2 * k - first - stop)))
        return [*ends(first, k + 1), *ends(k + 1, stop)]

    before: Node | None = None
    for end in ends(0, len(calls)):
        is_last = end == len(calls) - 1
        outputs = graph.outputs if is_last else (calls[end],)
        if before is None:
            yield replace(graph, outputs=outputs)
        else:
            leaf = Node(INPUT, (), before.type, name="part")
            yield replace(graph, inputs=(leaf,), outputs=substituted(outputs, {before: leaf}))
        before = calls[end]


def _whole(graph: Graph, pieces: Sequence[Graph]) -> Graph:
    """Return the network that computes one part after the other."""
    first, *rest = pieces
    outputs, params = first.outputs, {**graph.params, **first.params}
    for piece in rest:
        outputs = substituted(piece.outputs, {piece.inputs[0]: outputs[0]})
        params |= piece.params
    return replace(graph, outputs=outputs, params=params)
