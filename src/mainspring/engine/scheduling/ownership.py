"""What a node believes to own; shared by who takes shards and by who plans for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mainspring.ports.store.nodes import Epochs


@dataclass(slots=True)
class Ownership:
    """The shards that this node believes to own; every scheduler write carries their epochs and is checked.

    A belief, not a right: another node may have taken a shard a moment ago, and then the write is fenced off (law 3).

    Attributes:
        epochs: by shard; replaced, never changed in place, so that a writer may keep hold of what it wrote with.
        fenced: how many shards were found to be lost by a write.
    """

    epochs: Mapping[int, int] = field(default_factory=dict)
    fenced: int = 0
    _on_gain: list[Callable[[], None]] = field(default_factory=list)
    _on_fence: list[Callable[[], None]] = field(default_factory=list)

    def subscribe_gains(self, signal: Callable[[], None]) -> None:
        """Call `signal` when there are shards that were not owned before."""
        self._on_gain.append(signal)

    def subscribe_fences(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a write has shown that a shard is lost."""
        self._on_fence.append(signal)

    def update(self, epochs: Epochs) -> None:
        """Believe this from now on."""
        is_gain = not epochs.keys() <= self.epochs.keys()
        self.epochs = dict(epochs)
        if is_gain:
            for signal in self._on_gain:
                signal()

    def fence(self, shards: Collection[int], *, used: Epochs) -> None:
        """Give up the belief in shards of which a write with the epochs `used` was fenced off."""
        lost = {shard for shard in shards if self.epochs.get(shard, -1) == used.get(shard)}
        if not lost:
            return  # known by now, or taken again meanwhile
        self.epochs = {shard: epoch for shard, epoch in self.epochs.items() if shard not in lost}
        self.fenced += len(lost)
        for signal in self._on_fence:
            signal()
