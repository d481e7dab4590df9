"""What runs once, as arguments of `@app.job`. The server reads and checks them."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta

from mainspring.core.values import value

Duration = timedelta | float | str
"""A `timedelta`, seconds, or text like `90s`."""


@value()
class Unique:
    """Make no second run of the same thing: `unique=Unique("$.order")`.

    Attributes:
        key: text, or a path into the payload; None is the whole payload.
        scope: how long a run keeps others out: `queued`, `live` or `period`. None is `period` if a period is given,
            else `live`.
        period: for the scope `period`: how long, from the submission.
        on_conflict: what a submission gets whose key is held: `existing`, `reject` or `replace`.
    """

    key: str | None = None
    scope: str | None = None
    period: Duration | None = None
    on_conflict: str = "existing"


@value()
class Debounce:
    """Make one run of many submissions: `debounce=Debounce("$.document", wait="5s")`.

    Attributes:
        key: text, or a path into the payload; None is all submissions of the job.
        wait: start when no other submission has come for so long.
        max_wait: start so long after the first submission at the latest; None is ten times `wait`.
    """

    key: str | None = None
    wait: Duration = field(kw_only=True)
    max_wait: Duration | None = field(default=None, kw_only=True)


@value()
class Throttle:
    """Make at most so many runs in a time: `throttle=Throttle("$.customer", limit=1, per="1h")`.

    Attributes:
        key: text, or a path into the payload; None is all submissions of the job.
        limit: how many runs there may be at once in that time.
        per: the time in which the whole limit comes back, evenly.
    """

    key: str | None = None
    limit: int = field(kw_only=True)
    per: Duration = field(kw_only=True)
