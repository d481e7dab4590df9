"""The figures of a campaign: what the judge counted, in the words of whoever reads one line of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from mainspring.core.ids import RunId
from tests.chaos.plan import Plan
from tests.chaos.trials import Outcome
from tests.chaos.workload import TICK
from tools.judge import History, Violation

_WORDS = {
    **dict.fromkeys(("S3", "S6", "S27"), "lost"),
    **dict.fromkeys(("S2", "S4"), "doubled"),
    **dict.fromkeys(("S5", "S7"), "unexplained"),
}
_LATE = timedelta(seconds=1)
"""The product's promise for a start."""
_NO_RECORD = " is a fire time with 0 runs and 0 fire ranges on record"


def name_violation(violation: Violation) -> str:
    """Say of a broken rule what it means: lost, missed, doubled, unexplained, or other."""
    if violation.rule == "S1":
        return "missed" if any(line.endswith(_NO_RECORD) for line in violation.story) else "doubled"
    return _WORDS.get(violation.rule, "other")


def longest_delay(fallen: Sequence[datetime], signs: Iterable[datetime]) -> float:
    """Return the longest time in seconds from a kill of the server to the next sign of life.

    Where another kill comes before that sign, it is told from the last one.
    """
    kills = sorted(fallen)
    longest = 0.0
    for sign in sorted(signs):
        before = bisect_left(kills, sign)
        if before:
            longest = max(longest, (sign - kills[before - 1]).total_seconds())
            kills = kills[before:]
    return longest


def longest_silence(signs: Iterable[datetime]) -> float:
    """Return the longest time in seconds between two signs of life that follow each other."""
    return max(((after - before).total_seconds() for before, after in pairwise(sorted(signs))), default=0.0)


def ticks(history: History) -> tuple[list[datetime], list[datetime]]:
    """Return when runs of the every-second jobs were recorded, and when they first started."""
    ticking = {change.job_id for change in history.changes if change.spec.name.startswith(TICK)}
    runs = {run.id: run for run in history.runs if run.job_id in ticking}
    starts: dict[RunId, datetime] = {}
    for effect in history.effects:
        if effect.run_id in runs:
            starts.setdefault(effect.run_id, effect.started_at)
    return [run.created_at for run in runs.values()], list(starts.values())


def slowest_fires(history: History, count: int = 5) -> list[float]:
    """Return by how many seconds the every-second jobs' fires were recorded late, the worst of all."""
    ticking = {change.job_id for change in history.changes if change.spec.name.startswith(TICK)}
    late = [
        (run.created_at - run.fire_at).total_seconds()
        for run in history.runs
        if run.job_id in ticking and run.fire_at is not None
    ]
    return [round(seconds, 2) for seconds in sorted(late, reverse=True)[:count]]


def recovery(history: History) -> float:
    """Return for how many seconds after the end of the last fault runs still started late."""
    due = {run.id: max(run.due_at, run.created_at) for run in history.runs}
    owed = {
        run.id: run.due_at for run in history.runs if run.fire_at is not None and run.fire_range_id is None
    }
    late = [
        effect.started_at
        for effect in history.effects
        if effect.token == 1
        and effect.started_at - owed.get(effect.run_id, due[effect.run_id]) > _LATE
        and effect.started_at > history.healed_at
    ]
    return max(((at - history.healed_at).total_seconds() for at in late), default=0.0)


def _delays(parts: Sequence[Outcome]) -> dict[str, float]:
    found = {"longest_delay_after_a_kill_s": 0.0, "longest_delay_to_a_start_s": 0.0, "longest_silence_s": 0.0}
    for part in parts:
        if part.fallen:
            fires, starts = ticks(part.history)
            told = (
                longest_delay(part.fallen, fires),
                longest_delay(part.fallen, starts),
                longest_silence(starts),
            )
            for name, figure in zip(found, told, strict=True):
                found[name] = max(found[name], round(figure, 2))
    return found


def figures(plan: Plan, outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """Return what the campaign came to, as JSON can hold it."""
    faults = {"seed": plan.seed, "kills": len(plan.kills), "zombies": len(plan.zombies)}
    return faults | sum_up(outcomes, seconds)


def sum_up(parts: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """Return what was judged, however it came about, as JSON can hold it."""
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for part in parts:
        counts.update(part.verdict.counts)
        found.update(map(name_violation, part.verdict.violations))
        reached.update(part.reached)
    integrity = sorted({part.integrity for part in parts})
    return {
        "took_s": round(seconds, 1),
        "runs": sum(len(part.history.runs) for part in parts),
        "fires": counts["fires_run"] + counts["fires_skipped"] + counts["fires_in_fire_ranges"],
        "acknowledged": sum(part.acknowledged for part in parts),
        "repeated_requests": sum(part.repeated for part in parts),
        **{name: found[name] for name in ("lost", "missed", "doubled", "unexplained", "other")},
        "stale_writes_refused": sum(part.stale for part in parts),
        "explained_repeats": counts["repeats_explained"],
        **_delays(parts),
        "latest_fires_s": max((slowest_fires(part.history) for part in parts), default=[]),
        "slowest_restart_s": round(max((time for part in parts for time in part.restarts), default=0.0), 2),
        "integrity": integrity[0] if len(integrity) == 1 else " / ".join(integrity),
        "counts": dict(sorted(counts.items())),
        "reached": dict(sorted(reached.items())),
        "failpoints_not_reached": sorted(name for part in parts for name in part.missed_failpoints),
    }


def is_good(outcomes: Iterable[Outcome]) -> bool:
    """Say whether no rule was broken, and the files are sound."""
    return all(part.verdict.is_good and part.integrity == "ok" for part in outcomes)


def why_void(result: dict[str, Any]) -> str | None:
    """Say why a campaign proves nothing, or None: zombies of which no write had to be refused were none."""
    if result["zombies"] and not result["stale_writes_refused"]:
        return "void: no stale write was refused"
    return None


def stories(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the judge's story of each violation."""
    return [str(violation) for outcome in outcomes for violation in outcome.verdict.violations]
