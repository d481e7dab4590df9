"""Judges a campaign: pure functions from facts to violations (reliability.md 1.1 and 2.2: S1, S3, S6, S7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.effects import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """What the product's API says of a run."""

    id: str
    state: str
    fire_time: str | None
    losses: int


@dataclass(slots=True)
class Verdict:
    """Counts and, for each violation, one line that tells the story."""

    runs: int = 0
    lost: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    doubled_fires: list[str] = field(default_factory=list)
    unexplained_repeats: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    explained_repeats: int = 0

    @property
    def is_clean(self) -> bool:
        """Say whether nothing was violated."""
        return not (
            self.lost or self.missed or self.doubled_fires or self.unexplained_repeats or self.unfinished
        )


def judge(
    *,
    acknowledged: Sequence[str],
    runs: Mapping[str, RecordedRun],
    expected_fires: Mapping[str, Sequence[str]],
    fires: Mapping[str, Sequence[str]],
    effects: Mapping[str, Sequence[Effect]],
) -> Verdict:
    """Compare what was promised with what was done.

    Args:
        acknowledged: ids of runs whose submission was answered OK.
        runs: all runs that the API lists, by id.
        expected_fires: per job, the fire times by an oracle of the harness.
        fires: per job, the fire times that are recorded (runs of any state, spans expanded).
        effects: what the jobs wrote, by run.
    """
    verdict = Verdict(runs=len(runs))
    for run_id in acknowledged:
        if run_id not in runs:
            verdict.lost.append(f"{run_id}: acknowledged, but unknown afterwards")
    for run in runs.values():
        _judge_run(verdict, run, effects.get(run.id, ()))
    for job, expected in expected_fires.items():
        counted = Counter(fires.get(job, ()))
        verdict.missed += [f"{job}: no record of {at}" for at in expected if not counted[at]]
        verdict.doubled_fires += [
            f"{job}: {count} records of {at}" for at, count in counted.items() if count > 1
        ]
    return verdict


def _judge_run(verdict: Verdict, run: RecordedRun, effects: Sequence[Effect]) -> None:
    starts = Counter(effect.token for effect in effects if effect.what == "start")
    ends = [effect for effect in effects if effect.what == "end"]
    if run.state not in {"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"}:
        verdict.unfinished.append(f"{run.id}: still {run.state}")
    if run.state == "SUCCEEDED" and not ends:
        verdict.lost.append(f"{run.id}: SUCCEEDED, but the job never wrote its end")
    for token, count in starts.items():
        if count > 1:
            verdict.unexplained_repeats.append(f"{run.id}: attempt with token {token} started {count} times")
    repeats = len(starts) - 1
    if repeats > run.losses:
        verdict.unexplained_repeats.append(f"{run.id}: {repeats} repeats, {run.losses} recorded losses")
    elif repeats > 0:
        verdict.explained_repeats += repeats
