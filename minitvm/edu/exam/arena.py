"""Questions about the memory of a network: its lower bound and a plan."""

from __future__ import annotations

from minitvm import graph

from ..item import Rng
from .question import Question, pick

TENSORS = 5


def memory_plan(rng: Rng) -> Question:
    """Ask for the bytes of a network without and with sharing, and for a plan by offsets."""
    while True:
        net = _network(rng)
        intermediates = net.calls[:-1]
        sizes = [node.type.bytes for node in intermediates]
        plan, least = graph.offset_plan(net), graph.live_bytes(net)
        if len(intermediates) == TENSORS and len({*sizes, least}) > TENSORS and least < sum(sizes):
            break
    number = {node: f"t{n}" for n, node in enumerate(intermediates, 1)}
    rows = [
        f"{n:4}  {number.get(node, 'out'):8}  {node.type.bytes:5}  "
        + ", ".join(
            number.get(source, "x") for source in node.inputs if not source.name.startswith("w")
        )
        for n, node in enumerate(net.calls, 1)
    ]
    offsets = (f"{number[node]} {plan.offsets[node]}" for node in intermediates)
    last = {source: n for n, node in enumerate(net.calls, 1) for source in node.inputs}
    lives = (f"{number[node]} {n}-{last[node]}" for n, node in enumerate(intermediates, 1))
    return Question(
        "A plan of the memory",
        "The calls of a network, in their order. The input x and the output lie elsewhere, the"
        " other tensors in an arena. A tensor is needed from its call to the last call that reads"
        " it, and two tensors that are needed during the same call must not overlap.",
        "\n".join(["call  computes  bytes  reads", *rows]),
        ("How large is the arena in bytes if no tensors share memory?",
         "What is the lower bound for the arena: the most bytes that are needed during one call?",
         "Plan by offsets: place the tensors one by one, the largest first. Look only at those"
         " that are needed at the same time. Take the smallest gap below or between them that is"
         " large enough, or else the offset after them. What is the offset of each tensor?",
         "How large is this arena in bytes?"),
        (str(graph.naive_bytes(net)), str(least), ", ".join(offsets), str(plan.bytes)),
        f"The calls during which the tensors are needed: {', '.join(lives)}.",
        "notebook 10, section 6",
        6,
    )  # fmt: skip


def _network(rng: Rng) -> graph.Graph:
    """Draw a small network of dense layers, some of which are joined to earlier tensors."""
    b = graph.Builder("net")
    x = b.input("x", (1, 16))
    tensors = [x]
    for n in range(TENSORS):
        earlier = tensors[1:-1]
        if earlier and rng.random() < 0.5:
            tensors.append(b.concatenate(tensors[-1], pick(rng, earlier), axis=1))
            continue
        width = 16 * int(rng.integers(2, 13))
        source = pick(rng, tensors[-2:])
        weight = b.unknown(f"w{n}", (width, source.type.shape[1]))
        tensors.append(b.dense(source, weight))
    sources = {source for node in tensors for source in node.inputs}
    unread = [node for node in tensors if node not in sources]
    if len(unread) == 1:
        unread.append(pick(rng, tensors[1:-1]))
    return b.graph(b.concatenate(*unread, axis=1))
