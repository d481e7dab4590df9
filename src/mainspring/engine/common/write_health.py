"""Which writes the store has refused lately.

While a store can be read but not written, no session counts as silent (law 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mainspring.core.ids import SessionId


@dataclass(slots=True)
class WriteHealth:
    """Connects the code that writes with the reaper, which judges by what was not written.

    On a full disk, the store refuses heartbeats, while everybody can still read that no counter rises.

    Attributes:
        sessions: the sessions whose heartbeats were refused since the reaper's last tick. They are not silent.
        has_reports: whether reports were refused since then. If so, runs that have ended seem to be still running.
        clear_since: the monotonic instant since which the store has accepted all of this node's own writes; None
            while it refuses them.
    """

    sessions: set[SessionId] = field(default_factory=set)
    has_reports: bool = False
    clear_since: float | None = -math.inf

    def refuse(self) -> None:
        """Note that the store refused a write of this node."""
        self.clear_since = None

    def accept(self, at: float) -> None:
        """Note that the store accepted this node's heartbeat at a monotonic instant."""
        if self.clear_since is None:
            self.clear_since = at

    def is_clear(self, at: float, seconds: float) -> bool:
        """Return whether the store has accepted this node's writes for this long, so that others could write, too."""
        return self.clear_since is not None and at - self.clear_since >= seconds
