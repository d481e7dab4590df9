"""The shards that a node believes it owns. The code that takes shards shares this with the code that plans for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mainspring.ports.store.nodes import Epochs


@dataclass(slots=True)
class Ownership:
    """The shards that this node believes it owns. Every scheduler write carries their epochs and is checked.

    This is a belief, not a right: another node may have taken a shard a moment ago. Then the write is fenced (law 3).

    Attributes:
        epochs: the epochs by shard. The mapping is replaced, never changed in place, so a writer may keep the one that
            it wrote with.
        fenced: how many shards turned out to be lost when a write was refused.
    """

    epochs: Mapping[int, int] = field(default_factory=dict)
    fenced: int = 0
    _on_gain: list[Callable[[], None]] = field(default_factory=list)
    _on_fence: list[Callable[[], None]] = field(default_factory=list)

    def subscribe_gains(self, signal: Callable[[], None]) -> None:
        """Call `signal` when the node gains shards."""
        self._on_gain.append(signal)

    def subscribe_fences(self, signal: Callable[[], None]) -> None:
        """Call `signal` when a write has shown that a shard is lost."""
        self._on_fence.append(signal)

    def update(self, epochs: Epochs) -> None:
        """Replace the shards that the node believes it owns."""
        is_gain = not epochs.keys() <= self.epochs.keys()
        self.epochs = dict(epochs)
        if is_gain:
            for signal in self._on_gain:
                signal()

    def fence(self, shards: Collection[int], *, used: Epochs) -> None:
        """Stop believing in shards for which a write with the epochs `used` was refused."""
        lost = {shard for shard in shards if self.epochs.get(shard, -1) == used.get(shard)}
        if not lost:
            return  # already known, or taken again in the meantime
        self.epochs = {shard: epoch for shard, epoch in self.epochs.items() if shard not in lost}
        self.fenced += len(lost)
        for signal in self._on_fence:
            signal()
