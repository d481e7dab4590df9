"""What the store refused of late: a store that can be read but takes no writes silences no session (law 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mainspring.core.ids import SessionId


@dataclass(slots=True)
class WriteHealth:
    """Shared by those who write and the reaper, who judges by what was not written.

    On a full disk heartbeats are refused while everybody can see that no counter rises.

    Attributes:
        sessions: those whose heartbeats were refused since the reaper's last tick; they are not silent.
        has_reports: whether reports were refused since then, so that runs which have ended seem as if they had not.
        clear_since: since when, by the monotonic clock, this node's own writes have all been taken; None while they
            are refused.
    """

    sessions: set[SessionId] = field(default_factory=set)
    has_reports: bool = False
    clear_since: float | None = -math.inf

    def refuse(self) -> None:
        """Note that a write of this node was refused."""
        self.clear_since = None

    def accept(self, at: float) -> None:
        """Note that its heartbeat was taken."""
        if self.clear_since is None:
            self.clear_since = at

    def is_clear(self, at: float, seconds: float) -> bool:
        """Say whether this node's writes have been taken for so long: others could have written, too."""
        return self.clear_since is not None and at - self.clear_since >= seconds
