"""Networks for other tasks: DCGAN's generator, DQN, an LSTM language model, BERT's encoder."""

from __future__ import annotations

from ..node import Graph, Node
from .layers import Layers


def dcgan(*, size: int = 64, features: int = 64, seed: int = 0) -> Graph:
    """Return the generator of DCGAN (Radford et al. 2015): noise [1, 100] -> an image."""
    net = Layers("dcgan", seed)
    levels = size.bit_length() - 4  # doublings from 8 pixels
    channels = features << levels
    x = net.dense(net.b.input("noise", (1, 100)), "project", channels * 16, bias=False)
    x = net.b.relu(net.norm(net.b.reshape(x, (1, channels, 4, 4)), "project.bn"))
    for k in range(levels):
        channels //= 2
        x = net.b.relu(net.norm(_doubled(net, x, f"up{k}", channels), f"up{k}.bn"))
    return net.b.graph(net.b.tanh(_doubled(net, x, "image", 3)))


def _doubled(net: Layers, x: Node, name: str, channels: int) -> Node:
    """Add a transposed convolution that doubles height and width."""
    inputs = x.type.shape[1]
    w = net.normal(f"{name}.weight", (inputs, channels, 4, 4), (inputs * 4) ** -0.5)
    return net.b.conv2d_transpose(x, w, 2, 1, name=name)


def dqn(*, actions: int = 18, seed: int = 0) -> Graph:
    """Return the network of DQN (Mnih et al. 2015): four frames of 84x84 -> a value per action."""
    net = Layers("dqn", seed)
    x = net.b.input("frames", (1, 4, 84, 84))
    for k, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1))):
        x = net.b.relu(net.conv(x, f"conv{k}", channels, kernel, bias=True, strides=stride))
    x = net.b.reshape(x, (1, x.type.elements))
    x = net.b.relu(net.dense(x, "hidden", 512))
    return net.b.graph(net.dense(x, "values", actions))


def lstm(
    *, words: int = 10000, hidden: int = 650, layers: int = 2, steps: int = 1, seed: int = 0
) -> Graph:
    """Return an LSTM language model (Zaremba et al. 2014), written out for `steps` words.

    Inputs: words int32[steps], then the hidden and the cell state of each layer. Outputs: scores
    of the next word after the last one, then the new states.
    """
    net = Layers("lstm", seed)
    ids = net.b.input("words", (steps,), "int32")
    states = [
        (net.b.input(f"h{k}", (1, hidden)), net.b.input(f"c{k}", (1, hidden)))
        for k in range(layers)
    ]
    table = net.normal("embedding.weight", (words, hidden), 0.1)
    shared = [_lstm_weights(net, f"lstm{k}", hidden) for k in range(layers)]
    rows = net.b.take(table, ids, axis=0)
    x = rows
    for t in range(steps):
        x = net.b.strided_slice(rows, (t, 0), (t + 1, hidden))
        for k in range(layers):
            states[k] = _lstm_cell(net, x, states[k], shared[k])
            x = states[k][0]
    return net.b.graph(net.dense(x, "scores", words), *(s for pair in states for s in pair))


def _lstm_weights(net: Layers, name: str, hidden: int) -> tuple[Node, Node]:
    """Add the weights of the four gates i, f, g, o, for the input and the hidden state at once."""
    w = net.normal(f"{name}.weight", (4 * hidden, 2 * hidden), (2 * hidden) ** -0.5)
    return w, net.normal(f"{name}.bias", (4 * hidden,), 0.1)


def _lstm_cell(
    net: Layers, x: Node, state: tuple[Node, Node], weights: tuple[Node, Node]
) -> tuple[Node, Node]:
    """Add a cell: c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c')."""
    b, (h, c) = net.b, state
    n = h.type.shape[1]
    gates = b.dense(b.concatenate(x, h, axis=1), *weights)
    i, f, g, o = (b.strided_slice(gates, (0, k * n), (1, (k + 1) * n)) for k in range(4))
    kept_state = b.multiply(b.sigmoid(f), c)
    cell = b.add(kept_state, b.multiply(b.sigmoid(i), b.tanh(g)))
    return b.multiply(b.sigmoid(o), b.tanh(cell)), cell


def bert(
    *, layers: int = 12, hidden: int = 768, heads: int = 12, length: int = 128, seed: int = 0
) -> Graph:
    """Return the encoder of BERT (Devlin et al. 2018): embedded words [length, hidden] -> same."""
    net = Layers("bert", seed)
    x = net.b.input("embedded", (length, hidden))
    for k in range(layers):
        x = _encoder(net, x, f"layer{k}", heads)
    return net.b.graph(x)


def _encoder(net: Layers, x: Node, name: str, heads: int) -> Node:
    """Add a transformer layer: attention and two dense layers, each normalised after its sum."""
    b, (length, hidden) = net.b, x.type.shape
    size = hidden // heads

    def split(part: str, axes: tuple[int, int, int]) -> Node:
        y = net.dense(x, f"{name}.{part}", hidden)
        return b.transpose(b.reshape(y, (length, heads, size)), axes)

    query, value = split("query", (1, 0, 2)), split("value", (1, 0, 2))
    scores = b.batch_matmul(query, split("key", (1, 2, 0)))
    shares = b.softmax(b.multiply(scores, size**-0.5))
    attended = b.transpose(b.batch_matmul(shares, value), (1, 0, 2))
    y = net.dense(b.reshape(attended, (length, hidden)), f"{name}.output", hidden)
    x = net.layer_norm(b.add(y, x), f"{name}.norm1")
    y = b.gelu(net.dense(x, f"{name}.intermediate", 4 * hidden))
    y = net.dense(y, f"{name}.final", hidden)
    return net.layer_norm(b.add(y, x), f"{name}.norm2")
