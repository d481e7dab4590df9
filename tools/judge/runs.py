"""The final runs of a history, with what belongs to each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.model import JobSpec, Run
from tools.judge.model import Effect, History, StepNote, Violation

LOSSES = frozenset({"lost", "handed_back", "preempted"})
"""Ends of an attempt that do not count as failures."""
FAILURES = frozenset({"failed", "timed_out"})
"""Ends of an attempt that count towards the limit of retries."""


class Runs:
    """The final runs, with what belongs to each."""

    def __init__(self, history: History) -> None:
        self.by_id = {run.id: run for run in history.runs}
        self.effects: dict[RunId, list[Effect]] = defaultdict(list)
        for effect in history.effects:
            self.effects[effect.run_id].append(effect)
        self.attempts = history.attempts
        self.kept: dict[RunId, list[StepNote]] = defaultdict(list)
        for note in history.steps:
            if note.what == "kept":
                self.kept[note.run_id].append(note)
        self.specs = {(change.job_id, change.version): change.spec for change in history.changes}
        self._expiries = history.expiries

    def spec_of(self, run: Run) -> JobSpec | None:
        """Return the definition that a run was made from. It expires as its queue says, unless its job says so."""
        spec = self.specs.get((run.job_id, run.version))
        if spec is None or spec.expires_after is not None or spec.queue not in self._expiries:
            return spec
        return replace(spec, expires_after=self._expiries[spec.queue])

    def accuse(self, rule: str, run_id: RunId, *why: str) -> Violation:
        """Return the violation of a rule by a run, with the run's story."""
        return Violation(rule, format_run_id(run_id), self.tell(run_id, *why))

    def tell(self, run_id: RunId, *more: str) -> tuple[str, ...]:
        """Return a run's story."""
        lines: list[tuple[str, str]] = []
        run = self.by_id.get(run_id)
        for effect in self.effects.get(run_id, []):
            lines.append((effect.started_at.isoformat(), f"starts on {effect.worker}, token {effect.token}"))
            if effect.ended_at is not None:
                lines.append(
                    (effect.ended_at.isoformat(), f"ends there: {effect.ending}, token {effect.token}")
                )
        for attempt in self.attempts.get(run_id, []):
            text = f"attempt {attempt.number} recorded as {attempt.outcome}, token {attempt.token}"
            lines.append((attempt.finished_at.isoformat(), text))
        if run is not None:
            lines.append((run.created_at.isoformat(), f"recorded, {run.kind}, due {run.due_at.isoformat()}"))
            if run.finished_at is not None:
                lines.append(
                    (run.finished_at.isoformat(), f"{run.state} {run.reason or ''}, token {run.token}")
                )
        told = [f"{at} {text}" for at, text in sorted(lines)]
        return (*told, *more)
