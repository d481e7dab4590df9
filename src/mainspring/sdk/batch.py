"""Batches, as an argument of `@app.job`. The server reads and checks it."""

from __future__ import annotations

from mainspring.core.values import value
from mainspring.sdk.once import Duration


@value()
class Batch:
    """Give many runs to one call: `batch=Batch(size=100, wait="2s", key="$.customer")`.

    Attributes:
        size: the most runs of one call.
        wait: how long the first of them may wait for others; None is a second.
        key: text, or a path into the payload: only runs with the same value share a call. None is all runs of the job.
    """

    size: int
    wait: Duration | None = None
    key: str | None = None
