"""Import models of Keras, from their JSON and their weights, by the conversions of ONNX."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from minitvm.base import GraphError, as_tuple

from .builder import Builder
from .node import Array, Graph, Node
from .onnx import Budget, Call, Place, Scope, Value, elements, linear, shape_of, shapes, windows
from .operators import call

Config: TypeAlias = Mapping[str, Any]
# dimension d of NCHW images is dimension NHWC[d] of Keras's NHWC, and the other way round
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
PADDING = {"same": "SAME_UPPER", "valid": "VALID"}  # Keras's name -> ONNX's


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
        scope = Scope(Builder(str(config.get("name", "keras"))), Budget(sys.maxsize))
        layers = [_layer(layer, scope, weights) for layer in config["layers"]]
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        why = f"it is not a Keras model: {type(e).__name__} {e}"
        raise GraphError("from_keras", why, "a model with to_json() and get_weights()") from e
    if kind not in ("Sequential", "Functional", "Model"):
        raise GraphError("from_keras", f"a model of class {kind!r}", "Sequential or Functional")
    if not layers:
        raise GraphError("from_keras", "the model has no layers")
    if kind == "Sequential":
        outputs = _sequence(layers, batch)
    else:
        outputs = _network(layers, batch, _names(config.get("output_layers")))
    if weights:
        raise GraphError("from_keras", f"{len(weights)} weights belong to no layer")
    graph = scope.b.graph(*map(_channels_last, outputs))
    return replace(graph, params={}), dict(graph.params)


def _sequence(layers: Sequence[_Layer], batch: int) -> list[Value]:
    """Add layers, each of which reads the previous layer; return the output."""
    values: list[Value] = []
    for layer in layers:
        if not values and layer.kind != "InputLayer":
            values = [layer.input("data", batch)]
        values = [layer.add(values, batch)]
    return values


def _network(layers: Sequence[_Layer], batch: int, outputs: Sequence[str]) -> list[Value]:
    """Add layers that name the layers they read; return the outputs."""
    values: dict[str, Value] = {}
    for layer in layers:
        missing = [name for name in layer.sources if name not in values]
        if missing:
            raise layer.error(f"it reads {missing[0]!r}, which is not a layer before it")
        values[layer.name] = layer.add([values[name] for name in layer.sources], batch)
    missing = [name for name in outputs if name not in values]
    if missing or not outputs:
        raise GraphError("from_keras", f"no layer computes the output {missing or ''}")
    return [values[name] for name in outputs]


def _names(value: Any) -> tuple[str, ...]:
    """Return the layer names in a reference, such as ["conv", 0, 0], or in a list of references."""
    match value:
        case [str() as name, int(), int(), *_]:
            return (name,)
        case {"keras_history": inner} | {"config": inner} | {"args": inner}:
            return _names(inner)
        case list():
            return tuple(n for part in cast("list[Any]", value) for n in _names(part))
        case _:
            return ()


def _layer(stored: Config, scope: Scope, weights: list[Array]) -> _Layer:
    """Read a layer; Sequential models store only the class and the options."""
    config = stored["config"]
    name = str(stored.get("name") or config["name"])
    uses: list[Any] = stored.get("inbound_nodes") or []
    kind = str(stored["class_name"])
    return _Layer(kind, name, config, _names(uses), len(uses), scope, weights)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of a model.

    kind      its class in Keras; `config` has its options
    sources   the names of the layers that it reads
    uses      how often the model uses it
    weights   the weights of the model that no layer has taken yet
    """

    kind: str
    name: str
    config: Config
    sources: tuple[str, ...]
    uses: int
    scope: Scope
    weights: list[Array]

    def __str__(self) -> str:
        return f"layer {self.name!r} ({self.kind})"

    def error(self, why: str, fix: str = "") -> GraphError:
        return GraphError(str(self), why, fix)

    def add(self, inputs: Sequence[Value], batch: int) -> Value:
        """Add the layer to the network."""
        if self.uses > 1:
            raise self.error("it is used more than once", "a layer for each use")
        if self.kind == "InputLayer":
            return self.input(self.name, batch)
        if self.kind not in LAYERS:
            raise self.error("graphs do not read this kind", ", ".join(LAYERS))
        if self.config.get("data_format") not in (None, "channels_last"):
            raise self.error("its channels are not last", "data_format='channels_last'")
        if not inputs or (len(inputs) > 1 and self.kind not in JOINING):
            raise self.error(f"it has {len(inputs)} inputs")
        try:
            return LAYERS[self.kind](self, *inputs)
        except GraphError as e:
            what, why, fix = e.args
            raise e if what == str(self) else self.error(f"{what}: {why}", fix) from e
        except (KeyError, TypeError, ValueError) as e:
            raise self.error(f"its options are not those of Keras: {type(e).__name__} {e}") from e

    def input(self, name: str, batch: int) -> Value:
        shape: Any = self.config.get("batch_shape") or self.config.get("batch_input_shape")
        if not isinstance(shape, list) or not all(type(n) is int for n in shape[1:]):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            raise self.error(f"the shape of its input is {shape}", "batch_shape=(None, 224, ...)")
        dtype = str(self.config.get("dtype") or "float32")
        x = self.scope.b.input(name, (batch, *shape[1:]), dtype)  # pyright: ignore[reportUnknownArgumentType]
        self.scope.taken.add(name)
        return self.scope.b.transpose(x, NCHW) if len(x.type.shape) == 4 else x

    def at(self, **attrs: Any) -> Place:
        """Return the place of the layer in the network, with these attributes, named as in ONNX."""
        return Place(Call(self.kind, self.name, (), (), attrs, ()), self.scope)

    def make(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        """Apply an operator of graphs."""
        return self.at().make(op, *inputs, **attrs)

    def weight(self, part: str, rank: int, axes: Sequence[int] = ()) -> Array:
        """Take the next weight of the model as `part` of the layer; permute its axes by `axes`."""
        if not self.weights:
            raise self.error(f"the model has no weight for its {part}")
        value = self.weights.pop(0)
        if value.ndim != rank:
            raise self.error(f"its {part} has {value.ndim} dimensions, not {rank}")
        return self.named(part, value.transpose(axes) if axes else value)

    def named(self, part: str, value: Array) -> Array:
        """Return a constant that becomes the parameter `part` of the layer."""
        array = np.ascontiguousarray(value)
        self.scope.named(array, f"{self.name}.{part}")
        return array

    def bias(self) -> Array | None:
        return self.weight("bias", 1) if self.config.get("use_bias", True) else None

    def axis(self, x: Value) -> int:
        """Return the dimension of x that corresponds to the option `axis`."""
        return _dimension(x, self.config.get("axis", -1))

    def pair(self, option: str) -> tuple[int, int]:
        value = as_tuple(self.config[option])
        height, width = value * 2 if len(value) == 1 else value
        return int(height), int(width)

    def window(self, **attrs: Any) -> Place:
        """Return the place of a layer that has the options of a window."""
        padding = self.config["padding"]
        if padding not in PADDING:
            raise self.error(f"padding {padding!r}", ", ".join(map(repr, PADDING)))
        return self.at(strides=self.pair("strides"), auto_pad=PADDING[padding], **attrs)


def _channels_last(x: Value) -> Node:
    """Return x with channels last, as in Keras."""
    assert isinstance(x, Node)  # it depends on an input
    return call("transpose", x, axes=NHWC) if len(x.type.shape) == 4 else x


def _dimension(x: Value, axis: Any) -> int:
    """Return the dimension of x that corresponds to `axis` in Keras."""
    rank = len(shape_of(x))
    (d,) = as_tuple(axis)
    return NHWC[int(d) % rank] if rank == 4 else int(d) % rank


# --- layers --------------------------------------------------------------------------------------


def _activation(layer: _Layer, x: Value) -> Value:
    """Apply the activation that the options of a layer name."""
    name = layer.config.get("activation") or "linear"
    match name:
        case "linear":
            return x
        case "relu" | "sigmoid" | "silu" | "tanh":
            return layer.make(name, x)
        case "relu6":
            return layer.make("clip", x, a_min=0.0, a_max=6.0)
        case "softmax":
            return layer.make("softmax", x, axis=_dimension(x, -1))
        case "swish":
            return layer.make("silu", x)
        case _:
            raise layer.error(f"activation {name!r}", ACTIVATIONS)


def _add(layer: _Layer, *inputs: Value) -> Value:
    return elements.many(layer.at(), "add", *inputs)


def _batch_norm(layer: _Layer, x: Value) -> Value:
    axis, config = layer.axis(x), layer.config

    def vector(part: str, option: str, value: float) -> Array:
        if config.get(option, True):
            return layer.weight(part, 1)
        return layer.named(part, np.full(shape_of(x)[axis], value, np.float32))

    vectors = [vector("gamma", "scale", 1.0), vector("beta", "center", 0.0)]
    vectors += [layer.weight(part, 1) for part in ("moving_mean", "moving_variance")]
    epsilon = float(config.get("epsilon", 1e-3))
    return layer.make("batch_norm", x, *vectors, axis=axis, epsilon=epsilon)


def _concatenate(layer: _Layer, *inputs: Value) -> Value:
    return shapes.concat(layer.at(axis=layer.axis(inputs[0])), *inputs)


def _conv(layer: _Layer, x: Value) -> Value:
    groups = int(layer.config.get("groups", 1))
    if layer.kind == "DepthwiseConv2D":
        w = layer.weight("kernel", 4, (2, 3, 0, 1))
        groups, times, *sizes = w.shape
        w = layer.named("kernel", w.reshape(groups * times, 1, *sizes))
    else:
        w = layer.weight("kernel", 4, (3, 2, 0, 1))
    at = layer.window(dilations=layer.pair("dilation_rate"), group=groups)
    return _activation(layer, windows.conv(at, x, w, layer.bias()))


def _dense(layer: _Layer, x: Value) -> Value:
    if len(shape_of(x)) != 2:
        raise layer.error(f"its input has shape {shape_of(x)}: it is not a matrix", "Flatten()")
    w = layer.weight("kernel", 2, (1, 0))
    return _activation(layer, linear.gemm(layer.at(transB=1), x, w, layer.bias()))


def _dropout(layer: _Layer, x: Value) -> Value:
    return shapes.identity(layer.at(), x)


def _flatten(layer: _Layer, x: Value) -> Value:
    return shapes.flatten(layer.at(), _channels_last(x))


def _mean(layer: _Layer, x: Value) -> Value:
    return layer.make("mean", x, axis=(2, 3), keepdims=bool(layer.config.get("keepdims")))


def _pool(layer: _Layer, x: Value) -> Value:
    op = "max_pool2d" if layer.kind == "MaxPooling2D" else "avg_pool2d"
    return windows.pool(layer.window(kernel_shape=layer.pair("pool_size")), x, op)


def _relu(layer: _Layer, x: Value) -> Value:
    largest, slope = layer.config.get("max_value"), layer.config.get("negative_slope") or 0.0
    if layer.config.get("threshold") or (slope and largest is not None):
        raise layer.error("a threshold, or a slope with a largest value")
    if largest is not None:
        return layer.make("clip", x, a_min=0.0, a_max=float(largest))
    return layer.make("leaky_relu", x, alpha=float(slope)) if slope else layer.make("relu", x)


def _softmax(layer: _Layer, x: Value) -> Value:
    return layer.make("softmax", x, axis=layer.axis(x))


def _zero_padding(layer: _Layer, x: Value) -> Value:
    (top, bottom), (left, right) = layer.config["padding"]
    return layer.make("pad", x, pad_before=(0, 0, top, left), pad_after=(0, 0, bottom, right))


ACTIVATIONS = "linear, relu, relu6, sigmoid, silu, softmax, swish, tanh"
LAYERS: dict[str, Callable[..., Value]] = {  # functions of a layer and its inputs
    "Activation": _activation,
    "Add": _add,
    "AveragePooling2D": _pool,
    "BatchNormalization": _batch_norm,
    "Concatenate": _concatenate,
    "Conv2D": _conv,
    "Dense": _dense,
    "DepthwiseConv2D": _conv,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "GlobalAveragePooling2D": _mean,
    "MaxPooling2D": _pool,
    "ReLU": _relu,
    "Softmax": _softmax,
    "ZeroPadding2D": _zero_padding,
}
JOINING = ("Add", "Concatenate")
