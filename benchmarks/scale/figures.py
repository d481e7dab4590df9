"""Turns what was observed into figures and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scale.observe import Call, Observations, Sample, condense

Row = dict[str, Any]
VERBS = {
    "claim": "claim_runs",
    "apply": "apply",
    "fire": "record_fires",
    "due window": "read_due",
    "lanes": "read_lanes",
    "submit": "submit_runs",
    "beat": "beat_sessions",
    "orphans": "list_orphans",
}
"""What the figures call a verb of the store."""
STATEMENTS = {
    "claim": "claim_runs",
    "apply": "apply_successes",
    "fire": "fire_clocks",
    "due window": "read_due",
    "lanes": "read_lanes",
    "submit": "submit_runs",
    "beat": "held_by_sessions",
    "orphans": "list_orphans",
}
"""The statement in which each verb does most of its work."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time, in monotonic seconds, whose figures go together."""

    name: str
    begin: float
    end: float
    dead: int = 0
    """Dead entries of the table of live runs, as its statistics tell at the end."""

    def calls(self, observations: Observations, verb: str) -> list[Call]:
        """Return the calls of a verb, the fastest first; those that found nothing to do are left out."""
        found = [
            call
            for call in observations.calls
            if call.verb == verb
            and self.begin <= call.at < self.end
            and (call.rows or verb == "list_orphans")
        ]
        return sorted(found, key=lambda call: call.seconds)

    def samples(self, observations: Observations, name: str) -> list[Sample]:
        """Return the plans of a statement, the fastest first."""
        found = [
            sample
            for sample in observations.samples
            if sample.name == name and self.begin <= sample.at < self.end
        ]
        return sorted(found, key=lambda sample: sample.milliseconds)


def figures_of(observations: Observations, phase: Phase) -> list[Row]:
    """Return a row of figures for each verb that was called in a phase."""
    rows = []
    for label, verb in VERBS.items():
        calls = phase.calls(observations, verb)
        samples = phase.samples(observations, STATEMENTS[label])
        if not calls:
            continue
        count = sum(call.rows for call in calls)
        places = {"p50": len(calls) // 2, "p99": int(len(calls) * 0.99), "max": len(calls) - 1}
        row: Row = {
            "phase": phase.name,
            "verb": label,
            "calls": len(calls),
            "rows": round(count / len(calls), 1),
        }
        row |= {name: round(calls[place].seconds * 1e3, 2) for name, place in places.items()}
        row["per_row"] = round(sum(call.seconds for call in calls) * 1e3 / count, 4) if count else None
        row["server"] = round(samples[len(samples) // 2].milliseconds, 2) if samples else None
        row["buffers"] = samples[len(samples) // 2].buffers if samples else None
        rows.append(row)
    return rows


def table_of(rows: Sequence[Row]) -> list[str]:
    """Return figures as lines of a Markdown table."""
    heads = {
        "verb": "call",
        "phase": "when",
        "calls": "calls",
        "rows": "rows a call",
        "p50": "p50, ms",
        "p99": "p99, ms",
        "max": "max, ms",
        "per_row": "ms a row",
        "server": "statement p50, ms",
        "buffers": "its buffers",
    }
    lines = [f"| {' | '.join(heads.values())} |", f"|{'---|' * len(heads)}"]
    order = list(VERBS)
    for row in sorted(rows, key=lambda row: order.index(row["verb"])):
        cells = [
            "" if row[key] is None else f"{row[key]:,}" if key not in {"verb", "phase"} else row[key]
            for key in heads
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def plans_of(observations: Observations, phase: Phase) -> list[str]:
    """Return the plan of the sample in the middle, for each statement."""
    lines = []
    for label, name in STATEMENTS.items():
        samples = phase.samples(observations, name)
        if samples:
            middle = samples[len(samples) // 2]
            lines.append(
                f"{label} ({name}), {phase.name}: {middle.milliseconds:.2f} ms, {middle.buffers:,} buffers"
            )
            lines += [f"    {line}" for line in condense(middle.plan)]
    return lines
