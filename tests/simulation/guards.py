"""The product's guards, and how each is switched off to see whether the judge notices.

A guard is switched off by changing the source text of the modules that hold it, before they are imported, in a
process of its own (`install`), so only the standard library is imported here. A guard that has moved is an error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import decode_source
from types import CodeType, ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one module's text; `old` occurs there exactly once."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard, or a pair that guards the same thing.

    Attributes:
        protects: what goes wrong without it.
        staging: how the drawn plans are changed so that it shows, by its name in `staging`; empty: not at all.
    """

    name: str
    protects: str
    edits: tuple[Edit, ...]
    staging: str = ""


_CLOCKS = "mainspring.core.clocks"
_FENCING = "mainspring.core.fencing"
_APPLYING = "mainspring.core.applying"
_OUTLINES = "mainspring.core.outlines"
_CLAIMS = "mainspring.stores.memory.claims"
_LEASES = "mainspring.stores.memory.leases"
_PAUSED = "ClockMove(next_fire=None, is_paused=True"
_TABLES = "mainspring.stores.memory.tables"
_CATCH_UP = "mainspring.engine.scheduling.catch_up"
_ALERTS = "mainspring.stores.memory.alerts"
_FLOWS = "mainspring.stores.memory.flows"
_CHECKPOINTS = "mainspring.stores.memory.checkpoints"
_FIRE_COUNTS = "mainspring.core.fire_counts"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "conditional advance",
        "one fire, one run: two nodes that planned the same fire both win it",
        (
            Edit(
                _CLOCKS,
                "return _stands_at(clock, revision, fire_at) and (fired_through is None or fired_through < fire_at)",
                "return True",
            ),
            Edit(_TABLES, "return epochs.get(shard) != self.shards[shard].epoch", "return False"),
        ),
    ),
    Guard(
        "revision match",
        "a plan made before an edit, a pause or a delete does not win afterwards",
        (
            Edit(
                _CLOCKS,
                "return _stands_at(clock, revision, fire_at) and (fired_through is None or fired_through < fire_at)",
                "return fired_through is None or fired_through < fire_at",
            ),
        ),
    ),
    Guard(
        "edit against a moved clock",
        "an edit that was decided on an outdated clock does not take effect",
        (
            Edit(
                _CLOCKS,
                "        return _MOVED\n    if is_name_taken:",
                "        pass\n    if is_name_taken:",
            ),
            Edit(
                _CLOCKS,
                "        return _MOVED\n    return Decision(ChangeVerdict.DONE, " + _PAUSED,
                "        pass\n    return Decision(ChangeVerdict.DONE, " + _PAUSED,
            ),
        ),
    ),
    Guard(
        "shard epoch",
        "a scheduler whose shards were taken over can no longer write",
        (Edit(_TABLES, "return epochs.get(shard) != self.shards[shard].epoch", "return False"),),
    ),
    Guard(
        "token match",
        "a late worker's report does not end another worker's attempt",
        (Edit(_FENCING, " and run.token == token", ""),),
    ),
    Guard(
        "session match",
        "no other session ends the attempt of a session, even with a guessed token",
        (
            Edit(_FENCING, " and run.session_id == session_id", ""),
            Edit("mainspring.engine.gateway", " or run.session_id != session_id:", ":"),
        ),
    ),
    Guard(
        "token bump at loss",
        "a worker that lost its lease is refused even before the run is claimed again",
        (
            Edit(_APPLYING, "run.token if is_final else run.token + 1", "run.token"),
            Edit(
                _FENCING,
                "return run.state is RunState.RUNNING and",
                "return run.state not in {'SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED'} and",
            ),
            Edit(_FENCING, "run.session_id == session_id", "run.session_id in {session_id, None}"),
            Edit(_CLAIMS, "    assert run.session_id is not None\n", ""),
            Edit(_CLAIMS, "tables.sessions.get(run.session_id)", "None"),
        ),
    ),
    Guard(
        "state match",
        "a run that has ended stays ended",
        (Edit(_FENCING, "return run.state is RunState.RUNNING and", "return"),),
    ),
    Guard(
        "live session at the claim",
        "a worker that was declared dead gets nothing",
        (Edit(_LEASES, "if session is None or not session.is_live:", "if session is None:"),),
    ),
    Guard(
        "submit straight to a slot",
        "a run that is inserted as claimed has a live session to hold it",
        (Edit(_CLAIMS, "if session is not None and session.is_live and", "if session is not None and"),),
    ),
    Guard(
        "repeat of a claim",
        "a claim whose answer was lost gets the same leases again",
        (
            Edit(_LEASES, "if turn is Turn.REPEAT:", "if False:"),
            Edit(_LEASES, "if turn is Turn.LATE else", "if turn is not Turn.NEW else"),
            Edit(
                "mainspring.core.reconciliation",
                "unknown=tuple(sorted(missing.intersection(missing_before))),",
                "unknown=(),",
            ),
        ),
    ),
    Guard(
        "retry limit",
        "a run that keeps failing ends",
        (Edit("mainspring.core.retry", "return attempt <= policy.max_retries", "return True"),),
    ),
    Guard(
        "rule that fails at once",
        "a failure that a rule calls final is not repeated",
        (
            Edit(
                "mainspring.core.outcomes",
                "not failure.is_retryable if rule is None else rule.then is Then.FAIL",
                "not failure.is_retryable",
            ),
        ),
    ),
    Guard(
        "most snoozes",
        "a run that a rule calls again and again ends",
        (Edit("mainspring.core.outcomes", "if facts.uncounted >= rule.max_snoozes:", "if False:"),),
    ),
    Guard(
        "rule for crashes",
        "a run whose worker died does what its rule says",
        (Edit("mainspring.core.outcomes", "rule = find_crash_rule(spec.retry)", "rule = None"),),
    ),
    Guard(
        "crash blame",
        "a run that keeps killing its worker ends",
        (Edit("mainspring.core.outcomes", "elif quarantined_crashes >= spec.poison_limit:", "elif False:"),),
    ),
    Guard(
        "idempotency key",
        "a repeated submission makes one run",
        (
            Edit(
                "mainspring.core.admission",
                "if known is not None and known.expires_at > now:",
                "if False:",
            ),
        ),
    ),
    Guard(
        "settled dead letter",
        "a dead letter is redriven by one run, or discarded",
        (
            Edit(
                "mainspring.stores.memory.runs",
                "if repeated is not None and repeated.settled is not None:",
                "if False:",
            ),
            Edit(
                "mainspring.engine.usecases.redriving",
                "key=redrive_key(run.id),",
                'key=f"{redrive_key(run.id)} {now} {is_newest}",',
            ),
        ),
    ),
    Guard(
        "epoch on alerts",
        "an alert is told once: a server that was stopped for long saves what it had judged before",
        (
            Edit(
                _ALERTS,
                "            return AlertsSaved.FENCED\n        if revision",
                "            pass\n        if revision",
            ),
            Edit(_ALERTS, "        if revision != self._alerts.revision:", "        if False:"),
        ),
        staging="with_stopped_watchdogs",
    ),
    Guard(
        "revision of alerts",
        "an alert is told once: a verdict arrives late, after its server has judged again",
        (Edit(_ALERTS, "        if revision != self._alerts.revision:", "        if False:"),),
        staging="with_late_verdicts",
    ),
    Guard(
        "audit of what changed",
        "what was refused is not in the audit",
        (
            Edit(
                "mainspring.core.audit",
                "    if not audit or not any(changed):\n        return []",
                "    if not audit:\n        return []",
            ),
            Edit("mainspring.core.audit", " if changed[item.place]]", "]"),
        ),
        staging="with_tenants_and_tokens",
    ),
    Guard(
        "audit of a change",
        "what was acknowledged is in the audit",
        (
            Edit(
                "mainspring.engine.usecases.jobs",
                "[delete_clock(job, spec, now)], now=now, audit=audit)",
                "[delete_clock(job, spec, now)], now=now)",
            ),
        ),
        staging="with_tenants_and_tokens",
    ),
    Guard(
        "tenant of a worker",
        "a worker that is bound to a tenant gets no other's runs",
        (
            Edit(
                "mainspring.engine.claiming.abilities",
                "self.tenant: str | None = offer.tenant",
                "self.tenant: str | None = None",
            ),
            Edit(
                "mainspring.engine.claiming.abilities",
                "Reach(self.serve, tenant=offer.tenant)",
                "Reach(self.serve)",
            ),
        ),
        staging="with_tenants_and_tokens",
    ),
    Guard(
        "count of ends",
        "the counters say how many runs have ended, also if a batch of reports is stored at once",
        (Edit("mainspring.engine.claiming.tally", "series.ends[to] += count", "series.ends[to] += 1"),),
        staging="with_tenants_and_tokens",
    ),
    Guard(
        "revision of accounts and tokens",
        "a token that was revoked works nowhere after two seconds",
        (
            Edit(
                "mainspring.engine.usecases.identities",
                "if revision != self._revision:  #",
                "if self._revision == 0 and revision:  #",
            ),
        ),
        staging="with_tenants_and_tokens",
    ),
    Guard(
        "holder of a key",
        "a key of what runs once has one run at a time",
        (
            Edit(
                "mainspring.stores.memory.once",
                "HeldKey(row.run_id, row.expires_at, _holder_of(run))",
                "HeldKey(row.run_id, None, None)",
            ),
        ),
    ),
    Guard(
        "no other payload for a run under way",
        "a run that a worker has taken keeps its payload",
        (
            Edit(
                "mainspring.core.once",
                "return holder is not None and not holder.is_running and not is_expired(holder.expires_at, now)",
                "return holder is not None and not is_expired(holder.expires_at, now)",
            ),
        ),
    ),
    Guard(
        "jitter outside of the fire key",
        "every node names a fire by its nominal time",
        (
            Edit(
                "mainspring.engine.scheduling.run_factory",
                "SCHEDULED,\n        fire_at=fire_at,\n        due_at=due_at,",
                "SCHEDULED,\n        fire_at=due_at,\n        due_at=due_at,",
            ),
        ),
    ),
    Guard(
        "jittered commit",
        "a herd with jitter is spread for the scheduler, not only for the workers",
        (
            Edit(
                "mainspring.core.planning",
                "    start = jittered(job_id, fire_at, spec.jitter)\n",
                "    start = fire_at\n",
            ),
        ),
    ),
    Guard(
        "grace of a set",
        "a late one-off fire is for the misfire policy of its job",
        (Edit(_OUTLINES, "due_at <= now and now - due_at <= outline.grace", "due_at <= now"),),
    ),
    Guard(
        "overlap before a set",
        "a one-off job that skips overlaps fires outside of sets, where its live run counts",
        (Edit(_OUTLINES, " or spec.overlap is not Overlap.ALLOW", ""),),
    ),
    Guard(
        "expiry in a set",
        "a run that was made in a set expires as its job says",
        (Edit(_OUTLINES, "expires_after=spec.expires_after", "expires_after=None"),),
    ),
    Guard(
        "at most once",
        "a run that started once never starts again",
        (
            Edit(
                "mainspring.core.outcomes",
                "elif spec.delivery is Delivery.AT_MOST_ONCE or (",
                "elif (",
            ),
        ),
    ),
    Guard(
        "overlap",
        "a job that skips overlaps has one live run",
        (
            Edit(
                "mainspring.core.admission",
                "        if reason is None and is_live:\n",
                "        if False:\n",
            ),
        ),
    ),
    Guard(
        "one line",
        "runs of a job that follow one another stand in one line, and one runs at a time",
        (
            Edit(
                "mainspring.core.limits",
                "max_running=1, hold=Hold.RUN",
                "hold=Hold.RUN",
            ),
        ),
    ),
    Guard(
        "a line waits for what is live",
        "a line that an edit begins waits for the end of what was live before",
        (
            Edit(
                "mainspring.stores.memory.limits",
                "    if spec.overlap.lines_up:\n        _begin_line(",
                "    if False:\n        _begin_line(",
            ),
        ),
    ),
    Guard(
        "one waits",
        "with queue_one, a fire is skipped while a run waits",
        (Edit("mainspring.core.overlap", "is_live=live.is_any_waiting", "is_live=False"),),
    ),
    Guard(
        "cancel what is live",
        "with cancel_running, a fire cancels the live runs of its job",
        (
            Edit(
                "mainspring.core.overlap",
                "        tuple(sorted(run_id for run_id, _ in live.runs)),\n",
                "        (),\n",
            ),
        ),
    ),
    Guard(
        "failures in a row",
        "a success between failures keeps a job from pausing itself",
        (
            Edit("mainspring.core.failures", " and not has_succeeded", ""),
            Edit(
                "mainspring.stores.memory.failures",
                "if has_succeeded or len(failed_at) == threshold:",
                "if len(failed_at) == threshold:",
            ),
        ),
    ),
    Guard(
        "failures since the last change",
        "after a resume, the failures from before do not count",
        (Edit("mainspring.core.failures", " and min(failed_at) > since", ""),),
    ),
    Guard(
        "cancel sticks",
        "a run that was asked to cancel is not tried again",
        (
            Edit(_APPLYING, "if run.is_cancel_requested and state is not RunState.SUCCEEDED:", "if False:"),
            Edit(
                "mainspring.core.outcomes",
                "    if facts.is_cancel_requested:\n"
                '        after = _After(RunState.CANCELLED, "cancelled")\n'
                "    elif is_final",
                "    if is_final",
            ),
        ),
    ),
    Guard(
        "nothing before its time",
        "a run that is delayed or backs off waits",
        (
            Edit(
                _CLAIMS,
                "index.between(None if low is None else (low,), (now, LAST_ID))",
                "index.between(None if low is None else (low,), None)",
            ),
        ),
    ),
    Guard(
        "three periods of silence",
        "a worker whose heartbeat is a little late is not declared dead",
        (Edit("mainspring.core.liveness", "PERIODS_OF_SILENCE = 3", "PERIODS_OF_SILENCE = 1"),),
    ),
    Guard(
        "room under a limit",
        "no more runs of a key are under way than its limit says",
        (
            Edit(
                "mainspring.core.holding",
                "return self._free > 0 and (self._left > 0 or run_id in self._holders)",
                "return True",
            ),
        ),
    ),
    Guard(
        "permits of a rate",
        "no more runs of a key start than its rate allows",
        (
            Edit(
                "mainspring.core.rates",
                "return self.burst if self.level is None else floor(self.level + 1e-9)",
                "return self.burst",
            ),
        ),
    ),
    Guard(
        "place of a lease",
        "a place counts only as long as its run says the same, so none leaks",
        (
            Edit(
                "mainspring.stores.memory.lined_up",
                "if run is None or run.state in FINAL_STATES:\n        return False",
                "if run is None:\n        return False",
            ),
            Edit(
                "mainspring.stores.memory.lined_up",
                "return is_by_run or (run.state is RunState.RUNNING and run.token == token)",
                "return True",
            ),
        ),
    ),
    Guard(
        "place for the whole run",
        "with `hold: run`, a run keeps its place between its attempts",
        (
            Edit(
                "mainspring.stores.memory.lined_up",
                "is_by_run = tables.limits.rules[key.tenant, key.limit].hold is Hold.RUN",
                "is_by_run = False",
            ),
        ),
    ),
    Guard(
        "size of a batch",
        "one call has no more runs than its job allows",
        (
            Edit(
                "mainspring.core.batching",
                "sizes = [line.size] * min(full, most)",
                "sizes = [line.size * min(full, most)] if full and most else []",
            ),
            Edit("mainspring.core.batching", "if taken >= size:", "if False:"),
        ),
    ),
    Guard(
        "wait of a batch",
        "a run does not wait longer for others than its job says",
        (Edit("mainspring.core.batching", "if left and full < most and", "if False and"),),
    ),
    Guard(
        "key of a batch",
        "one call has runs of one key only",
        (
            Edit(
                "mainspring.core.limits",
                'parse(spec.batch.key) if spec.batch.key else KeyPath("")',
                'KeyPath("")',
            ),
        ),
    ),
    Guard(
        "weights of tenants",
        "tenants that wait beside each other get shares by weight",
        (Edit("mainspring.core.shares", "return self.weights.get(party, 1.0)", "return 1.0"),),
        staging="without_faults",
    ),
    Guard(
        "oldest first",
        "in a queue that goes by age, no tenant's run waits behind younger ones of others",
        (Edit("mainspring.core.pools", "return rules.order is QueueOrder.FIFO", "return False"),),
    ),
    Guard(
        "no claim after a silence",
        "a worker that may have been declared dead does not claim runs that it can only hand back",
        (
            Edit(
                "mainspring.worker.claiming",
                "if self._session.may_be_lost():",
                "if not self._session.may_be_lost:",
            ),
        ),
    ),
    Guard(
        "policy epoch",
        "a server that has not heard of a pause yet gives nothing of it out",
        (
            Edit(
                "mainspring.core.claiming",
                "return Turn.NEW if policy_epoch == session_epoch else Turn.OUTDATED",
                "return Turn.NEW",
            ),
        ),
    ),
    Guard(
        "places of what runs",
        "a cap that is set counts the runs that are under way already",
        (
            Edit(
                "mainspring.stores.memory.caps",
                "                self._count_running(cap.key)",
                "                self._tables.limits.key_of(CLUSTER, cap.key.run_key)",
            ),
        ),
    ),
    Guard(
        "caps of a claim",
        "a claim of a lane with a cap needs places under it",
        (
            Edit(
                "mainspring.engine.claiming.lane_choices",
                "caps=self._lanes.capped.of((*kept, *quarantined)),",
                "",
            ),
        ),
    ),
    Guard(
        "epoch and lanes together",
        "a claim that carries an epoch has been chosen by its pauses",
        (
            Edit(
                "mainspring.engine.claiming.held_lanes",
                "return self._restrictions.epoch",
                "return (self._news or self._restrictions).epoch",
            ),
        ),
    ),
    Guard(
        "fires of a pause",
        "fires that fall due in a pause that skips them do not become work",
        (
            Edit(
                "mainspring.core.pauses",
                "return self.mode is PauseMode.SKIP and self.since <= due_at and self.is_on(due_at)",
                "return False",
            ),
        ),
    ),
    Guard(
        "lanes of a blackout",
        "nothing of it is given out while its calendar holds",
        (
            Edit(
                "mainspring.core.pauses",
                "window.is_on(now) and window.covers(lane) for window in self.blackouts\n        )",
                "False for _ in self.blackouts\n        )",
            ),
        ),
    ),
    Guard(
        "calendar of a blackout",
        "a new version of the calendar holds for all servers from its write on",
        (Edit("mainspring.stores.memory.restrictions", "    if is_moved:", "    if is_moved and not held:"),),
    ),
    Guard(
        "fires of a blackout",
        "fires that fall due in a blackout that skips them do not become work",
        (
            Edit(
                "mainspring.core.blackouts",
                "return one.mode is PauseMode.SKIP and one.since <= due_at and self.is_on(due_at)",
                "return False",
            ),
        ),
    ),
    Guard(
        "expiry at the claim",
        "a run that expired does not start",
        (
            Edit(
                "mainspring.core.claiming",
                "return expires_at is not None and expires_at <= now",
                "return False",
            ),
        ),
    ),
    Guard(
        "expiry of a queue",
        "a run of a job without an expiry expires as its queue says",
        (Edit("mainspring.core.expiry", "after = queues.get(spec.queue)", "after = None"),),
    ),
    Guard(
        "permit of a submission",
        "no submission of a tenant with a rate is stored without a permit",
        (
            Edit(
                "mainspring.engine.usecases.intake",
                "[until] = await self._permits([PermitRequest(tenant, count)])",
                "until = None",
            ),
        ),
    ),
    Guard(
        "rate of a tenant",
        "a tenant gets no more permits to submit than its rate gives",
        (Edit("mainspring.core.intake", "if bucket.permits >= needed:", "if bucket.rate:"),),
    ),
    Guard(
        "cursor and runs of a backfill together",
        "a crash between the two makes no fire twice",
        (
            Edit(
                "mainspring.engine.scheduling.backfills",
                "        results = await self._store.advance_backfills(steps, epochs=epochs, now=now)\n",
                "        from dataclasses import replace\n"
                "        runs = [replace(step, cursor_to=step.cursor_from, is_section_done=False, is_done=False)\n"
                "                for step in steps]\n"
                "        results = await self._store.advance_backfills(runs, epochs=epochs, now=now)\n"
                "        moves = [replace(step, runs=(), skipped=0) for step in steps]\n"
                "        await self._store.advance_backfills(moves, epochs=epochs, now=now)\n",
            ),
        ),
    ),
    Guard(
        "done fires of a backfill",
        "what succeeded is not done again",
        (
            Edit(
                "mainspring.engine.scheduling.backfills",
                "plan_step(window.fires, window.done, room",
                "plan_step(window.fires, set(), room",
            ),
        ),
    ),
    Guard(
        "live runs of a backfill",
        "a backfill adds no more to the backlog than it may",
        (
            Edit(
                "mainspring.core.backfill",
                "return work.options.pace.room(permits, work.live)",
                "return permits.permits",
            ),
        ),
    ),
    Guard(
        "rate of a backfill",
        "a backfill is made as slowly as it should be",
        (
            Edit(
                "mainspring.core.backfill",
                "return work.options.pace.room(permits, work.live)",
                "return max(work.options.max_live - work.live, 0)",
            ),
        ),
    ),
    Guard(
        "live runs of a catch-up",
        "missed fires are not all put into the queue at once",
        (Edit(_CATCH_UP, "pace.room(permits, work.live)", "permits.permits"),),
    ),
    Guard(
        "rate of a catch-up",
        "missed fires are made up for as slowly as their job says",
        (Edit(_CATCH_UP, "pace.room(permits, work.live)", "max(pace.max_live - work.live, 0)"),),
    ),
    Guard(
        "permits go on with the job",
        "a crash, or the next outage's range, brings no new permits",
        (Edit(_CATCH_UP, "pace.permits(work.level, work.level_at, now)", "pace.permits(None, None, now)"),),
    ),
    Guard(
        "reserve",
        "a tenant that is short of reserved slots gets the next free seats",
        (Edit("mainspring.core.reserves", "if not self._short_since:", "if True:"),),
    ),
    Guard(
        "count of reserved slots",
        "slots that a tenant lost elsewhere do not count as its own",
        (Edit("mainspring.engine.claiming.reserved", "reserves.count(counts or {}, now)", "pass"),),
        staging="with_lost_workers",
    ),
    Guard(
        "what is preemptible",
        "only what may be stopped is stopped",
        (
            Edit(
                "mainspring.core.preemption",
                "return spec.preemptible and spec.delivery is not Delivery.AT_MOST_ONCE",
                "return True",
            ),
        ),
    ),
    Guard(
        "tiers of preemption",
        "only what is less urgent makes room",
        (
            Edit(
                "mainspring.core.preemption",
                "return run.tier > waiter.lane.priority",
                "return True",
            ),
        ),
    ),
    Guard(
        "members of a cluster",
        "a cluster that runs does not start again",
        (
            Edit(
                "mainspring.stores.memory.nodes",
                "node_id not in nodes or any(row.is_member for row in nodes.values())",
                "node_id not in nodes",
            ),
            Edit(
                "mainspring.engine.scheduling.membership",
                "elif not members and not self.is_held",
                "elif not self.is_held",
            ),
        ),
    ),
    Guard(
        "record of a start that gives way",
        "a fire at start that was not made before the next start is on record",
        (Edit("mainspring.core.starts", "gaps = ((next_fire_at, REASON_NEXT_START),)", "gaps = ()"),),
    ),
    Guard(
        "count of fires",
        "a job with a maximum of fires has no more of them",
        (Edit(_FIRE_COUNTS, "left -= sum(why(fire_at) is None for fire_at in plan.fires)", "pass"),),
    ),
    Guard(
        "end of a counted catch-up",
        "no more fires are caught up than are left of a maximum",
        (Edit(_FIRE_COUNTS, "one if fires_left else replace(one, to_at=counted[-1])", "one"),),
    ),
    Guard(
        "count that an edit keeps",
        "an edit of something else does not start the count of fires from the beginning",
        (
            Edit(
                _FIRE_COUNTS,
                "return new.trigger == old.trigger and new.max_fires == old.max_fires",
                "return new.trigger == old.trigger and new.max_fires == old.max_fires is None",
            ),
        ),
    ),
    Guard(
        "end before the next fire",
        "a fire after the end waits for that end",
        (
            Edit(
                "mainspring.core.ends",
                "return self.run is not None and self.run.finished_at is None",
                "return False",
            ),
            Edit(
                "mainspring.stores.memory.ends",
                "return run is None or run.finished_at is not None",
                "return True",
            ),
        ),
    ),
    Guard(
        "revision and mail of a turn",
        "a flow's turn is decided from its newest state: a late one would start steps again",
        (
            Edit(
                _FLOWS,
                "if flows.revision(turn.flow_id) != turn.revision or not self._has_all(turn):",
                "if flows.revision(turn.flow_id) is None:",
            ),
            Edit(_FLOWS, "del flows.mail[shard][place.number]", "flows.mail[shard].pop(place.number, None)"),
        ),
        staging="with_workflows",
    ),
    Guard(
        "instant of a timer",
        "a flow wakes once a timer is due, and not before",
        (
            Edit(
                "mainspring.core.workflows.timers",
                "count = sum(timer.at <= now for timer in timers)",
                "count = len(timers)",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "early answers",
        "an answer that comes before its step waits is kept for it: here, it is lost",
        (
            Edit(
                "mainspring.core.workflows.waiting",
                "wait.takes(mail.kind) and can_answer(state.steps[mail.step])",
                "wait.takes(mail.kind) and state.steps[mail.step] == _SUSPENDED",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "look for an event",
        "an event that came before the step waits for it counts: here, it is not looked for",
        (
            Edit(
                "mainspring.stores.memory.flow_tables",
                "if _is_met(wait, event) and event.received_at >= wait.since]",
                "if event.received_at < wait.since and _is_met(wait, event)]",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "length of a sleep",
        "a step that sleeps ends once its time has passed: here, at once",
        (
            Edit(
                "mainspring.core.workflows.waiting",
                "return self._now + wait.sleep",
                "return self._now",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "most items at once",
        "a map has so many items under way at once, at most",
        (
            Edit(
                "mainspring.core.workflows.maps",
                "return left if own.max_parallel is None else min(left, own.max_parallel - state.live)",
                "return left",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "pause of a workflow",
        "a workflow that is paused starts nothing",
        (
            Edit(
                "mainspring.core.workflows.turn",
                "room = 0 if is_paused else most_starts",
                "room = most_starts",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "steps at the end",
        "a step at the end starts once all others have ended",
        (
            Edit(
                "mainspring.core.workflows.plan",
                "if not (parents[step] or plan.at_end[step])]",
                "if not parents[step]]",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "order of undos",
        "what was done last is undone first",
        (Edit("mainspring.core.workflows.undoing", "for step in reversed(ends)", "for step in ends"),),
        staging="with_workflows",
    ),
    Guard(
        "steps taken over",
        "a workflow that is run again takes over what had succeeded: here, nothing",
        (Edit("mainspring.core.workflows.seeds", "    if not taken:\n", "    if taken:\n"),),
        staging="with_workflows",
    ),
    Guard(
        "rule of a step",
        "a step starts only once its rule allows it: here, once one of its parents has ended",
        (
            Edit(
                "mainspring.core.workflows.rules",
                "    if parents.failed:\n        return _UPSTREAM_FAILED\n    if parents.open:\n        return _WAIT\n"
                "    return _SKIP if parents.skipped else _RUN",
                "    if parents.failed:\n        return _UPSTREAM_FAILED\n"
                "    if parents.open and not parents.succeeded:\n        return _WAIT\n"
                "    return _SKIP if parents.skipped else _RUN",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "values between steps",
        "a step gets what the step that it names has returned: here, nothing",
        (
            Edit(
                "mainspring.engine.workflows.values",
                "        return run.result\n",
                "        return None\n",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "mail of an end",
        "a flow is told of each end of its steps",
        (
            Edit(
                _TABLES,
                "if run.place is not None and run.state in FINAL_STATES:",
                "if run.place is not None and run.state is RunState.SUCCEEDED:",
            ),
            Edit(_FLOWS, "row.live > live + told and made > live", "row.live < 0"),
        ),
        staging="with_workflows",
    ),
    Guard(
        "lease that is handed over",
        "a workflow begins once: who had lost its run, or has begun it already, does not begin it again",
        (
            Edit(
                _FLOWS,
                "            or not is_held(run, start.token, start.session_id)\n",
                "            or run.session_id is None\n",
            ),
        ),
        staging="with_workflows",
    ),
    Guard(
        "lease of kept steps",
        "what a late holder has come to is not kept, so that it never takes the place of what the next one does",
        (
            Edit(
                _CHECKPOINTS,
                "if run is None or not is_held(run, item.token, item.session_id):",
                "if run is None:",
            ),
        ),
        staging="with_durable_functions",
    ),
    Guard(
        "what is kept stands",
        "what is kept of a step is not written again",
        (Edit(_CHECKPOINTS, "if (item.name, item.number) in kept:", "if kept is None:"),),
        staging="with_durable_functions",
    ),
    Guard(
        "reading of kept steps",
        "an attempt knows what those before have kept: here, only from the third lease on",
        (Edit("mainspring.sdk.durable", "self.attempt.token > 1:", "self.attempt.token > 3:"),),
        staging="with_durable_functions",
    ),
    Guard(
        "rest of a sleep",
        "a function that sleeps goes on once its time has come: here, once a tenth of it is over",
        (
            Edit(
                "mainspring.sdk.durable",
                "min(self._wakes) - self._loop.time()",
                "(min(self._wakes) - self._loop.time()) / 10",
            ),
            Edit(
                "mainspring.sdk.durable",
                "left = (began - self._now()).total_seconds() + seconds",
                "left = (began - self._now()).total_seconds() + seconds / 10",
            ),
        ),
        staging="with_durable_functions",
    ),
    Guard(
        "steps before poison",
        "a run that gets further from crash to crash is no poison",
        (Edit(_CHECKPOINTS, "        run.quarantined_crashes = 0\n", ""),),
        staging="with_durable_functions",
    ),
)


def find_guard(name: str) -> Guard:
    """Return the guard of that name.

    Raises:
        KeyError: there is none.
    """
    return {guard.name: guard for guard in GUARDS}[name]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return a module's text with a guard switched off.

    Raises:
        ValueError: the text of the guard is not there exactly once: it has moved, and so must its entry here.
    """
    for edit in edits:
        if text.count(edit.old) != 1:
            raise ValueError(f"{edit.module} holds {text.count(edit.old)} times: {edit.old}")
        text = text.replace(edit.old, edit.new)
    return text


def install(guard: Guard) -> None:
    """Switch a guard off in this process; its modules must not have been imported yet.

    Raises:
        RuntimeError: one of them has been.
    """
    loaded = [edit.module for edit in guard.edits if edit.module in sys.modules]
    if loaded:
        raise RuntimeError(f"already imported: {', '.join(loaded)}")
    sys.meta_path.insert(0, _Finder(guard))


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from its changed text, past the cache of compiled ones."""

    edits: tuple[Edit, ...] = ()

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = apply_edits(decode_source(self.get_data(path)), self.edits)
        code: CodeType = compile(text, path, "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        edits = tuple(edit for edit in self._guard.edits if edit.module == fullname)
        if not edits:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.edits = edits
        spec.loader = loader
        return spec
