"""S29 and L10: a call has no more runs than its job allows, of one key, and no run waits longer for others."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from tools.judge.delays import BOUND, Occupation, Times, waits_of_quarantined
from tools.judge.model import Effect, History, Violation
from tools.judge.pauses import hold_times
from tools.judge.runs import Runs
from tools.judge.scopes import is_ever_capped


def judge_batches(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S29: what one call was given."""
    calls: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if effect.call is not None:
            calls[effect.worker, effect.call].append(effect)
    for effects in calls.values():
        members = [runs.by_id[effect.run_id] for effect in effects]
        spec = runs.spec_of(members[0])
        if spec is None or spec.batch is None:
            continue
        counts["batches_called"] += 1
        counts["batches_of_many"] += len(members) > 1
        counts["batches_full"] += len(members) == spec.batch.size
        counts["batches_not_full"] += 1 < len(members) < spec.batch.size
        if len(members) > spec.batch.size:
            yield runs.accuse("S29", members[0].id, f"{len(members)} runs in a call, of {spec.batch.size}")
        if len({(member.job_id, member.version) for member in members}) > 1:
            yield runs.accuse("S29", members[0].id, "a call with runs of several jobs or versions")
        path = (spec.batch.key or "").removeprefix("$.")
        if path and len({json.loads(member.payload or b"null")[path] for member in members}) > 1:
            yield runs.accuse("S29", members[0].id, f"a call with several values of {path}")


def judge_waits(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """L10: away from faults, no run waits longer for others than its job says, while a slot is free.

    What was paused, or has a cap, waits for that as well; other rules are about it.
    """
    troubled = Times((fault.at - BOUND, fault.until + 3 * history.lease) for fault in history.faults)
    quarantined = Times(waits_of_quarantined(history, runs))
    held = Times((begin, end + BOUND) for begin, end in hold_times(history))
    occupation = Occupation(history, runs)
    for run in history.runs:
        spec, starts = runs.spec_of(run), runs.effects.get(run.id)
        if spec is None or spec.batch is None or not starts or is_ever_capped(history, run):
            continue
        start, due = min(effect.started_at for effect in starts), max(run.due_at, run.created_at)
        latest = due + spec.batch.wait + BOUND
        if any(times.meet(due, start) for times in (troubled, quarantined, held)):
            continue
        if occupation.most(due, max(start, due)) < history.slots:
            counts["waits_for_batches"] += 1
            if start > latest:
                late = start - due - spec.batch.wait
                yield runs.accuse("L10", run.id, f"started {late} after it had waited for its batch")
