"""O1 to O3: what failed is told, nothing is told that did not happen, and what was told ends once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from mainspring.core.ids import JobId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from tools.judge.model import AlertStory, AlertTold, ChangeKind, History, Violation
from tools.judge.runs import Runs

JOB_FAILED = "job_failed"


def judge_alerts(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """O1 to O3, by what watchdogs took note of, what channels took, and what is on record in the end."""
    if not history.judges_alerts:
        return
    told = _by_alert(history.told)
    counts["messages_told"] += len({one.id for one in history.told})
    counts["messages_told_again"] += len(history.told) - len({one.id for one in history.told})
    noticed = _Noticed(history)
    yield from _judge_failures(history, runs, noticed, told, counts)
    yield from _judge_told(history, noticed, told)
    for alert in history.alerts:
        yield from _judge_alert(alert, told.get(alert.id, []), counts)


class _Noticed:
    """Which alerts tell of which failed runs."""

    def __init__(self, history: History) -> None:
        self._slack = history.slack
        self._alerts: dict[tuple[str, str], list[AlertStory]] = defaultdict(list)
        for alert in history.alerts:
            if alert.rule == JOB_FAILED:
                self._alerts[alert.tenant, alert.subject].append(alert)
        self._at = history.noticed
        self.names = _watched(history)

    def alerts_of(self, run: Run) -> list[AlertStory]:
        """Return the alerts of its job that were open when a watchdog took note of a run."""
        at, name = self._at.get(run.id), self.names.get(run.job_id)
        if at is None or name is None:
            return []
        return [
            alert
            for alert in self._alerts[run.tenant, f"job:{name}"]
            if alert.since <= at + self._slack
            and (alert.resolved_at is None or alert.resolved_at >= at - self._slack)
        ]


def _watched(history: History) -> dict[JobId, str]:
    """Return the names of jobs that tell of their failures, and were never deleted: of these, nothing is told."""
    found: dict[JobId, str] = {}
    for change in history.changes:
        notify: Any = getattr(change.spec, "notify", None)  # earlier releases have no such jobs
        if notify is not None:
            found[change.job_id] = change.spec.name
    for change in history.changes:
        if change.kind is ChangeKind.DELETED:
            found.pop(change.job_id, None)
    return found


def _by_alert(told: Sequence[AlertTold]) -> dict[int, list[AlertTold]]:
    """Return the messages about each alert, each once: with one id it may come twice."""
    found: dict[int, list[AlertTold]] = defaultdict(list)
    seen: set[str] = set()
    for one in told:
        if one.id not in seen:
            seen.add(one.id)
            for alert_id in one.alert_ids:
                found[alert_id].append(one)
    return found


def _judge_failures(
    history: History, runs: Runs, noticed: _Noticed, told: dict[int, list[AlertTold]], counts: Counter[str]
) -> Iterator[Violation]:
    """O1: each failed run of a watched job lies in a told alert of that job."""
    for run in history.runs:
        if run.state is not RunState.FAILED or run.job_id not in noticed.names:
            continue
        counts["failures_watched"] += 1
        alerts = noticed.alerts_of(run)
        if not alerts:
            yield runs.accuse("O1", run.id, "failed, and lies in no alert of its job")
        elif not any(one.kind == "firing" for alert in alerts for one in told.get(alert.id, [])):
            yield runs.accuse("O1", run.id, f"failed, and {_name(alerts[0])}, in which it lies, was not told")


def _judge_told(history: History, noticed: _Noticed, told: dict[int, list[AlertTold]]) -> Iterator[Violation]:
    """O2: what was told had happened."""
    begun: dict[int, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.state is RunState.FAILED:
            for alert in noticed.alerts_of(run):
                begun[alert.id].append(run)
    known = {alert.id: alert for alert in history.alerts}
    names = {f"job:{name}" for name in noticed.names.values()}
    for alert_id, messages in told.items():
        story = known.get(alert_id)
        if story is None:
            yield Violation("O2", f"alert {alert_id}", (f"was told at {messages[0].at}, and does not exist",))
            continue
        latest = messages[0].at + history.slack
        has_failed = any(run.finished_at is not None and run.finished_at <= latest for run in begun[alert_id])
        if story.rule == JOB_FAILED and story.subject in names and not has_failed:
            what = f"was told at {messages[0].at}; no run had failed of which it tells"
            yield Violation("O2", _name(story), (what,))


def _judge_alert(
    alert: AlertStory, messages: Sequence[AlertTold], counts: Counter[str]
) -> Iterator[Violation]:
    """O3: an alert is told once, and its end is told once and after it."""
    fired = [one for one in messages if one.kind == "firing"]
    ended = [one for one in messages if one.kind == "resolved"]
    counts["alerts_told"] += bool(fired)
    counts["alerts_ended"] += bool(ended)
    if len(fired) > 1:
        yield Violation("O3", _name(alert), (f"was told by {' and '.join(one.id for one in fired)}",))
    if len(ended) > 1:
        yield Violation("O3", _name(alert), (f"its end was told by {' and '.join(one.id for one in ended)}",))
    if ended and (not fired or ended[0].at < fired[0].at):
        yield Violation("O3", _name(alert), (f"its end was told at {ended[0].at}, and not after it",))
    if ended and alert.resolved_at is None:
        yield Violation("O3", _name(alert), ("its end was told, and it has not ended",))
    if fired and not ended and alert.resolved_at is not None and alert.tells_end:
        yield Violation(
            "O3", _name(alert), (f"was told, ended at {alert.resolved_at}, and its end was not told",)
        )


def _name(alert: AlertStory) -> str:
    return f"alert {alert.id} ({alert.rule} {alert.subject})"
