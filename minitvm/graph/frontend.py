"""Import models of Keras, from their JSON and their weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from minitvm.base import GraphError, as_tuple

from .builder import Builder
from .node import Array, Graph, Node

Config: TypeAlias = Mapping[str, Any]
# dimension d of NCHW images is dimension NCHW[d] of Keras's NHWC, and the other way round
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


class KerasModel(Protocol):
    """The methods of a Keras model that from_keras calls."""

    def to_json(self) -> str: ...
    def get_weights(self) -> Sequence[Any]: ...


def from_keras(model: KerasModel, *, batch: int = 1) -> tuple[Graph, dict[str, Array]]:
    """Convert a Keras model; return the network, without values, and the values of its parameters.

    model   a Sequential or functional model with channels last, or any object with its methods
            to_json() and get_weights(). No other method is called
    batch   the first size of the inputs; models do not define it

    Inputs keep their names and their layout, [N, H, W, C]; inside, images are [N, C, H, W]. Raises
    GraphError, with the name of the layer, for layers and options that graphs do not have.
    """
    try:
        whole = json.loads(model.to_json())
        weights = [np.asarray(w) for w in model.get_weights()]
        kind, config = whole["class_name"], whole["config"]
        layers = [_Layer.read(each) for each in config["layers"]]
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        why = f"it is not a Keras model: {type(e).__name__} {e}"
        raise GraphError("from_keras", why, "a model with to_json() and get_weights()") from e
    if kind not in ("Sequential", "Functional", "Model"):
        raise GraphError("from_keras", f"a model of class {kind!r}", "Sequential or Functional")
    reader = _Reader(Builder(str(config.get("name", "keras"))), batch, weights)
    if not layers:
        raise GraphError("from_keras", "the model has no layers")
    if kind == "Sequential":
        outputs = reader.sequence(layers)
    else:
        outputs = reader.network(layers, _names(config.get("output_layers")))
    if reader.weights:
        raise GraphError("from_keras", f"{len(reader.weights)} weights belong to no layer")
    return reader.b.graph(*map(reader.channels_last, outputs)), reader.params


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer: its class, its options, the names of the layers that it reads, how often it is used.

    Sequential models store only the class and the options.
    """

    kind: str
    name: str
    config: Config
    sources: tuple[str, ...]
    uses: int

    @classmethod
    def read(cls, given: Config) -> _Layer:
        config = given["config"]
        name = str(given.get("name") or config["name"])
        uses: list[Any] = given.get("inbound_nodes") or []
        return cls(str(given["class_name"]), name, config, _names(uses), len(uses))

    @property
    def title(self) -> str:
        return f"layer {self.name!r} ({self.kind})"

    def error(self, why: str, fix: str = "") -> GraphError:
        return GraphError(self.title, why, fix)

    def pair(self, option: str) -> tuple[int, int]:
        value = as_tuple(self.config[option])
        high, wide = value * 2 if len(value) == 1 else value
        return int(high), int(wide)


def _names(value: Any) -> tuple[str, ...]:
    """Return the layer names in a reference, such as ["conv", 0, 0], or in a list of references."""
    match value:
        case [str() as name, int(), int(), *_]:
            return (name,)
        case {"keras_history": history}:
            return _names(history)
        case {"config": inner}:
            return _names(inner)
        case {"args": inner}:
            return _names(inner)
        case list():
            return tuple(n for each in cast("list[Any]", value) for n in _names(each))
        case _:
            return ()


@dataclass(slots=True)
class _Reader:
    """Reads the layers of one model; `weights` has the weights that no layer has taken yet."""

    b: Builder
    batch: int
    weights: list[Array]
    params: dict[str, Array] = field(default_factory=dict[str, Array])

    def sequence(self, layers: Sequence[_Layer]) -> list[Node]:
        """Add layers, each of which reads the previous layer; return the output."""
        found: list[Node] = []
        for layer in layers:
            if not found and layer.kind != "InputLayer":
                found = [self.input(layer, "data")]
            found = [self.layer(layer, found)]
        return found

    def network(self, layers: Sequence[_Layer], outputs: Sequence[str]) -> list[Node]:
        """Add layers that name the layers they read; return the outputs."""
        known: dict[str, Node] = {}
        for layer in layers:
            missing = [name for name in layer.sources if name not in known]
            if missing:
                raise layer.error(f"it reads {missing[0]!r}, which is not a layer before it")
            known[layer.name] = self.layer(layer, [known[name] for name in layer.sources])
        missing = [name for name in outputs if name not in known]
        if missing or not outputs:
            raise GraphError("from_keras", f"no layer computes the output {missing or ''}")
        return [known[name] for name in outputs]

    def layer(self, layer: _Layer, inputs: list[Node]) -> Node:
        """Add one layer."""
        if layer.uses > 1:
            raise layer.error("it is used more than once", "a layer for each use")
        if layer.kind == "InputLayer":
            return self.input(layer, layer.name)
        if layer.kind not in LAYERS:
            raise layer.error("graphs do not read this kind", ", ".join(LAYERS))
        if layer.config.get("data_format") not in (None, "channels_last"):
            raise layer.error("its channels are not last", "data_format='channels_last'")
        if not inputs or (len(inputs) > 1 and layer.kind not in JOINING):
            raise layer.error(f"it has {len(inputs)} inputs")
        try:
            return LAYERS[layer.kind](self, layer, inputs)
        except GraphError as e:
            what, why, fix = e.args
            raise e if what == layer.title else layer.error(f"{what}: {why}", fix) from e
        except (KeyError, TypeError, ValueError) as e:
            raise layer.error(f"its options are not those of Keras: {type(e).__name__} {e}") from e

    def input(self, layer: _Layer, name: str) -> Node:
        config = layer.config
        shape = config.get("batch_shape") or config.get("batch_input_shape")
        if not isinstance(shape, list) or not all(type(n) is int for n in shape[1:]):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            raise layer.error(f"the shape of its input is {shape}", "batch_shape=(None, 224, ...)")
        x = self.b.input(name, (self.batch, *shape[1:]), str(config.get("dtype") or "float32"))  # pyright: ignore[reportUnknownArgumentType]
        return self.b.transpose(x, NCHW) if len(x.type.shape) == 4 else x

    def channels_last(self, x: Node) -> Node:
        """Return x with channels last, as in Keras."""
        return self.b.transpose(x, NHWC) if len(x.type.shape) == 4 else x

    def weight(self, layer: _Layer, part: str, rank: int, axes: Sequence[int] = ()) -> Node:
        """Take the next weight of the model as `part` of a layer; permute its axes by `axes`."""
        if not self.weights:
            raise layer.error(f"the model has no weight for its {part}")
        value = self.weights.pop(0)
        if value.ndim != rank:
            raise layer.error(f"its {part} has {value.ndim} dimensions, not {rank}")
        name = f"{layer.name}.{part}"
        self.params[name] = np.ascontiguousarray(value.transpose(axes) if axes else value)
        return self.b.unknown(name, self.params[name].shape, value.dtype.name)

    def biased(self, layer: _Layer, x: Node) -> Node:
        """Add the bias of a layer, if it has one, and then its activation."""
        if layer.config.get("use_bias", True):
            bias = self.weight(layer, "bias", 1)
            images = len(x.type.shape) == 4
            column = (bias.type.shape[0], 1, 1) if images else bias.type.shape
            x = self.b.add(x, self.b.reshape(bias, column) if images else bias)
        return self.activated(layer, x)

    def activated(self, layer: _Layer, x: Node) -> Node:
        name = layer.config.get("activation") or "linear"
        if name not in ACTIVATIONS:
            raise layer.error(f"activation {name!r}", ", ".join(ACTIVATIONS))
        return ACTIVATIONS[name](self.b, x)


# --- layers --------------------------------------------------------------------------------------


def _channels(x: Node, axis: Any = -1) -> int:
    """Return the dimension of x that corresponds to `axis` in Keras."""
    rank = len(x.type.shape)
    (d,) = as_tuple(axis)
    at = int(d) % rank
    return NHWC[at] if rank == 4 else at


def _dense(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (x,) = inputs
    if len(x.type.shape) != 2:
        raise layer.error(f"its input is {x.type}, not a matrix", "Flatten()")
    w = reader.weight(layer, "kernel", 2, (1, 0))
    return reader.biased(layer, reader.b.dense(x, w, name=layer.name))


def _conv(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (x,) = inputs
    depthwise = layer.kind == "DepthwiseConv2D"
    w = reader.weight(layer, "kernel", 4, (2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
    groups = int(layer.config.get("groups", 1))
    if depthwise:
        channels, times, *sizes = w.type.shape
        w, groups = reader.b.reshape(w, (channels * times, 1, *sizes)), channels
    options = {
        "strides": layer.pair("strides"),
        "dilation": layer.pair("dilation_rate"),
        "padding": _padding(layer, x, w.type.shape[2:], layer.pair("dilation_rate")),
        "groups": groups,
    }
    return reader.biased(layer, reader.b.conv2d(x, w, name=layer.name, **options))


def _padding(
    layer: _Layer, x: Node, kernel: Sequence[int], dilation: Sequence[int]
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) for "same" or "valid"; an odd pixel goes to the end."""
    if layer.config["padding"] == "valid":
        return 0, 0, 0, 0
    if layer.config["padding"] != "same":
        raise layer.error(f"padding {layer.config['padding']!r}", "'same', 'valid'")
    sizes = zip(x.type.shape[2:], kernel, layer.pair("strides"), dilation, strict=True)
    high, wide = (max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n) for n, k, s, d in sizes)
    return high // 2, wide // 2, high - high // 2, wide - wide // 2


def _pool(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (x,) = inputs
    window = layer.pair("pool_size")
    padding = _padding(layer, x, window, (1, 1))
    if layer.kind == "MaxPooling2D":
        return reader.b.max_pool2d(x, window, layer.pair("strides"), padding)
    return reader.b.avg_pool2d(x, window, layer.pair("strides"), padding, count_include_pad=False)


def _mean(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    if layer.config.get("keepdims"):
        return reader.b.global_avg_pool2d(inputs[0])
    return reader.b.mean(inputs[0], axis=(2, 3))


def _batch_norm(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (x,) = inputs
    axis, config = _channels(x, layer.config.get("axis", -1)), layer.config
    n = x.type.shape[axis]

    def vector(part: str, option: str, value: float) -> Node:
        if config.get(option, True):
            return reader.weight(layer, part, 1)
        name = f"{layer.name}.{part}"
        reader.params[name] = np.full(n, value, "float32")
        return reader.b.unknown(name, (n,))

    vectors = [vector("gamma", "scale", 1.0), vector("beta", "center", 0.0)]
    vectors += [reader.weight(layer, part, 1) for part in ("moving_mean", "moving_variance")]
    epsilon = float(config.get("epsilon", 1e-3))
    return reader.b.batch_norm(x, *vectors, axis=axis, epsilon=epsilon, name=layer.name)


def _relu(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    most, slope = layer.config.get("max_value"), layer.config.get("negative_slope") or 0.0
    if layer.config.get("threshold") or (slope and most is not None):
        raise layer.error("a threshold, or a slope with a largest value")
    if most is not None:
        return reader.b.clip(inputs[0], 0.0, float(most))
    return reader.b.leaky_relu(inputs[0], float(slope)) if slope else reader.b.relu(inputs[0])


def _flatten(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (x,) = inputs
    batch = x.type.shape[0]
    return reader.b.reshape(reader.channels_last(x), (batch, x.type.elements // batch))


def _concatenate(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    axis = _channels(inputs[0], layer.config.get("axis", -1))
    return reader.b.concatenate(*inputs, axis=axis)


def _zero_padding(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    (top, bottom), (left, right) = layer.config["padding"]
    return reader.b.pad(inputs[0], (0, 0, top, left), (0, 0, bottom, right))


def _softmax_layer(reader: _Reader, layer: _Layer, inputs: list[Node]) -> Node:
    axis = _channels(inputs[0], layer.config.get("axis", -1))
    return reader.b.softmax(inputs[0], axis=axis)


ACTIVATIONS: dict[str, Callable[[Builder, Node], Node]] = {
    "linear": lambda b, x: x,
    "relu": lambda b, x: b.relu(x),
    "relu6": lambda b, x: b.clip(x, 0.0, 6.0),
    "sigmoid": lambda b, x: b.sigmoid(x),
    "silu": lambda b, x: b.silu(x),
    "softmax": lambda b, x: b.softmax(x, axis=_channels(x)),
    "swish": lambda b, x: b.silu(x),
    "tanh": lambda b, x: b.tanh(x),
}
LAYERS: dict[str, Callable[[_Reader, _Layer, list[Node]], Node]] = {
    "Activation": lambda reader, layer, inputs: reader.activated(layer, inputs[0]),
    "Add": lambda reader, layer, inputs: reduce(reader.b.add, inputs),
    "AveragePooling2D": _pool,
    "BatchNormalization": _batch_norm,
    "Concatenate": _concatenate,
    "Conv2D": _conv,
    "Dense": _dense,
    "DepthwiseConv2D": _conv,
    "Dropout": lambda reader, layer, inputs: inputs[0],
    "Flatten": _flatten,
    "GlobalAveragePooling2D": _mean,
    "MaxPooling2D": _pool,
    "ReLU": _relu,
    "Softmax": _softmax_layer,
    "ZeroPadding2D": _zero_padding,
}
JOINING = ("Add", "Concatenate")
