"""ResNet-18 and -50 (He et al. 2015), and the 3D-ResNet-18 for videos (Tran et al. 2018)."""

from __future__ import annotations

from ..node import Graph, Node
from .layers import Layers

STAGES = (64, 128, 256, 512)  # channels
GAIN = 0.5  # of the last normalisation of a block: sums of many blocks stay small


def resnet18(
    *, size: int = 224, classes: int = 1000, batch: int = 1, seed: int = 0, width: float = 1.0
) -> Graph:
    """Return ResNet-18 with random weights, as torchvision defines it.

    size: height and width of the images [batch, 3, size, size]; width: multiplies all channels.
    """
    return _resnet("resnet18", (2, 2, 2, 2), (batch, 3, size, size), classes, seed, width, False)


def resnet50(
    *, size: int = 224, classes: int = 1000, batch: int = 1, seed: int = 0, width: float = 1.0
) -> Graph:
    """Return ResNet-50 with random weights; the strides are in the 3x3 convolutions."""
    return _resnet("resnet50", (3, 4, 6, 3), (batch, 3, size, size), classes, seed, width, True)


def resnet3d18(
    *, frames: int = 16, size: int = 112, classes: int = 400, seed: int = 0, width: float = 1.0
) -> Graph:
    """Return the 3D-ResNet-18 (torchvision's r3d_18) for videos [1, 3, frames, size, size]."""
    shape = (1, 3, frames, size, size)
    return _resnet("resnet3d18", (2, 2, 2, 2), shape, classes, seed, width, False)


def _resnet(
    name: str,
    blocks: tuple[int, ...],
    shape: tuple[int, ...],
    classes: int,
    seed: int,
    width: float,
    bottleneck: bool,
) -> Graph:
    net = Layers(name, seed)
    channels = [max(8, round(n * width)) for n in STAGES]
    x = net.b.input("data", shape)
    if len(shape) == 4:
        x = net.conv(x, "conv1", channels[0], 7, strides=2, padding=3)
        x = net.b.relu(net.norm(x, "bn1"))
        x = net.b.max_pool2d(x, 3, 2, 1)
    else:
        x = net.conv(x, "stem", channels[0], 3, strides=(1, 2, 2), padding=1)
        x = net.b.relu(net.norm(x, "stem.bn"))
    block = _bottleneck if bottleneck else basic
    for stage, count in enumerate(blocks):
        for k in range(count):
            stride = 2 if stage and not k else 1
            x = block(net, x, f"layer{stage + 1}.{k}", channels[stage], stride)
    return net.b.graph(net.dense(net.flat_mean(x), "fc", classes))


def basic(net: Layers, x: Node, name: str, channels: int, stride: int) -> Node:
    """Add two 3x3 convolutions and the shortcut around them."""
    y = net.conv(x, f"{name}.conv1", channels, 3, strides=stride, padding=1)
    y = net.b.relu(net.norm(y, f"{name}.bn1"))
    y = net.norm(net.conv(y, f"{name}.conv2", channels, 3, padding=1), f"{name}.bn2", GAIN)
    return net.b.relu(net.b.add(y, _shortcut(net, x, name, channels, stride)))


def _bottleneck(net: Layers, x: Node, name: str, channels: int, stride: int) -> Node:
    """Add 1x1, 3x3 and 1x1 convolutions, of four times the channels, and the shortcut."""
    y = net.b.relu(net.norm(net.conv(x, f"{name}.conv1", channels, 1), f"{name}.bn1"))
    y = net.conv(y, f"{name}.conv2", channels, 3, strides=stride, padding=1)
    y = net.b.relu(net.norm(y, f"{name}.bn2"))
    y = net.norm(net.conv(y, f"{name}.conv3", 4 * channels, 1), f"{name}.bn3", GAIN)
    return net.b.relu(net.b.add(y, _shortcut(net, x, name, 4 * channels, stride)))


def _shortcut(net: Layers, x: Node, name: str, channels: int, stride: int) -> Node:
    if stride == 1 and x.type.shape[1] == channels:
        return x
    y = net.conv(x, f"{name}.downsample.0", channels, 1, strides=stride)
    return net.norm(y, f"{name}.downsample.1")
