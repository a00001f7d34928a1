"""Kernels run when their first operator would; a network runs in scalar loops."""

EXPECT = {"ex90.4": ("wrong-order", 0), "ex90.5": ("too-few-vectors", 2.4)}

in_our_order = kernels


def kernels(nodes):
    order = [name for name, _, _ in nodes]
    return sorted(in_our_order(nodes), key=lambda k: order.index(k[0]))


def network(nodes, shapes):
    return [loops(*formula(names, nodes, shapes)) for names in in_our_order(nodes)]
