"""Settings of what is made for instants that have passed: backfills, and missed fires."""

from __future__ import annotations

from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.kinds import Whole
from mainspring.core.pacing import MOST_LIVE, USUAL_CATCH_UP
from mainspring.core.rates import RateText, parse_rate

BACKFILL_SETTINGS = (
    Setting(
        name="backfill.rate",
        kind=RateText(),
        default=parse_rate("50/s"),
        field="backfill_rate",
        used_by=(UP, SERVER),
        words="How fast the runs of a backfill are made that names no rate.",
    ),
    Setting(
        name="backfill.max_live",
        kind=Whole(1, 100_000),
        default=100,
        field="backfill_max_live",
        used_by=(UP, SERVER),
        words="How many runs of a backfill may wait or be under way at a time, if it does not say that itself.",
    ),
    Setting(
        name="backfill.most_fires",
        kind=Whole(1, 10_000_000),
        default=1_000_000,
        field="backfill_most_fires",
        used_by=(UP, SERVER),
        words="The most fires of one backfill; a longer range is refused.",
    ),
)
"""How the fires of a range that is past are made."""

CATCH_UP_SETTINGS = (
    Setting(
        name="catch_up.rate",
        kind=RateText(),
        default=USUAL_CATCH_UP.rate,
        field="catch_up_rate",
        used_by=(UP, SERVER),
        words="How fast missed fires are made up for, of a job that names no rate.",
    ),
    Setting(
        name="catch_up.max_live",
        kind=Whole(1, MOST_LIVE),
        default=USUAL_CATCH_UP.max_live,
        field="catch_up_max_live",
        used_by=(UP, SERVER),
        words="How many runs of a job that make up for missed fires may wait or be under way at a time, if it does "
        "not say that itself.",
    ),
)
"""How fast missed fires are made up for."""
