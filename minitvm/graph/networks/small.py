"""Small networks for images: MobileNet-V1 and -V2, SqueezeNet 1.1."""

from __future__ import annotations

from ..node import Graph, Node
from .layers import Layers

# output channels and stride of each depthwise separable convolution
MOBILENET_V1 = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)),
)
# expansion, output channels, blocks, stride of the first block (Sandler et al. 2018, table 2)
MOBILENET_V2 = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
# squeezed and expanded channels of each fire module; None is a pooling (Iandola et al. 2016, v1.1)
SQUEEZENET = (
    *((16, 64), (16, 64), None, (32, 128), (32, 128), None),
    *((48, 192), (48, 192), (64, 256), (64, 256)),
)


def mobilenet_v1(
    *, size: int = 224, classes: int = 1000, seed: int = 0, width: float = 1.0
) -> Graph:
    """Return MobileNet-V1 (Howard et al. 2017) with random weights."""
    net = Layers("mobilenet_v1", seed)
    x = net.b.input("data", (1, 3, size, size))
    x = _normalised(net, x, "conv1", _scaled(32, width), 3, stride=2)
    for k, (channels, stride) in enumerate(MOBILENET_V1):
        x = _normalised(net, x, f"block{k}.depthwise", x.type.shape[1], 3, stride, depthwise=True)
        x = _normalised(net, x, f"block{k}.pointwise", _scaled(channels, width), 1)
    return net.b.graph(net.dense(net.flat_mean(x), "fc", classes))


def mobilenet_v2(
    *, size: int = 224, classes: int = 1000, seed: int = 0, width: float = 1.0
) -> Graph:
    """Return MobileNet-V2 (Sandler et al. 2018) with random weights, as torchvision defines it."""
    net = Layers("mobilenet_v2", seed)
    x = net.b.input("data", (1, 3, size, size))
    x = _normalised(net, x, "features.0", _scaled(32, width), 3, stride=2)
    at = 1
    for expansion, channels, blocks, stride in MOBILENET_V2:
        for k in range(blocks):
            step = 1 if k else stride
            x = _inverted(net, x, f"features.{at}", expansion, _scaled(channels, width), step)
            at += 1
    x = _normalised(net, x, f"features.{at}", _scaled(1280, width), 1)
    return net.b.graph(net.dense(net.flat_mean(x), "classifier.1", classes))


def _inverted(net: Layers, x: Node, name: str, expansion: int, channels: int, stride: int) -> Node:
    """Add an inverted residual block: expand, filter each channel, project without activation."""
    y = x
    if expansion > 1:
        y = _normalised(net, y, f"{name}.expand", expansion * x.type.shape[1], 1)
    y = _normalised(net, y, f"{name}.depthwise", y.type.shape[1], 3, stride, depthwise=True)
    y = net.norm(net.conv(y, f"{name}.project", channels, 1), f"{name}.project.bn")
    return net.b.add(y, x) if y.type == x.type else y


def _normalised(
    net: Layers,
    x: Node,
    name: str,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    depthwise: bool = False,
) -> Node:
    """Add a convolution, a batch normalisation and relu6, which limits to 0 .. 6."""
    groups = channels if depthwise else 1
    y = net.conv(x, name, channels, kernel, groups=groups, strides=stride, padding=kernel // 2)
    return net.b.clip(net.norm(y, f"{name}.bn"), 0.0, 6.0)


def _scaled(channels: int, width: float) -> int:
    """Return a multiple of 8 near channels * width."""
    return max(8, round(channels * width / 8) * 8)


def squeezenet(*, size: int = 224, classes: int = 1000, seed: int = 0) -> Graph:
    """Return SqueezeNet 1.1 (Iandola et al. 2016) with random weights."""
    net = Layers("squeezenet", seed)
    x = net.b.input("data", (1, 3, size, size))
    x = net.b.relu(net.conv(x, "conv1", 64, 3, bias=True, strides=2))
    x = net.b.max_pool2d(x, 3, 2)
    for k, fire in enumerate(SQUEEZENET):
        if fire is None:
            x = net.b.max_pool2d(x, 3, 2)
            continue
        squeezed, expanded = fire
        x = net.b.relu(net.conv(x, f"fire{k}.squeeze", squeezed, 1, bias=True))
        expand1 = net.b.relu(net.conv(x, f"fire{k}.expand1x1", expanded, 1, bias=True))
        three = net.conv(x, f"fire{k}.expand3x3", expanded, 3, bias=True, padding=1)
        x = net.b.concatenate(expand1, net.b.relu(three), axis=1)
    x = net.b.relu(net.conv(x, "classifier.1", classes, 1, bias=True))
    return net.b.graph(net.flat_mean(x))
