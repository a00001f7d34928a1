"""The part of an image that a schedule computes in registers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of the result: `high` x `wide` pixels by `vectors` of `lanes` channels."""

    high: int
    wide: int
    vectors: int
    lanes: int

    @property
    def channels(self) -> int:
        """The channels of the tile."""
        return self.vectors * self.lanes
