"""The rule about keys of what runs once: S15. It needs the events of a history, in the order of their commits."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec, Run
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.model import Event, History, Replacement, Violation
from tools.judge.runs import Runs


@dataclass(slots=True)
class _Member:
    """A run that has a key, as it is after the events so far.

    Attributes:
        longer: how much later it may expire, at most, because it was debounced between its attempts.
    """

    run: Run
    spec: JobSpec
    inserted_at: datetime
    committed_at: datetime
    state: RunState = RunState.PENDING
    longer: timedelta = timedelta()

    @property
    def is_live(self) -> bool:
        return self.state not in FINAL_STATES

    def is_waiting(self, now: datetime) -> bool:
        """Say whether it may still start."""
        return self.is_live and self.state is not RunState.RUNNING and not self._has_expired(now)

    def may_wait(self, now: datetime) -> bool:
        """Say whether it may still start, or could if each time that it was debounced had moved its expiry."""
        return self.is_waiting(now - self.longer)

    def time_since(self, other: _Member) -> timedelta:
        """Return how much later it was made than another one.

        A request that was carried out late brought an earlier time. Keys that are over may be gone by then.
        """
        return max(self.inserted_at - other.inserted_at, self.committed_at - other.committed_at)

    def _has_expired(self, now: datetime) -> bool:
        if self.spec.expires_after is None:
            return False
        return self.run.due_at + self.spec.expires_after <= now


def judge_once(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S15: no run is made while another one of its key counts, and the newest payload goes to one that waits."""
    members: dict[object, list[_Member]] = defaultdict(list)
    by_id: dict[RunId, _Member] = {}
    replaced = {index: list[Replacement]() for index in range(len(history.events) + 1)}
    for replacement in history.replacements:
        replaced[replacement.place].append(replacement)
    for index, event in enumerate(history.events):
        yield from _judge_replacements(replaced[index], by_id, runs, counts)
        if event.is_stale or event.run_id is None:
            continue
        member = by_id.get(event.run_id)
        if member is not None:
            member.state = event.target
        elif event.what == "inserted":
            member = _member_of(event, runs)
            if member is not None:
                others = members[_key_of(member)]
                yield from _judge_new(member, others, runs, counts)
                others.append(member)
                by_id[event.run_id] = member
    yield from _judge_replacements(replaced[len(history.events)], by_id, runs, counts)
    newest = {replacement.run_id: replacement.payload for replacement in history.replacements}
    for run_id, payload in newest.items():
        run = runs.by_id.get(run_id)
        if run is not None and run.payload != payload:
            yield runs.accuse("S15", run_id, f"has the payload {run.payload!r}, but last got {payload!r}")


def _member_of(event: Event, runs: Runs) -> _Member | None:
    assert event.run_id is not None
    run = runs.by_id.get(event.run_id)
    spec = None if run is None else runs.spec_of(run)
    if run is None or spec is None or not (spec.unique or spec.debounce or spec.throttle):
        return None
    return _Member(run, spec, event.at, event.committed_at or event.at)


def _key_of(member: _Member) -> object:
    """Return what tells one key from another. All keys of the simulator are `$.key`."""
    spec, run = member.spec, member.run
    option = "unique" if spec.unique else "debounce" if spec.debounce else "throttle"
    scope = spec.unique.scope if spec.unique else None
    payload = json.loads(run.payload or b"{}")
    return run.job_id, option, scope, payload.get("key")


def _judge_new(new: _Member, others: list[_Member], runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """Hold a new run against those of its key that came before."""
    spec, now = new.spec, new.inserted_at
    if spec.throttle is not None:
        step = spec.throttle.per / spec.throttle.limit
        later, passed = new, timedelta()
        for number, other in enumerate(reversed(others), start=2):
            passed += max(later.time_since(other), timedelta())  # each by the time that excuses it
            later = other
            if number > spec.throttle.limit + passed / step + 1e-6:
                why = f"{number} runs of its key since {other.inserted_at.isoformat()}"
                yield runs.accuse("S15", new.run.id, why)
        counts["once_throttle"] += bool(others)
        return
    kind = "debounce"
    if spec.unique is not None:
        kind = spec.unique.scope.value
    # A run that was taken, and waits for another attempt, does not get back what a later one has.
    holders = others[-1:] if kind in {"queued", "debounce"} else others
    for other in holders:
        if kind == "period":
            assert spec.unique is not None
            assert spec.unique.period is not None
            own = other.spec.unique.period if other.spec.unique is not None else None
            # A key that is over may be gone by the time at which a request takes effect that brought an earlier one,
            # and by the time that it brought, where its server's clock is ahead.
            counts_still = own is not None and max(now, new.committed_at) - other.inserted_at < own
        elif kind == "live" and other.state is RunState.RUNNING:
            counts_still = True
        else:
            counts_still = other.is_waiting(now)
        if counts_still:
            why = f"was made while {format_run_id(other.run.id)} of its key was {other.state} ({kind})"
            yield runs.accuse("S15", new.run.id, why)
    counts[f"once_{kind}"] += bool(others)


def _judge_replacements(
    replaced: list[Replacement], by_id: dict[RunId, _Member], runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    for replacement in replaced:
        member = by_id.get(replacement.run_id)
        counts["once_replaced"] += 1
        if member is None or not member.may_wait(replacement.at):
            state = "unknown" if member is None else member.state
            yield runs.accuse("S15", replacement.run_id, f"got another payload while it was {state}")
        elif member.state is RunState.RETRYING and member.spec.debounce is not None:
            member.longer += member.spec.debounce.wait
