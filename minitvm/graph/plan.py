"""Plan memory: choose the offset of each intermediate tensor of a fused network in one arena.

Tensors that are not in use at the same time may overlap. Inputs, parameters and outputs of the
network are not in the arena.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .node import KERNEL, Graph, Node
from .operators import OPERATORS, Fusion

ALIGNED = 64  # bytes: a line of a cache, and the widest vector
RANGE = 16  # a block of a pool is at most this factor larger or smaller than the tensor taking it
VIEWS = ("identity", "reshape")  # operators that keep all elements in order


@dataclass(frozen=True, slots=True)
class Plan:
    """The offsets in bytes of all intermediate tensors, and the size of their arena."""

    offsets: Mapping[Node, int]
    bytes: int


@dataclass(frozen=True, slots=True)
class Life:
    """The numbers of the first and last call that use a tensor, and the size of the tensor."""

    first: int
    last: int
    bytes: int

    def meets(self, other: Life) -> bool:
        """Return whether both tensors are in use during some call."""
        return self.first <= other.last and other.first <= self.last


def naive_bytes(graph: Graph) -> int:
    """Return the bytes of all intermediate tensors together, if each has its own memory."""
    return own_plan(graph).bytes


def live_bytes(graph: Graph, in_place: bool = False) -> int:
    """Return the most bytes in use during a call; every plan needs at least as many."""
    in_use = [0] * (len(graph.calls) + 1)
    for life in _lives(graph, hosts(graph, in_place)).values():
        for n in range(life.first, life.last + 1):
            in_use[n] += life.bytes
    return max(in_use)


def own_plan(graph: Graph) -> Plan:
    """Return the plan without reuse: the tensors lie one after the other, without overlaps."""
    offsets, end = dict[Node, int](), 0
    for node in _intermediate(graph):
        offsets[node] = end
        end += rounded(node.type.bytes)
    return Plan(offsets, end)


def pool_plan(graph: Graph, in_place: bool = False) -> Plan:
    """Return the plan of TVM's GraphPlanMemory: take blocks from a pool and put them back.

    A tensor takes the smallest free block that is large enough. Without such a block, it takes the
    largest smaller block, and the block grows. Both are limited by the factor RANGE. A block that
    is put back after a call can be taken for the next call, because no result may overlap an input.
    in_place   whether results of elementwise kernels may overwrite inputs: see `hosts`
    """
    block_of, sizes = blocks(graph, in_place)
    starts = [sum(sizes[:block]) for block in range(len(sizes))]
    return Plan({node: starts[block] for node, block in block_of.items()}, sum(sizes))


def blocks(graph: Graph, in_place: bool = False) -> tuple[dict[Node, int], list[int]]:
    """Return the number of each intermediate tensor's block in pool_plan, and the blocks' bytes."""
    host = hosts(graph, in_place)
    lives = _lives(graph, host)
    ends: dict[int, list[Node]] = {}
    for node, life in lives.items():
        ends.setdefault(life.last, []).append(node)
    sizes, block_of, free = list[int](), dict[Node, int](), list[int]()
    for n, node in enumerate(graph.calls):
        if host.get(node) is node:
            block_of[node] = _take(lives[node].bytes, free, sizes)
        free += [block_of[dead] for dead in ends.get(n, ())]
    return {node: block_of[owner] for node, owner in host.items()}, sizes


def offset_plan(graph: Graph, in_place: bool = False) -> Plan:
    """Return a plan that gives each tensor its own offset, the largest tensors first.

    A tensor goes into the smallest gap between the tensors in use at the same time, or after them.
    in_place: as in pool_plan.
    """
    host = hosts(graph, in_place)
    lives = _lives(graph, host)
    offsets: dict[Node, int] = {}
    for node, life in sorted(lives.items(), key=lambda item: (-item[1].bytes, item[1].first)):
        in_use = [(offsets[n], lives[n].bytes) for n in offsets if lives[n].meets(life)]
        offsets[node] = _best_gap(sorted(in_use), life.bytes)
    end = max((offsets[node] + life.bytes for node, life in lives.items()), default=0)
    return Plan({node: offsets[owner] for node, owner in host.items()}, end)


# --- tensors that share memory -------------------------------------------------------------------


def hosts(graph: Graph, in_place: bool = False) -> dict[Node, Node]:
    """Return for each intermediate tensor whose memory it uses: its own, or an earlier tensor's.

    The result of a view (only a reshape) uses its input's memory. With `in_place`, the result of an
    elementwise kernel overwrites an input of the same type that nothing reads afterwards.
    """
    host: dict[Node, Node] = {}
    intermediates, last = set(_intermediate(graph)), _last_reads(graph)
    last_use: dict[Node, int] = {}  # host -> the last call that reads a tensor in its memory
    for n, node in enumerate(graph.calls):
        if node not in intermediates:
            continue
        owner = node
        if is_view(node) and node.inputs[0] in intermediates:
            owner = host[node.inputs[0]]
        elif in_place:
            memories = [host.get(source) for source in node.inputs]
            for source, memory in zip(node.inputs, memories, strict=True):
                free = memory is not None and last_use[memory] == n and memories.count(memory) == 1
                if memory is not None and free and _may_overwrite(node, source):
                    owner = memory
                    break
        host[node] = owner
        last_use[owner] = max(last_use.get(owner, 0), last[node])
    return host


def is_view(node: Node) -> bool:
    """Return whether a kernel only gives its input another shape, so that it need not be called.

    All plans put its result into the memory of its input if both tensors are in the plan.
    """
    return node.op == KERNEL and all(call.op in VIEWS for call in node.body.calls)


def _may_overwrite(node: Node, source: Node) -> bool:
    """Return whether a kernel reads each element of `source` before it writes to the same place.

    This is so if all operators that depend on `source` are elementwise and have its shape: they
    neither move its elements nor broadcast them.
    """
    if node.op != KERNEL or source.type != node.type:
        return False
    leaf = node.body.inputs[node.inputs.index(source)]
    depend = {leaf}
    for call in node.body.calls:
        if not depend.isdisjoint(call.inputs):
            if OPERATORS[call.op].fusion > Fusion.BROADCAST or call.type.shape != leaf.type.shape:
                return False
            depend.add(call)
    return True


# --- lives ---------------------------------------------------------------------------------------


def _intermediate(graph: Graph) -> list[Node]:
    """Return the results that are not outputs of the network."""
    outputs = set(graph.outputs)
    return [node for node in graph.calls if node not in outputs]


def _last_reads(graph: Graph) -> dict[Node, int]:
    """Return the number of the last call that reads each tensor."""
    return {source: n for n, node in enumerate(graph.calls) for source in node.inputs}


def _lives(graph: Graph, host: Mapping[Node, Node]) -> dict[Node, Life]:
    """Return the life of each tensor that has its own memory, with all tensors in that memory."""
    number, last = {node: n for n, node in enumerate(graph.calls)}, _last_reads(graph)
    lives: dict[Node, Life] = {}
    for node, owner in host.items():
        end = max(last[node], lives[owner].last if owner in lives else 0)
        lives[owner] = Life(number[owner], end, rounded(owner.type.bytes))
    return lives


def rounded(size: int) -> int:
    """Return the bytes that a tensor takes in an arena."""
    return -(-size // ALIGNED) * ALIGNED


def _take(size: int, free: list[int], sizes: list[int]) -> int:
    """Take a block of `size` bytes from the pool `free`; add a block to `sizes` if none fits."""
    larger = [b for b in free if size <= sizes[b] <= size * RANGE]
    smaller = [b for b in free if sizes[b] < size <= sizes[b] * RANGE]
    if not larger and not smaller:
        sizes.append(size)
        return len(sizes) - 1
    block = min(larger, key=sizes.__getitem__) if larger else max(smaller, key=sizes.__getitem__)
    sizes[block] = max(sizes[block], size)
    free.remove(block)
    return block


def _best_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap for `size` bytes between the blocks `taken`.

    Blocks are (start, size). Returns the end of the last block if no gap is large enough.
    """
    end, best = 0, (float("inf"), 0)
    for start, length in taken:
        if start - end >= size:
            best = min(best, (start - end, end))
        end = max(end, start + length)
    return best[1] if best[0] < float("inf") else end
