"""TokenQueues and MemoryOrder: drawings without data of the reader's."""

import numpy as np

from minitvm import accel, viz
from minitvm.topi import layouts


def test_queues_lead_from_the_unit_that_pushes_to_the_unit_that_pops() -> None:
    lines = viz.TokenQueues().ascii().splitlines()
    for line in lines:
        queue, ends = line.split(",")[0].split(": ")
        first, last = (end[0] for end in ends.split(" -> "))
        assert queue == f"{first}2{last}".replace("c", "g")
    assert {line[:3] for line in lines} == {queue.value for queue in accel.Queue}


def test_the_elements_lie_in_the_order_of_the_layouts() -> None:
    rows = dict(line.split(maxsplit=1) for line in viz.MemoryOrder().ascii().splitlines()[1:])
    image = np.array(rows["NCHW"].split()).reshape(8, 2, 2)
    assert rows["NHWC"].split() == [*image.transpose(1, 2, 0).flat]
    assert rows["NCHW4c"].split() == [*image.reshape(2, 4, 2, 2).transpose(0, 2, 3, 1).flat]
    assert all(layouts.PATTERN.fullmatch(name) for name in rows)


def test_an_element_is_linked_to_itself_in_all_layouts() -> None:
    links = viz.MemoryOrder().layout().links
    assert links["NHWC:5"] == ("image:5", "NCHW:5", "NCHW4c:5")
