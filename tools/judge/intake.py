"""The rule about submissions that are bounded: S16. That nothing of a refused one is stored is part of S3 and S4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from mainspring.core.model import RunKind
from tools.judge.model import History, Violation
from tools.judge.runs import Runs

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def judge_intake(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S16: every submission of a tenant with a rate took a permit, and there were no more than the rate gives."""
    for tenant, text in history.rates.items():
        number, _, unit = text.partition("/")
        per_second = int(number) / _SECONDS[unit]
        taken = [permit for permit in history.permits if permit.tenant == tenant]
        total = sum(permit.count for permit in taken)
        made = sum(run.tenant == tenant and run.kind is RunKind.MANUAL for run in runs.by_id.values())
        counts["submissions_under_rates"] += made
        if made > total:
            yield Violation("S16", f"tenant {tenant}", (f"{made} submissions stored, with {total} permits",))
        if not taken:
            continue
        # Of requests that come together, one may be larger than what is there.
        burst = max(ceil(per_second), *(permit.count for permit in taken))
        span = max(p.at for p in taken) - min(p.at for p in taken) + history.slack
        seconds = span / timedelta(seconds=1)
        # What the last one left as a debt is paid later.
        last = max(taken, key=lambda permit: permit.at)
        if total - last.count > burst + seconds * per_second + 1e-6:
            why = f"{total} permits in {seconds:g} s, at a rate of {text}"
            yield Violation("S16", f"tenant {tenant}", (why,))
