"""The pace of old work: how fast runs of the past are made, and how many of them may be live.

Backfills and catch-up go by the same numbers, so that neither floods the workers.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.rates import Bucket, Rate
from mainspring.core.values import value

MOST_LIVE = 100_000
"""Live runs that a pace may allow, at most."""


@value()
class Pace:
    """How fast runs are made, and how many of them may be made and not yet over.

    In any time, at most what `rate` gives in that time and in one second more are made.
    """

    rate: Rate
    max_live: int

    def permits(self, level: float | None, level_at: datetime | None, now: datetime) -> Bucket:
        """Return the permits of the rate as they are now.

        Args:
            level: how many there were at `level_at`; None: as many as fit.
        """
        return Bucket(self.rate, self.rate.usual_burst, level, level_at).at(now)

    def room(self, permits: Bucket, live: int) -> int:
        """Return how many runs may be made now.

        Args:
            permits: as `permits` returned them.
            live: how many of the runs made are not over.
        """
        return max(min(permits.permits, self.max_live - live), 0)


USUAL_CATCH_UP = Pace(Rate(200, timedelta(seconds=1)), 1000)
"""The pace of catch-up if neither the job nor the settings say anything else."""


@value(kw_only=True)
class CatchUpRule:
    """What a job says about the pace of its catch-up. None: what the server's settings say."""

    rate: Rate | None = None
    max_live: int | None = None

    def pace(self, usual: Pace) -> Pace:
        """Return the pace of the job's catch-up.

        Args:
            usual: that of the settings.
        """
        return Pace(
            usual.rate if self.rate is None else self.rate,
            usual.max_live if self.max_live is None else self.max_live,
        )
