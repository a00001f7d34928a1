"""Convolutions as VTA's convolution_opt schedules them: padded transfers, virtual threads."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import vta
from minitvm.accel import execute

from .programs import Layer, conv, packed, unpacked

Tile = tuple[int, int, int, int]

CASES = [
    (Layer((6, 6), (32, 64)), (3, 6, 1, 1), 1, 1),
    (Layer((6, 6), (32, 64)), (3, 6, 1, 1), 2, 1),
    (Layer((6, 6), (32, 48)), (2, 6, 1, 1), 3, 1),
    (Layer((6, 6), (32, 64)), (3, 6, 1, 1), 1, 2),
    (Layer((7, 7), (32, 64), stride=2), (2, 4, 2, 1), 2, 1),
    (Layer((5, 6), (32, 32), kernel=1, pad=0), (5, 3, 1, 2), 2, 1),
    (Layer((8, 8), (16, 32), stride=2), (1, 4, 1, 1), 1, 2),
]
NAMES = ["one thread", "2 of oc", "3 of oc", "2 of h", "stride 2", "1x1", "stride 2, 2 of h"]


@pytest.mark.parametrize(("layer", "tile", "oc_threads", "h_threads"), CASES, ids=NAMES)
def test_a_convolution_is_that_of_numpy_in_every_legal_order(
    layer: Layer, tile: Tile, oc_threads: int, h_threads: int
) -> None:
    f = vta.build(*conv(layer, tile, oc_threads, h_threads))
    expected = layer.expected(*layer.numbers())
    a, w, c = packed(layer)
    f(a, w, c)
    np.testing.assert_array_equal(unpacked(c), expected)
    inputs = {"A": a, "W": w}
    for seed in range(4):
        outputs = execute(f.program, f.config, inputs, np.random.default_rng(seed))
        np.testing.assert_array_equal(unpacked(outputs["C"]), expected)


@pytest.mark.parametrize(("layer", "tile", "oc_threads", "h_threads"), CASES, ids=NAMES)
def test_no_unit_waits_for_ever_nor_overtakes_another(
    layer: Layer, tile: Tile, oc_threads: int, h_threads: int
) -> None:
    assert vta.verify(vta.build(*conv(layer, tile, oc_threads, h_threads))).ok


def test_with_one_thread_no_two_units_work_at_a_time() -> None:
    run = vta.build(*conv(Layer((6, 6), (32, 64)), (3, 6, 1, 1))).run()
    assert run.cycles >= sum(run.busy.values())


def test_two_threads_hide_loads_behind_products() -> None:
    layer, tile = Layer((14, 14), (64, 64)), (14, 14, 1, 1)
    one, two = (vta.build(*conv(layer, tile, threads)).run() for threads in (1, 2))
    assert two.counters.gemm_counter == one.counters.gemm_counter
    assert two.counters.wgt_load_nbytes == one.counters.wgt_load_nbytes
    assert two.cycles < one.cycles


def test_tokens_of_threads_inside_other_threads_and_loops_are_as_many() -> None:
    """The inner threads share what the loop around them takes once: it takes one for each."""
    layer = Layer((6, 6), (32, 64))
    s, args = conv(layer, (3, 6, 1, 2), oc_threads=2, h_threads=2)
    f = vta.build(s, args)
    a, w, c = packed(layer)
    f(a, w, c)
    np.testing.assert_array_equal(unpacked(c), layer.expected(*layer.numbers()))


def test_inputs_and_weights_of_a_step_share_a_token() -> None:
    layer = Layer((6, 6), (32, 64))
    text = str(tvm.lower(*conv(layer, (3, 6, 1, 1), 2), target="vta"))
    loads = text[text.index("ld.pop_dep") : text.index("ld.push_dep")]
    assert [line.split("(")[0].strip() for line in loads.splitlines()][:3] == [
        "ld.pop_dep_from",
        "ld.dma_copy2d",
        "ld.dma_copy2d",
    ]


def test_each_thread_has_buffers_of_its_own() -> None:
    layer = Layer((6, 6), (32, 64))
    text = str(tvm.lower(*conv(layer, (3, 6, 1, 1), 2), target="vta"))
    assert 'A_buf = allocate((2, 1, 1, 5, 8, 1, 16), "int8", "local.inp_buffer")' in text
    assert 'W_buf = allocate((2, 1, 1, 3, 3, 16, 16), "int8", "local.wgt_buffer")' in text


def test_tiles_that_do_not_fit_are_refused_with_what_they_need() -> None:
    """VTA's C8 (the paper's C9) in tiles of 8 x 8 blocks of channels, for two threads."""
    s, args = conv(Layer((14, 14), (256, 256)), (7, 14, 8, 8), oc_threads=2)
    with pytest.raises(tvm.LoweringError) as caught:
        tvm.lower(s, args, target="vta")
    assert str(caught.value) == (
        "A_buf[2, 1, 8, 9, 16, 1, 16] in 'local.inp_buffer': 2304 elements of INP are needed "
        "(A_buf 2304), vta_pynq has 2048\n"
        "  try: smaller tiles, fewer virtual threads (each has its own buffers), or a larger "
        "Config"
    )
