"""What a search may choose in topi's schedules: `choose` gets the options of each stage."""

from typing import Any

import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.topi import Options
from minitvm.topi.tile import tiles_to_search

WIDE = tvm.Target("llvm -num-cores=1 -mattr=+avx512f")


def image(*shape: int, constant: bool = False) -> te.Tensor:
    return te.placeholder(shape, constant=constant)


def options_of(out: te.Tensor, target: tvm.Target = WIDE) -> list[Options]:
    """The options of each stage; all get the plans that are known."""
    found = list[Options]()

    def known(options: Options) -> Any:
        found.append(options)
        return options.known

    assert topi.schedule(out, target, choose=known).steps == topi.schedule(out, target).steps
    return found


FORMULAS = {
    "matmul": lambda: topi.matmul(image(48, 64), image(64, 80)),
    "one row": lambda: topi.matmul(image(1, 64), image(64, 80)),
    "one row, transposed": lambda: topi.dense(image(1, 64), image(80, 64)),
    "constant": lambda: topi.dense(image(64, 512), image(512, 512, constant=True)),
    "symbolic": lambda: topi.dense(te.placeholder((te.var("n"), 64)), image(80, 64)),
    "NHWC": lambda: topi.conv2d(
        image(1, 9, 9, 16), image(3, 3, 16, 24, constant=True), 1, 1, layout="NHWC"
    ),
    "groups": lambda: topi.conv2d(
        image(1, 9, 9, 64), image(3, 3, 32, 64), 1, 1, groups=2, layout="NHWC"
    ),
    "NCHW16c": lambda: topi.conv2d(image(1, 1, 9, 9, 16), image(32, 16, 3, 3), layout="NCHW16c"),
    "part of a block": lambda: topi.conv2d(
        image(1, 1, 9, 9, 128), image(128, 128, 1, 1), layout="NCHW128c"
    ),
    "depthwise": lambda: topi.depthwise_conv2d(
        image(1, 9, 9, 32), image(3, 3, 32, 1), 1, 1, layout="NHWC"
    ),
    "pool": lambda: topi.max_pool2d(image(1, 16, 9, 9), 2, 2),
    "winograd": lambda: topi.conv2d_winograd(image(1, 9, 9, 16), image(3, 3, 16, 32), 1),
    "sum": lambda: topi.sum(image(6, 100), axis=1),
    "softmax": lambda: topi.softmax(image(6, 100)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_known_plan_is_among_the_options(name: str) -> None:
    (options,) = options_of(FORMULAS[name]())
    assert options.fields
    for field, values in options.fields.items():
        assert getattr(options.known, field) in values
        assert list(values) == sorted(set(values))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_field_has_several_values(name: str) -> None:
    (options,) = options_of(FORMULAS[name]())
    assert all(len(values) > 1 for values in options.fields.values())


def test_a_plan_is_the_known_one_with_other_values() -> None:
    (options,) = options_of(FORMULAS["depthwise"]())
    plan = options.plan({"tile": [2, 3, 1, 16]})  # as JSON has it
    assert plan.tile == (2, 3, 1, 16)
    assert plan.unroll == options.known.unroll


def test_each_stage_is_asked_for_by_its_name() -> None:
    hidden = topi.softmax(topi.dense(image(32, 64), image(80, 64)))
    assert [o.stage for o in options_of(hidden)] == ["T_dense", "T_softmax"]
    assert options_of(topi.relu(image(8, 8))) == []


def test_the_tiles_of_a_search_fit_the_registers() -> None:
    for high, wide, vectors, _ in tiles_to_search(WIDE, 56, 56, 128, 16):
        assert high * wide * vectors + vectors + 1 <= WIDE.vector_registers
