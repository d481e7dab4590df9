"""What each kind of rule of alerts finds in what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from mainspring.core.access import EndingToken
from mainspring.core.alert_seen import (
    LostWorker,
    ReadyLane,
    SchedulerFacts,
    Seen,
    StuckRun,
    WorkerOffer,
)
from mainspring.core.alert_words import count, show_percent, show_roughly
from mainspring.core.alerting import MOST_SUBJECTS, Fact, Judgement
from mainspring.core.alerts import AlertRule, Channel, RuleKind, find_channel
from mainspring.core.capacity import find_shortages
from mainspring.core.census import DeadLine
from mainspring.core.doctor.findings import weigh
from mainspring.core.ids import format_run_id
from mainspring.core.monitors import Monitor, explain_monitor, judge_monitor
from mainspring.core.objectives import find_burning
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.serving import GapCode, Offers
from mainspring.core.storage import Disk
from mainspring.core.usage_facts import UsageSeen, find_failures, find_late_starts, find_spikes

_OF_LANES = frozenset({RuleKind.NO_WORKERS, RuleKind.OLDEST_READY})
Found = Iterator[Fact] | None
"""What a rule finds; None if it could not be found out."""


def judge_rule(
    rule: AlertRule, seen: Seen, channels: Mapping[str, Channel], elsewhere: Collection[str], *, now: datetime
) -> Judgement:
    """Return what a rule finds.

    Args:
        channels: all channels, by key.
        elsewhere: tenants that have a rule of that name of their own, which holds for them in place of this one.
    """
    found = _JUDGES[rule.kind](rule, seen, now) if rule.enabled else iter(())
    facts = None if found is None else [fact for fact in found if _is_of(rule, fact, elsewhere)]
    kept, left_out = (None, ()) if facts is None else _cut(facts)
    return Judgement(
        tenant=rule.tenant,
        rule=rule.name,
        severity=rule.severity,
        hold=rule.hold,
        channels=keys_of(rule.channels, rule.tenant, channels),
        facts=kept,
        left_out=left_out,
        is_cut=rule.kind in seen.cut,
    )


def _cut(facts: Iterable[Fact]) -> tuple[list[Fact], Collection[tuple[str, str]]]:
    """Return the first facts of each tenant, and what the others are about."""
    kept: list[Fact] = []
    left_out: set[tuple[str, str]] = set()
    of_tenant: Counter[str] = Counter()
    for fact in sorted(facts, key=lambda fact: (fact.tenant, fact.subject)):
        of_tenant[fact.tenant] += 1
        if of_tenant[fact.tenant] <= MOST_SUBJECTS:
            kept.append(fact)
        else:
            left_out.add((fact.tenant, fact.subject))
    return kept, left_out


def looks_at_lanes_for(rule: AlertRule) -> bool:
    """Say whether the lanes are looked at for a rule: it judges by them, and has a channel to tell."""
    return rule.enabled and rule.kind in _OF_LANES and bool(rule.channels)


def looks_ahead_for(rule: AlertRule) -> bool:
    """Say whether what is to come is read for a rule: it judges by that, and has a channel to tell."""
    return rule.enabled and rule.kind is RuleKind.FORECAST and bool(rule.channels)


def keys_of(names: Sequence[str], tenant: str, channels: Mapping[str, Channel]) -> tuple[str, ...]:
    """Return the keys of the channels that a tenant means by names; one that does not exist is left out."""
    found = (find_channel(channels, tenant, name) for name in names)
    return tuple(channel.key for channel in found if channel is not None)


def _is_of(rule: AlertRule, fact: Fact, elsewhere: Collection[str]) -> bool:
    if rule.tenant != ALL_TENANTS:
        return fact.tenant == rule.tenant
    return fact.tenant not in elsewhere


def _judge_dead_letters(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    del now
    return None if seen.dead is None else _find_dead_letters(rule, seen.dead)


def _find_dead_letters(rule: AlertRule, lines: Sequence[DeadLine]) -> Iterator[Fact]:
    for line in lines:
        if line.runs > (rule.threshold or 0) and rule.queue in {None, line.queue}:
            yield Fact(
                tenant=line.tenant,
                subject=f"queue:{line.queue}",
                value=float(line.runs),
                summary=f"{count(line.runs, 'open dead letter')} in queue {line.queue}",
            )


def _judge_workers(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    lanes = seen.lanes if looks_at_lanes_for(rule) else ()
    if lanes is None or seen.workers is None:
        return None
    return _find_unserved(rule, lanes, seen.workers, now)


def _find_unserved(
    rule: AlertRule, lanes: Sequence[ReadyLane], workers: Sequence[WorkerOffer], now: datetime
) -> Iterator[Fact]:
    offers = Offers(workers)
    found: dict[str, tuple[timedelta, str]] = {}
    for lane in lanes:
        waited, queue = now - lane.since, lane.key.queue
        gap = offers.find_gap(queue, lane.key.route, lane.key.tenant) if _lasts(rule, waited) else None
        if gap is None or rule.queue not in {None, queue}:
            continue
        is_of_queue = gap.code in {GapCode.NO_WORKER, GapCode.TENANT_UNSERVED, GapCode.QUEUE_UNSERVED}
        subject = f"queue:{queue}" if is_of_queue else f"queue:{queue} {gap.what}"
        found[subject] = max(
            found.get(subject, (waited, "")), (waited, f"{gap.sentence} Queue {queue}: runs")
        )
    for subject, (waited, sentence) in found.items():
        yield Fact(
            tenant=ALL_TENANTS,
            subject=subject,
            value=waited.total_seconds(),
            summary=f"{sentence} have been ready for {show_roughly(waited)}",
        )
    slots = sum(
        one.slots for one in workers if rule.queue is None or not one.queues or rule.queue in one.queues
    )
    if slots < (rule.threshold or 0):
        where = "" if rule.queue is None else f" for queue {rule.queue}"
        summary = f"live workers have {count(slots, 'slot')}{where}; at least {rule.threshold} are wanted"
        subject = "slots" if rule.queue is None else f"slots:{rule.queue}"
        yield Fact(tenant=ALL_TENANTS, subject=subject, value=float(slots), summary=summary)


def _judge_missed(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    return _find_missed(rule, seen, now) if seen.knows_overdue else None


def _find_missed(rule: AlertRule, seen: Seen, now: datetime) -> Iterator[Fact]:
    late = seen.overdue
    if late is not None and _lasts(rule, now - late.since):
        summary = f"{count(late.fires, 'fire')} overdue, the oldest by {show_roughly(now - late.since)}"
        yield Fact(
            tenant=ALL_TENANTS,
            subject="clocks",
            value=(now - late.since).total_seconds(),
            summary=summary,
        )
    if seen.ledger is not None and not seen.ledger.is_even:
        for job in seen.ledger.examples:
            missing = f"{count(job.missing, 'fire')} without a record"
            yield Fact(
                tenant=job.tenant,
                subject=f"job:{job.name}",
                value=float(job.missing),
                summary=f"the ledger of job {job.name} is uneven: {missing}, {job.surplus:,} surplus",
            )


def _judge_lost(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    if seen.lost is None or seen.workers is None:
        return None
    return _find_lost(rule, seen.lost, seen.workers, now)


def _find_lost(
    rule: AlertRule, lost: Sequence[LostWorker], workers: Sequence[WorkerOffer], now: datetime
) -> Iterator[Fact]:
    last: dict[str, LostWorker] = {}
    for one in lost:
        is_back = any(
            worker.worker == one.worker or (worker.host == one.host and worker.started_at >= one.at)
            for worker in workers
        )
        if not is_back and not _lasts(rule, now - one.at):
            last[one.worker] = one
    for name, one in last.items():
        summary = f"worker {name} on {one.host} was lost {show_roughly(now - one.at)} ago"
        yield Fact(tenant=ALL_TENANTS, subject=f"worker:{name}", summary=summary, is_owed=True)


def _judge_stuck(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    return None if seen.stuck is None else _find_stuck(rule, seen.stuck, now)


def _find_stuck(rule: AlertRule, stuck: Sequence[StuckRun], now: datetime) -> Iterator[Fact]:
    for run in stuck:
        late = now - run.deadline_at
        if _lasts(rule, late):
            yield Fact(
                tenant=run.tenant,
                subject=f"run:{format_run_id(run.run_id)}",
                value=late.total_seconds(),
                summary=f"a run of job {run.job} goes on {show_roughly(late)} past its deadline",
                run_id=run.run_id,
            )


def _judge_tokens(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    return None if seen.tokens is None else _find_expiring(rule, seen.tokens, now)


def _find_expiring(rule: AlertRule, tokens: Sequence[EndingToken], now: datetime) -> Iterator[Fact]:
    for ending in tokens:
        token, left = ending.token, ending.ends_at - now
        if _lasts(rule, left):
            continue
        summary = f"the access token ms_{token.prefix}_… ({token.name}) of {token.account} expires in"
        unless = ", unless that signs in again" if ending.is_renewed_by_login else ""
        yield Fact(
            tenant=ALL_TENANTS,
            subject=f"token:{token.prefix}",
            value=left.total_seconds(),
            summary=f"{summary} {show_roughly(left)}{unless}",
        )


def _judge_scheduler(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    return None if seen.scheduler is None else _find_scheduler(rule, seen.scheduler, now)


def _find_scheduler(rule: AlertRule, facts: SchedulerFacts, now: datetime) -> Iterator[Fact]:
    if facts.free_shards:
        verb = "has" if facts.free_shards == 1 else "have"
        summary = f"{count(facts.free_shards, 'shard')} {verb} no owner: their jobs do not fire"
        yield Fact(tenant=ALL_TENANTS, subject="shards", value=float(facts.free_shards), summary=summary)
    for server, reason in facts.refused:
        summary = f"server {server} schedules nothing: its {reason} differs from the cluster's"
        yield Fact(tenant=ALL_TENANTS, subject=f"server:{server}", summary=summary)
    recent = [runs for at, runs in facts.lost if runs and not _lasts(rule, now - at)]
    if recent:
        lost = sum(recent)
        summary = f"a failover of the database lost {count(lost, 'run')} that had been acknowledged"
        yield Fact(tenant=ALL_TENANTS, subject="failover", value=float(lost), summary=summary)


def _judge_oldest(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    lanes = seen.lanes if looks_at_lanes_for(rule) else ()
    return None if lanes is None else _find_oldest(rule, lanes, now)


def _find_oldest(rule: AlertRule, lanes: Sequence[ReadyLane], now: datetime) -> Iterator[Fact]:
    oldest: dict[tuple[str, str], datetime] = {}
    for lane in lanes:
        key = (lane.key.tenant, lane.key.queue)
        oldest[key] = min(oldest.get(key, lane.since), lane.since)
    for (tenant, queue), since in oldest.items():
        if rule.queue in {None, queue} and _lasts(rule, now - since):
            yield Fact(
                tenant=tenant,
                subject=f"queue:{queue}",
                value=(now - since).total_seconds(),
                summary=f"a run in queue {queue} has been ready for {show_roughly(now - since)} and has not started",
            )


def _judge_monitors(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    del rule
    return None if seen.monitors is None else _find_broken(seen.monitors, now)


def _find_broken(monitors: Sequence[Monitor], now: datetime) -> Iterator[Fact]:
    for monitor in monitors:
        judged = judge_monitor(monitor, now)
        if judged.is_broken:
            yield Fact(
                tenant=judged.tenant,
                subject=f"monitor:{judged.name}",
                value=float(judged.facts.failures),
                summary=explain_monitor(judged, now),
            )


def _of_usage(
    find: Callable[[AlertRule, UsageSeen, datetime], Iterator[Fact]],
) -> Callable[[AlertRule, Seen, datetime], Found]:
    """Return how a rule judges that finds something in the usage."""

    def judge(rule: AlertRule, seen: Seen, now: datetime) -> Found:
        return None if seen.usage is None else find(rule, seen.usage, now)

    return judge


def _judge_failures(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    return None if seen.usage is None else find_failures(rule, seen.usage, now, seen.firing_of(rule))


def _judge_budgets(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    if seen.usage is None or seen.objectives is None:
        return None
    return find_burning(rule, seen.objectives, seen.usage, now, seen.firing_of(rule))


def _judge_forecast(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    del now
    if not looks_ahead_for(rule):
        return iter(())
    return None if seen.shortages is None else find_shortages(rule, seen.shortages, seen.disk_to_come)


def _judge_disk(rule: AlertRule, seen: Seen, now: datetime) -> Found:
    del now
    return _find_full_disk(rule, seen.disk) if seen.knows_disk else None


def _find_full_disk(rule: AlertRule, disk: Disk | None) -> Iterator[Fact]:
    if disk is None:
        return
    percent = 100 * disk.free_share
    if percent < (rule.threshold or 0):
        free = f"{show_percent(disk.free_share)} of it are free, {weigh(disk.free)} of {weigh(disk.size)}"
        summary = f"the disk of the store is nearly full: {free}, at {disk.path}"
        yield Fact(tenant=ALL_TENANTS, subject="disk", value=round(percent, 2), summary=summary)


_JUDGES: Mapping[RuleKind, Callable[[AlertRule, Seen, datetime], Found]] = MappingProxyType(
    {
        RuleKind.DEAD_LETTERS: _judge_dead_letters,
        RuleKind.NO_WORKERS: _judge_workers,
        RuleKind.MISSED_RUN: _judge_missed,
        RuleKind.WORKER_LOST: _judge_lost,
        RuleKind.STUCK_RUN: _judge_stuck,
        RuleKind.TOKEN_EXPIRY: _judge_tokens,
        RuleKind.SCHEDULER: _judge_scheduler,
        RuleKind.OLDEST_READY: _judge_oldest,
        RuleKind.MONITOR: _judge_monitors,
        RuleKind.START_LAG: _of_usage(find_late_starts),
        RuleKind.DURATION_SPIKE: _of_usage(find_spikes),
        RuleKind.FAILURE_RATE: _judge_failures,
        RuleKind.BUDGET: _judge_budgets,
        RuleKind.FORECAST: _judge_forecast,
        RuleKind.DISK: _judge_disk,
    }
)


def _lasts(rule: AlertRule, duration: timedelta) -> bool:
    return duration >= (rule.period or timedelta(0))
