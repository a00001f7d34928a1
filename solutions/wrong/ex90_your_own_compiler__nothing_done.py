"""Nothing is changed: zeros, no vectors, no fusion, no tokens, no programs."""

from minitvm import tir

EXPECT = {
    "ex90.2": ("wrong-value", 0),
    "ex90.3": ("too-few-vectors", 1.2),
    "ex90.4": ("wrong-value", 0),
    "ex90.1": ("race", 0),
    "ex90.5": ("wrong-value", 0),
}


def loops(*tensors):
    buffers = [tir.Buffer(t.name, t.shape, t.dtype) for t in tensors]
    out = buffers[-1]
    i, j = (tir.Var(name, 0, n - 1) for name, n in zip("ij", out.shape, strict=True))
    body = tir.Store(out, (i, j), tir.const(0.0, out.dtype))
    body = tir.For(i, out.shape[0], tir.For(j, out.shape[1], body))
    return tir.PrimFunc("main", tuple(buffers), body, (out,))


def vectorize(func, lanes):
    return func


def kernels(nodes):
    return [[name] for name, op, _ in nodes if op != "input"]


def tokens(steps):
    return [text for _, text, _, _ in steps]


def network(nodes, shapes):
    return []
