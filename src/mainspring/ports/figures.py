"""What services show of themselves while they run."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.core.shards import Refusal


@dataclass(slots=True)
class ShardFigures:
    """What a node shows of its shards; the counts are since its start.

    Attributes:
        owned: shards that it plans for.
        nodes: nodes that are alive, itself among them.
        taken, released: shards that it took, and gave up to a living node.
        fenced: shards that a refused write showed to be lost.
        refusal: why it owns none; None where nothing speaks against it.
        skew: by how many seconds its host's clock is ahead of the store's.
        tzdata, recorded_tzdata: the version of its zone data, and the one that the store records.
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
