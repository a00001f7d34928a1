"""Models that people have: 24 of torchvision and torch, an LSTM and a GRU, and their exports."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
import torchvision
from torch import nn

Shape = tuple[int, ...]
Make = Callable[[], nn.Module]
OPSET = 17  # for the older exporter
torch.backends.mha.set_fastpath_enabled(False)  # its operator is one that exporters do not know


class Part(nn.Module):
    """A module whose result is one part of that of another: y["out"] or y[0]."""

    def __init__(self, module: nn.Module, part: str | int, same: int = 1, **options: Any) -> None:
        super().__init__()
        self.module, self.part, self.same, self.options = module, part, same, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pass x to the module, `same` times."""
        return self.module(*[x] * self.same, **self.options)[self.part]


def _vision(name: str, **options: Any) -> Make:
    return lambda: torchvision.models.get_model(name, weights=None, **options)


def _segmentation() -> nn.Module:
    models = torchvision.models
    options: dict[str, Any] = {"weights": None, "weights_backbone": None}
    return Part(models.get_model("lraspp_mobilenet_v3_large", **options), "out")


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(512, 8, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2)


def _attention() -> nn.Module:
    module = nn.MultiheadAttention(512, 8, batch_first=True)
    return Part(module, 0, same=3, need_weights=False)


IMAGE, WORDS = (1, 3, 224, 224), (1, 128, 512)
MODELS: dict[str, tuple[Make, Shape]] = {  # from small to large
    "lstm": (lambda: Part(nn.LSTM(256, 256, batch_first=True), 0), (1, 64, 256)),
    "gru": (lambda: Part(nn.GRU(256, 256, batch_first=True), 0), (1, 64, 256)),
    "attention": (_attention, WORDS),
    "encoder": (_encoder, WORDS),
    **{
        name: (_vision(name), IMAGE)
        for name in (
            "mobilenet_v3_small", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0",
            "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "regnet_y_400mf", "resnet18",
            "alexnet",
        )
    },
    "googlenet": (_vision("googlenet", init_weights=False, aux_logits=False), IMAGE),
    "lraspp_mobilenet_v3_large": (_segmentation, IMAGE),
    "densenet121": (_vision("densenet121"), IMAGE),
    "resnet50": (_vision("resnet50"), IMAGE),
    "resnext50_32x4d": (_vision("resnext50_32x4d"), IMAGE),
    "convnext_tiny": (_vision("convnext_tiny"), IMAGE),
    "swin_t": (_vision("swin_t"), IMAGE),
    "vit_b_16": (_vision("vit_b_16"), IMAGE),
    "inception_v3": (
        _vision("inception_v3", init_weights=False, aux_logits=False), (1, 3, 299, 299)
    ),
    "r3d_18": (_vision("r3d_18"), (1, 3, 8, 112, 112)),
    "vgg11_bn": (_vision("vgg11_bn"), IMAGE),
    "maxvit_t": (_vision("maxvit_t"), IMAGE),
}  # fmt: skip


def module_of(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a model with random weights and statistics, in evaluation mode, and an input."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    if name == "vit_b_16":
        nn.init.normal_(module.heads.head.weight, std=0.02)  # it is zero
    return module, torch.randn(shape)


def exported(module: nn.Module, x: torch.Tensor, exporter: str) -> bytes:
    """Return a module as an ONNX model, written by torch's exporter "dynamo" or "script"."""
    file = io.BytesIO()
    options = {"dynamo": True} if exporter == "dynamo" else {"opset_version": OPSET}
    torch.onnx.export(module, (x,), file, **{"dynamo": False, "verbose": False, **options})
    return file.getvalue()
