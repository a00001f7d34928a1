"""Stages that only move pixels are computed while the image is copied as rows."""

from __future__ import annotations

import pytest

from minitvm import te, topi

from .test_nn import place


def stages(out: te.Tensor) -> list[str]:
    """The stages that store a result."""
    s = topi.schedule(out, "llvm -num-cores=1")
    return [x.name for x in s.stages if not x.is_inlined and isinstance(x.op, te.ComputeOp)]


@pytest.mark.parametrize(
    "out",
    [
        topi.conv1d(place(1, 4, 20), place(8, 4, 3), padding=1),
        topi.conv3d(place(1, 4, 6, 7, 8), place(8, 4, 3, 3, 3), padding=1),
        topi.conv2d(topi.relu(place(1, 4, 7, 8)), place(8, 4, 3, 3), padding=1),
    ],
    ids=["conv1d", "conv3d", "relu before conv2d"],
)
def test_the_image_is_copied_once(out: te.Tensor) -> None:
    found = stages(out)
    assert found[0] == "T_rows"
    assert not {"T_image", "T_slices", "T_relu"} & {*found}


def test_a_1x1_convolution_reads_an_activation_that_is_stored() -> None:
    """It copies no image, and would compute the activation again for each tile of outputs."""
    out = topi.conv2d(topi.sigmoid(place(1, 4, 8, 8)), place(32, 4, 1, 1))
    assert stages(out)[0] == "T_sigmoid"


def test_a_convolution_before_a_softmax_has_its_tile_of_registers() -> None:
    image, weight = place(1, 8, 8, 4), place(3, 3, 4, 16)
    out = topi.softmax(topi.conv2d(image, weight, 1, 1, layout="NHWC"))
    assert any(name.endswith(".local") and "conv2d" in name for name in stages(out))
