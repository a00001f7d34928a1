"""PackedBlocks: the addresses that it shows are those of vta.pack."""

import numpy as np

from minitvm import viz, vta


def test_the_addresses_after_are_those_of_pack() -> None:
    rows = [line.split() for line in viz.PackedBlocks().ascii().splitlines()[1:]]
    before, after = np.hsplit(np.array(rows, int), 2)
    memory = vta.pack(before, 4, 4).ravel()  # what lies at each address
    assert np.array_equal(memory[after], before)


def test_a_number_is_linked_to_its_other_places() -> None:
    links = viz.PackedBlocks().layout().links
    assert links["matrix before:5"] == ("matrix after:5", "memory before:5", "memory after:5")
