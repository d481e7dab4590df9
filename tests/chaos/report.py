"""The figures of a campaign: what the judge counted, in the words of whoever reads one line of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from mainspring.core.ids import JobId, RunId
from mainspring.testing.history import History, Violation
from tests.chaos.plan import Plan
from tests.chaos.trials import Outcome
from tests.chaos.workload import TICK

_WORDS = {
    **dict.fromkeys(("S3", "S6", "S27"), "lost"),
    **dict.fromkeys(("S2", "S4"), "doubled"),
    **dict.fromkeys(("S5", "S7"), "unexplained"),
}
_NO_RECORD = " is a fire time with 0 runs and 0 spans on record"


def name_violation(violation: Violation) -> str:
    """Say of a broken rule what it means: lost, missed, doubled, unexplained, or other."""
    if violation.rule == "S1":
        return "missed" if any(line.endswith(_NO_RECORD) for line in violation.story) else "doubled"
    return _WORDS.get(violation.rule, "other")


def longest_delay(history: History, fallen: Sequence[float]) -> float:
    """Return the longest time from a kill of the server to the next start of an every-second job's run made since."""
    ticking: set[JobId] = {change.job_id for change in history.changes if change.spec.name.startswith(TICK)}
    starts: dict[RunId, datetime] = {}
    for effect in history.effects:
        starts.setdefault(effect.run_id, effect.started_at)
    made = sorted(
        (run.created_at, starts[run.id]) for run in history.runs if run.job_id in ticking and run.id in starts
    )
    longest = 0.0
    for at in (datetime.fromtimestamp(instant, UTC) for instant in fallen):
        later = made[bisect_right(made, (at, at)) :]
        if later:
            longest = max(longest, (min(start for _, start in later[:50]) - at).total_seconds())
    return longest


def figures(plan: Plan, outcomes: Iterable[Outcome], seconds: float) -> dict[str, Any]:
    """Return what the campaign came to, as JSON can hold it."""
    parts = list(outcomes)
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for part in parts:
        counts.update(part.verdict.counts)
        found.update(map(name_violation, part.verdict.violations))
        reached.update(part.reached)
    integrity = sorted({part.integrity for part in parts})
    return {
        "seed": plan.seed,
        "kills": len(plan.kills),
        "zombies": len(plan.zombies),
        "seconds": round(seconds, 1),
        "runs": sum(len(part.history.runs) for part in parts),
        "fires": counts["fires_run"] + counts["fires_skipped"] + counts["fires_in_spans"],
        "acknowledged": sum(part.acknowledged for part in parts),
        "repeated_requests": sum(part.repeated for part in parts),
        **{name: found[name] for name in ("lost", "missed", "doubled", "unexplained", "other")},
        "stale_writes_refused": sum(part.stale for part in parts),
        "explained_repeats": counts["repeats_explained"],
        "longest_delay_after_a_kill_s": round(
            max((longest_delay(part.history, part.fallen) for part in parts), default=0.0), 2
        ),
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
