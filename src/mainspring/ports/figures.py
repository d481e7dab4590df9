"""What services report about themselves while they run."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.core.shards import Refusal


@dataclass(slots=True)
class ShardFigures:
    """What a node reports about its shards. Counts begin at its start.

    Attributes:
        owned: shards that it plans.
        nodes: live nodes, including itself.
        taken, released: shards that it took, and shards that it gave up to a live node.
        fenced: shards that it found lost when a write was refused.
        refusal: why it may own none; None if it may.
        skew: how far its host's clock is ahead of the store's, in seconds.
        tzdata, recorded_tzdata: the version of its own zone data, and the version that the store records.
    """

    tzdata: str
    recorded_tzdata: str | None = None
    owned: int = 0
    nodes: int = 0
    taken: int = 0
    released: int = 0
    fenced: int = 0
    refusal: Refusal | None = None
    skew: float = 0.0
