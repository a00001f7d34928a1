"""AutoTVM's template for the packed convolutions of the accelerator: conv2d_packed.vta.

    task = autotvm.packed.task(vta.RESNET18["C9"])
    outcome = autotvm.tuner.XGBTuner(task).tune(n_trial=64)
    autotvm.packed.tiling(task.config(outcome.best.candidate))     a vta.Tiling

The knobs are those of VTA's template: the sizes of a tile, and the virtual threads along the output
channels and the rows. Each thread has its own part of the memories, which double-buffers them.
VTA's knob tile_b is left out because a layer has one image.

Source: top/vta_conv2d.py of VTA; its tutorial convolution_opt for the tiling chosen by hand.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from minitvm import accel, vta
from minitvm.base import ArgumentError, ScheduleError, Target, check_kind, divisors

from .dispatch import get_config
from .entities import OtherOptionEntity
from .fallback import FallbackConfigEntity
from .space import Config
from .task import Task, create
from .templates import TEMPLATES, Instance, template

NAME = "conv2d_packed.vta"
MAX_STEPS = 512  # more take long to simulate, and are slower than HAND on all of ResNet-18
THREADS = (1, 2)  # along one axis, as in VTA; along both, they make four threads
HAND = vta.Tiling(h=7, w=14, oc=8, ic=1, oc_threads=2)  # of convolution_opt, which is for C9
TILES = {"tile_h": "h", "tile_w": "w", "tile_ci": "ic", "tile_co": "oc"}  # knob -> field
VIRTUAL = {"oc_nthread": "oc_threads", "h_nthread": "h_threads"}


@template(NAME)
def conv2d_packed(
    size: tuple[int, int],
    channels: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int,
    bias: bool,
    residual: str,
    shift: int,
) -> Instance:
    """Convolve one packed image, then shift and clip the sums to int8; see vta.Convolution.

    residual   the dtype of the residual, or "" if none is added
    """
    layer = vta.Convolution(
        size=(size[0], size[1]),
        channels=(channels[0], channels[1]),
        kernel=kernel,
        stride=stride,
        pad=pad,
        bias=bias,
        residual=bool(residual),
        residual_dtype=residual or "int32",
        shift=shift,
    )
    return layer.scheduled(_tiling(layer, get_config()))


def _tiling(layer: vta.Convolution, cfg: Config) -> vta.Tiling:
    """Define the knobs of a layer; return the tiling of the current configuration."""
    machine = vta.get_env().config
    (h, w), (ic, oc) = layer.grid(machine), layer.blocks(machine)
    for name, extent in zip(TILES, (h, w, ic, oc), strict=True):
        cfg.define_split(name, extent, num_outputs=2)
    for name in VIRTUAL:
        cfg.define_knob(name, THREADS)
    cfg.multi_filter(lambda chosen: _allowed(layer, tiling(chosen), vta.get_env().config))
    if isinstance(cfg, FallbackConfigEntity):
        at = by_hand(layer)
        for name, field in TILES.items():
            cfg.fallback_split(name, [-1, getattr(at, field)])
        for name, field in VIRTUAL.items():
            cfg[name] = OtherOptionEntity(getattr(at, field))
    return tiling(cfg)


def tiling(cfg: Config) -> vta.Tiling:
    """Return the tiling that a configuration of the template chooses."""
    tiles = {field: cfg[name].size[-1] for name, field in TILES.items()}
    return vta.Tiling(**tiles, **{field: cfg[name].val for name, field in VIRTUAL.items()})


@lru_cache(maxsize=1 << 16)
def _allowed(layer: vta.Convolution, at: vta.Tiling, machine: accel.Config) -> bool:
    """Return whether a tiling may be measured: its threads are whole, and their tiles fit.

    A program with more than MAX_STEPS steps may not: its tiles are so small that most of the time
    is spent on starting transfers and instructions. A step loads some input channels of a tile.
    The result is cached, because annealing asks for the same configurations again and again.
    """
    (h, w), (ic, oc) = layer.grid(machine), layer.blocks(machine)
    rows, blocks = h // at.h, oc // at.oc
    whole = rows % at.h_threads == 0 and blocks % at.oc_threads == 0
    steps = rows * (w // at.w) * blocks * (ic // at.ic)
    return whole and steps <= MAX_STEPS and vta.fits(layer, at, machine)


def by_hand(layer: vta.Convolution) -> vta.Tiling:
    """Return the tiling of VTA's tutorial for a layer: the reference of its task.

    The tutorial chooses tiles of 7 x 14 pixels and 8 blocks of output channels for each of two
    threads, and one block of input channels. Where these do not divide the layer or do not fit,
    this takes the largest smaller sizes: first fewer channels, then fewer rows and columns.
    """
    machine = vta.get_env().config
    (h, w), oc = layer.grid(machine), layer.blocks(machine)[1]
    threads = 1 if oc % 2 else HAND.oc_threads
    smaller = [
        [d for d in reversed(divisors(n)) if d <= most]
        for n, most in ((w, HAND.w), (h, HAND.h), (oc // threads, HAND.oc))
    ]
    for tw, th, to in product(*smaller):
        at = vta.Tiling(h=th, w=tw, oc=to, oc_threads=threads)
        if _allowed(layer, at, machine):
            return at
    what = f"{layer} on {machine.name}"
    raise ScheduleError(what, "no tiling fits", "a Config with larger memories")


def task(layer: vta.Convolution, target: str | Target = "vta") -> Task:
    """Return the task of tuning a convolution for the current accelerator."""
    check_kind("task: layer", layer, vta.Convolution, fix='vta.RESNET18["C9"]')
    if Target(target).kind != "vta":
        why = "packed convolutions are for the accelerator"
        raise ArgumentError(f"{NAME} for target {target}", why, "target vta")
    TEMPLATES[NAME] = conv2d_packed
    residual = layer.residual_dtype if layer.residual else ""
    sizes = (layer.size, layer.channels, layer.kernel, layer.stride, layer.pad)
    return create(NAME, (*sizes, layer.bias, residual, layer.shift), target)
