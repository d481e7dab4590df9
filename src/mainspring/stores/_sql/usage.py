"""How usage is kept: one text for each tenant and queue of a minute or an hour."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from mainspring.core.usage import COUNTS, Times, Usage, UsageLine


def encode_usage(usage: Usage) -> str:
    """Return usage as JSON: counts in the order of `COUNTS`, and times by bounds with their sums."""
    return json.dumps(
        {
            "counts": [getattr(usage, name) for name in COUNTS],
            "lags": [usage.lags.total, *usage.lags.counts],
            "durations": [usage.durations.total, *usage.durations.counts],
        },
        separators=(",", ":"),
    )


def decode_usage(body: str) -> Usage:
    """Return what was encoded."""
    kept = json.loads(body)
    counts: dict[str, int] = dict(zip(COUNTS, kept["counts"], strict=True))
    return Usage(**counts, lags=_times(kept["lags"]), durations=_times(kept["durations"]))


def add_up(rows: Iterable[tuple[datetime, str, str, str]]) -> list[UsageLine]:
    """Return rows, which come in order, as lines: those of several processes together.

    Args:
        rows: instant, tenant, queue and body of each.
    """
    lines: list[UsageLine] = []
    for at, tenant, queue, body in rows:
        usage = decode_usage(body)
        last = lines[-1] if lines else None
        if last is not None and (last.at, last.tenant, last.queue) == (at, tenant, queue):
            usage = lines.pop().usage + usage
        lines.append(UsageLine(at=at, tenant=tenant, queue=queue, usage=usage))
    return lines


def _times(kept: list[float]) -> Times:
    total, *counts = kept
    return Times(counts=tuple(map(int, counts)), total=total)
