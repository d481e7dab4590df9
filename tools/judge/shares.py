"""L5: tenants that wait beside each other get shares of the workers by their weights, or are served by age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.states import RunState
from tools.judge.model import Event, History, Violation
from tools.judge.runs import Runs

SETTLING = timedelta(seconds=3)
"""Until every process knows that all of them wait, and about how long their attempts take."""


def judge_shares(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L5: while all tenants with a weight wait, each starts as many runs as its weight says.

    It may be off by what each process hands out in one claim at the beginning and at the end of that time, and by as
    much again for each fault: a process that starts anew does not know what it gave out before. Their attempts have to
    take the same time, as shares are of that.
    """
    if len(history.weights) < 2:
        return
    if history.is_by_age:
        yield from _judge_ages(history, runs, counts)
        return
    for begin, end, given in _times_of_all_waiting(history, runs):
        faults = sum(fault.at <= end and begin <= fault.until + 3 * history.lease for fault in history.faults)
        slack = (2 + faults) * history.matchers * history.claim
        total, weights = given.total(), sum(history.weights.values())
        if total * min(history.weights.values()) / weights < slack:
            continue
        counts["shares_compared"] += 1
        for tenant, weight in history.weights.items():
            fair = total * weight / weights
            if abs(given[tenant] - fair) > slack:
                why = f"{given[tenant]} of {total} runs, where {fair:.0f} are fair, and {slack} more or less may be"
                yield Violation("L5", tenant, (f"from {begin.isoformat()} to {end.isoformat()}: {why}",))


def _judge_ages(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L5: no run starts while one of another tenant waits that was there clearly before it.

    Some may: what each process hands out in one claim from what it saw before, and as many again for each fault of
    that time.
    """
    waiting: dict[RunId, datetime] = {}
    passed: list[tuple[datetime, str]] = []
    for event, tenant in _events_of(history, runs):
        assert event.run_id is not None
        if event.target is RunState.PENDING:
            waiting[event.run_id] = event.at  # what is handed back is ready anew, and goes behind the others
            continue
        since = waiting.pop(event.run_id, None)
        if event.what == "claimed" and since is not None and event.token == 1:
            oldest = min(waiting.values(), default=since)
            counts["ages_compared"] += since != oldest
            if oldest + SETTLING < since:
                passed.append((event.at, f"{tenant} of {since.isoformat()}, not of {oldest.isoformat()}"))
    if not passed:
        return
    faults = history.count_faults(passed[0][0] - 2 * SETTLING, passed[-1][0])
    slack = (2 + faults) * history.matchers * history.claim
    if len(passed) > slack:
        why = f"{len(passed)} runs went before older ones, and {slack} may"
        yield Violation("L5", "crowd", (why, *(f"{at.isoformat()} {text}" for at, text in passed[:5])))


def _times_of_all_waiting(history: History, runs: Runs) -> Iterator[tuple[datetime, datetime, Counter[str]]]:
    """Yield when all of these tenants had something ready, each time with what was given to each of them."""
    waiting: dict[str, set[RunId]] = {tenant: set() for tenant in history.weights}
    begin: datetime | None = None
    given: Counter[str] = Counter()
    for event, tenant in _events_of(history, runs):
        assert event.run_id is not None
        if begin is not None and event.what == "claimed" and event.at >= begin + SETTLING:
            given[tenant] += 1
        (waiting[tenant].add if event.target is RunState.PENDING else waiting[tenant].discard)(event.run_id)
        if all(waiting.values()):
            begin = begin or event.at
        elif begin is not None:
            if given:
                yield begin + SETTLING, event.at, given
            begin, given = None, Counter()


def _events_of(history: History, runs: Runs) -> Iterator[tuple[Event, str]]:
    for event in history.events:
        run = None if event.run_id is None or event.is_stale else runs.by_id.get(event.run_id)
        if run is not None and run.tenant in history.weights:
            yield event, run.tenant
