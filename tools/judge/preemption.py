"""S30: only what may be preempted is, for what is more urgent or reserved, and not for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from mainspring.core.ids import RunId
from mainspring.core.model import Delivery, Priority
from mainspring.core.states import RunState
from tools.judge.model import Asking, History, Violation
from tools.judge.runs import Runs

MOST = 3
"""How often a run may be asked to give up its slot."""
WITH_RESERVE = " with reserved slots"
"""What waits for reserved slots ends so."""


def judge_preemption(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S30: who was asked to give up a slot, and who did."""
    asked: dict[RunId, list[Asking]] = {}
    for asking in history.askings:
        asked.setdefault(asking.run_id, []).append(asking)
    for run_id, askings in asked.items():
        yield from _judge_asked(run_id, askings, runs)
    yield from _judge_reserved(history, runs, counts)
    for run in history.runs:
        tokens = {asking.token for asking in asked.get(run.id, [])}
        given = [item for item in runs.attempts.get(run.id, []) if item.outcome == "preempted"]
        counts["attempts_preempted"] += len(given)
        counts["preempted_runs_done"] += bool(given) and run.state is RunState.SUCCEEDED
        counts["runs_that_succeeded_though_asked"] += run.state is RunState.SUCCEEDED and run.token in tokens
        for attempt in given:
            if attempt.token not in tokens:
                yield runs.accuse("S30", run.id, f"token {attempt.token} was preempted, and nobody had asked")


def _judge_asked(run_id: RunId, askings: list[Asking], runs: Runs) -> Iterator[Violation]:
    run = runs.by_id.get(run_id)
    if run is None:
        yield runs.accuse("S3", run_id, "asked to give up its slot, but not on record")
        return
    spec = runs.spec_of(run)
    if spec is not None and (not spec.preemptible or spec.delivery is Delivery.AT_MOST_ONCE):
        yield runs.accuse("S30", run_id, "asked to give up its slot, though it is not preemptible")
    if len(askings) > MOST:
        yield runs.accuse("S30", run_id, f"asked {len(askings)} times to give up its slot")
    for token, count in Counter(asking.token for asking in askings).items():
        if count > 1:
            yield runs.accuse("S30", run_id, f"token {token} was asked {count} times to give up its slot")
    for asking in askings:
        tier = Priority[asking.by.partition(" ")[0]]
        if tier > run.lane.priority or (tier == run.lane.priority and not asking.by.endswith(WITH_RESERVE)):
            yield runs.accuse("S30", run_id, f"{run.lane.priority.name}, asked to make room for {asking.by}")


def _judge_reserved(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """Only tenants with a reserve take slots for it: those of others, and no more than it at a time."""
    together: Counter[tuple[datetime, str]] = Counter()
    for asking in history.askings:
        run = runs.by_id.get(asking.run_id)
        if run is None or not asking.by.endswith(WITH_RESERVE):
            continue
        counts["asked_for_a_reserve"] += 1
        together[asking.at, asking.by] += 1
        most = max((slots for tenant, slots in history.promises.items() if tenant != run.tenant), default=0)
        if together[asking.at, asking.by] > most:
            yield runs.accuse(
                "S30", run.id, f"asked to make room for {asking.by}, of which others have {most}"
            )
