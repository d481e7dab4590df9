"""Whom a job tells what becomes of it, as an argument of `@app.job`. The server reads and checks it."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.values import value
from mainspring.sdk.once import Duration


@value(kw_only=True)
class Notify:
    """Tell channels: `notify=Notify(to=["ops"], on=["failed", "late", "recovered"], late_after="15m")`.

    Attributes:
        to: the channels that are told.
        on: what is told: `failed`, `late` and `recovered`. None is `failed` and `recovered`, and `late` if there is a
            `late_after`.
        late_after: a run that has not ended so long after it was due is late.
        failures: how many failed runs in a row are told of; None is one.
    """

    to: Sequence[str]
    on: Sequence[str] | None = None
    late_after: Duration | None = None
    failures: int | None = None
