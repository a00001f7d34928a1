"""Whatever can be scheduled can be looked at."""

import numpy as np
import pytest

from minitvm import viz
from tests.fuzz.make import random_program
from tests.fuzz.schedules import random_schedule
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_a_random_schedule_is_shown_step_by_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    s = random_schedule(program.ops, rng, threads=seed % 4 == 0)
    player = viz.NestPlayer(s, program.args)
    for step in range(len(s.steps) + 1):
        player.event("step", step)
        assert not player.refused, player.message
        text = repr(player)
        assert text.startswith(f"step {step} of {len(s.steps)}")
        assert len(text.splitlines()) <= 25
