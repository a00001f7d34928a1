"""What is handed to the calls of vta is checked: nonsense is an error of ours, or understood."""

# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.base import TVMError
from minitvm.vta import Config, Convolution, Dense, Environment, Tiling, top

LAYER = Convolution(size=(6, 6), channels=(32, 64))
TILING = Tiling(h=3, w=6, oc=2)
SCHEDULE, ARGS = LAYER.scheduled(TILING)
DATA, WEIGHT, OUT = ARGS
FUNCTION = vta.build(SCHEDULE, ARGS)
PROGRAM = FUNCTION.program
ROWS = te.placeholder((4, 16), "int8", "rows")
TOTAL = top.conv2d(DATA, WEIGHT, 1, 1)
BIAS = te.placeholder((4, 1, 16), "int32", "bias")
RESIDUAL = te.placeholder(tuple(TOTAL.shape), "int32", "residual")
ARRAY = np.zeros((4, 16), "int8")
ENV = vta.get_env()
NETWORK = {"fc": Dense(channels=(16, 48))}
FOUND = vta.explore(NETWORK, budget=1)

NONSENSE: tuple[Any, ...] = (
    *(None, 0, 5, -1, 1.5, float("nan"), True, 10**30, 2j, "x", "", [], (None,), {}),
    *(np.zeros(3), object()),
)

CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "Environment": (Environment, [vta.vta_pynq]),
    "depth": (ENV.depth, [ENV.inp_scope]),
    "Tiling": (lambda h, w, t: Tiling(h=h, w=w, oc_threads=t), [3, 6, 2]),
    "Convolution": (
        lambda *a: Convolution(
            **dict(zip(("size", "channels", "kernel", "stride", "pad", "shift"), a, strict=True))
        ),
        [(6, 6), (32, 64), 3, 1, 1, 8],
    ),
    "options": (
        lambda b, r, d: Dense(channels=(16, 16), bias=b, residual=r, residual_dtype=d),
        [True, True, "int8"],
    ),
    "Dense": (lambda c, n: Dense(channels=c, batch=n), [(32, 64), 3]),
    "cost": (vta.cost, [LAYER, TILING, vta.vta_pynq]),
    "program": (vta.program, [LAYER, TILING, vta.vta_pynq]),
    "legal_tilings": (vta.legal_tilings, [LAYER, vta.vta_pynq, 1]),
    "best_tiling": (vta.best_tiling, [Dense(channels=(16, 64)), vta.vta_pynq, 1, 3]),
    "area": (vta.area, [vta.vta_pynq]),
    "evaluate": (vta.evaluate, [NETWORK, vta.vta_pynq, {"fc": 2}, 1]),
    "explore": (
        lambda *a: vta.explore(
            *a[:2],
            budget=a[2],
            **dict(zip(("space", "base", "marked", "most", "seed"), a[3:], strict=True)),
        ),
        [NETWORK, {"fc": 2}, 1, {"block_in": (16,)}, vta.vta_pynq, [vta.vta_pynq], 1, 0],
    ),
    "best": (FOUND.best, [10.0]),
    "verdict": (FOUND.verdict, ["vdla_osdi18"]),
    "dominating": (FOUND.dominating, [FOUND.points[0]]),
    "roofs": (vta.roofs, [LAYER, TILING, vta.vta_pynq]),
    "utilisation": (vta.utilisation, [LAYER, 1000, vta.vta_pynq]),
    "pack": (vta.pack, [ARRAY, 4, 16]),
    "unpack": (vta.unpack, [ARRAY[None, None], 3, 15]),
    "pack_data": (vta.pack_data, [ARRAY, ENV]),
    "pack_weight": (vta.pack_weight, [ARRAY, ENV]),
    "pack_bias": (vta.pack_bias, [np.zeros(16, "int32"), ENV]),
    "packed": (vta.packed, [ROWS, 4, 16]),
    "unpacked": (vta.unpacked, [OUT, 2]),
    "conv2d": (top.conv2d, [DATA, WEIGHT, 1, 1]),
    "dense": (top.dense, [te.placeholder((1, 2, 1, 16), "int8", "d"),
                          te.placeholder((1, 2, 16, 16), "int8", "w")]),
    "requantize": (
        lambda x, b, r, s, n, lo, hi: top.requantize(
            x, b, r, shift=s, residual_shift=n, low=lo, high=hi
        ),
        [TOTAL, BIAS, RESIDUAL, 8, 3, 0, 127],
    ),
    "schedule": (top.schedule, [OUT, TILING]),
    "lower": (vta.lower, [SCHEDULE, ARGS, "main"]),
    "build": (vta.build, [SCHEDULE, ARGS, "vta", None, "main"]),
    "simulate": (vta.simulate, [FUNCTION, vta.vta_pynq, None]),
    "simulate a program": (vta.simulate, [PROGRAM, vta.vta_pynq]),
    "verify": (vta.verify, [FUNCTION, vta.vta_pynq]),
    "run": (FUNCTION.run, [vta.vta_pynq]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_in_place_of_any_argument_is_an_error_of_ours_or_understood(name: str) -> None:
    call, arguments = CALLS[name]
    call(*arguments)
    for n in range(len(arguments)):
        for nonsense in NONSENSE:
            try:
                call(*arguments[:n], nonsense, *arguments[n + 1 :])
            except TVMError:
                pass
            except Exception as error:
                pytest.fail(f"{name}, argument {n} = {nonsense!r}: {error!r}")


OTHER = Config(name="other", block_in=8)


@pytest.mark.parametrize(
    ("do", "says"),
    [
        (lambda: vta.utilisation(LAYER, 0), "cycles=0: not an int of at least 1"),
        (lambda: vta.utilisation(LAYER, -5), "cycles=-5: not an int of at least 1"),
        (lambda: vta.cost(None, TILING), "layer=None: not a Layer"),
        (lambda: vta.roofs(None, TILING), "layer=None: not a Layer"),
        (lambda: vta.packed(ROWS, 0), "packed: block=0: not an int of at least 1"),
        (lambda: vta.unpacked(ROWS, -1), "unpacked: n=-1: not an int of at least 1"),
        (lambda: top.conv2d(DATA, WEIGHT, None), "strides=None: expected one or two ints of"),
        (lambda: top.conv2d(DATA, WEIGHT, 1.5), "strides=1.5: expected one or two ints of"),
        (lambda: top.requantize(None), "requantize: x=None: not a Tensor"),
        (lambda: top.requantize(TOTAL, 3), "bias=3: not a Tensor"),
        (lambda: top.schedule(OUT, None), "schedule: tiling=None: not a Tiling"),
        (lambda: vta.lower(SCHEDULE, ARGS, target="llvm"), "target='llvm': vta.lower and vta"),
        (lambda: vta.build(SCHEDULE, ARGS, "name"), "target='name': vta.lower and vta"),
        (lambda: vta.simulate(FUNCTION, None, [ARRAY]), "inputs=[array("),
        (lambda: vta.pack_bias([float("nan")]), "pack_bias(array of float64, shape (1,)):"),
        (lambda: vta.pack_bias([2**40]), "pack_bias(array of int64, shape (1,)): expected"),
        (lambda: FUNCTION.run(OTHER), "main on other: it is built for vta_pynq: block_in=16, not"),
        (lambda: vta.simulate(FUNCTION, OTHER), "main on other: it is built for vta_pynq: block"),
        (lambda: vta.verify(FUNCTION, OTHER), "main on other: it is built for vta_pynq: block_in"),
        (lambda: vta.cost(LAYER, Tiling(h=4)), "Tiling(h=4, w=1, oc=1, ic=1, oc_threads=1, h_thr"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(do: Callable[[], Any], says: str) -> None:
    with pytest.raises(TVMError) as caught:
        do()
    assert str(caught.value).startswith(says)


def test_counts_of_numpy_are_counts() -> None:
    assert top.conv2d(DATA, WEIGHT, np.int64(2), (np.int32(1), 1)).shape[2:4] == (3, 3)
    assert vta.utilisation(LAYER, np.int64(100)) == vta.utilisation(LAYER, 100)


def test_targets_of_tvm_that_mean_the_accelerator_are_accepted() -> None:
    for target in (None, "vta", "ext_dev", tvm.target.Target("vta")):
        assert vta.build(SCHEDULE, ARGS, target, "llvm", "f").name == "f"


def test_inputs_may_take_effect_in_any_order() -> None:
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.integers(-9, 9, t.shape).astype(str(t.dtype)) for t in (DATA, WEIGHT)}
    outputs = [
        vta.simulate(FUNCTION, inputs=inputs, order=order).outputs["narrow"]
        for order in (None, np.random.default_rng(1))
    ]
    np.testing.assert_array_equal(*outputs)
