"""Judges the demo from what the jobs wrote, not from the scheduler's own word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim  # a library that shares no code with Mainspring


@dataclass(frozen=True)
class Effect:
    """One line that a job wrote: it started or ended an attempt at that time."""

    what: str
    job: str
    run: str
    attempt: int
    token: int
    nominal: datetime | None
    due: datetime | None
    at: float
    pid: int | None


@dataclass
class Verdict:
    """What the effects prove."""

    runs: int = 0
    succeeded: int = 0
    failed: int = 0
    lost: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    lags_ms: list[float] = field(default_factory=list)

    def lag(self, share: float) -> float:
        """Return a quantile of the start lags in milliseconds."""
        lags = sorted(self.lags_ms)
        return round(lags[min(int(len(lags) * share), len(lags) - 1)], 1) if lags else 0.0


def read_effects(folder: Path) -> list[Effect]:
    """Read what all jobs wrote, in order of time."""
    effects = []
    for path in folder.glob("*.log"):
        stem, _, number = path.stem.rpartition("-")
        pid = int(number) if stem == "python" else None
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) == 8:
                effects.append(
                    Effect(
                        what=words[0],
                        job=words[1],
                        run=words[2],
                        attempt=int(words[3]),
                        token=int(words[4]),
                        nominal=read_time(words[5]),
                        due=read_time(words[6]),
                        at=float(words[7]),
                        pid=pid,
                    )
                )
    return sorted(effects, key=lambda effect: effect.at)


def read_time(text: str) -> datetime | None:
    return None if text == "-" else datetime.fromisoformat(text).astimezone(UTC)


def expected_fires(job: dict[str, Any], since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield the fires that a job owed between its creation and its end, by an oracle of our own."""
    trigger = job["trigger"]
    if trigger is None:
        return
    if trigger["type"] == "cron":
        zone = ZoneInfo(trigger["tz"])
        for fire in CronSim(plain_cron(trigger["expression"]), since.astimezone(zone)):
            if fire.astimezone(UTC) > until:
                return
            yield fire.astimezone(UTC)
    elif trigger["type"] == "interval":
        anchor, every = datetime.fromisoformat(trigger["anchor"]), timedelta(seconds=trigger["every_seconds"])
        fire = anchor + every
        while fire <= until:
            if fire > since:
                yield fire.astimezone(UTC)
            fire += every
    elif since < datetime.fromisoformat(trigger["at"]) <= until:
        yield datetime.fromisoformat(trigger["at"]).astimezone(UTC)


def plain_cron(expression: str) -> str:
    """Write macros as fields: the oracle knows none."""
    macros = {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
    }
    return macros.get(expression, expression)


def judge(
    effects: Iterable[Effect],
    *,
    owed: dict[str, list[datetime]],
    accepted: dict[str, str],
    dead_letters: set[str],
    killed_pid: int,
) -> Verdict:
    """Compare what was promised with what was done.

    Args:
        owed: fires by the id of their job; an effect tells its job by name, so names are used as keys.
        accepted: submitted runs (id to job name) that the API answered with success.
        dead_letters: submitted runs that must fail every time.
        killed_pid: the worker that was killed; what it had begun is repeated, and that is no duplicate.
    """
    verdict = Verdict()
    by_run: dict[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        by_run[effect.run].append(effect)
    verdict.runs = len(by_run)
    done: dict[tuple[str, datetime | None], int] = Counter()
    for run, acts in by_run.items():
        ended = judge_run(verdict, run, acts, killed_pid=killed_pid, is_dead_letter=run in dead_letters)
        done[acts[0].job, acts[0].nominal] += ended
    for job, fires in owed.items():
        for fire in fires:
            if done[job, fire] == 0:
                verdict.missed.append(f"{job}: nothing ran for {fire.isoformat()}")
            elif done[job, fire] > 1:
                verdict.duplicated.append(f"{job}: {done[job, fire]} runs for {fire.isoformat()}")
    verdict.lost += [f"{job}: accepted {run} never ran" for run, job in accepted.items() if run not in by_run]
    return verdict


def judge_run(
    verdict: Verdict, run: str, acts: list[Effect], *, killed_pid: int, is_dead_letter: bool
) -> bool:
    """Judge one run; return whether it was carried out to its end."""
    starts = [act for act in acts if act.what == "start"]
    ends = [act for act in acts if act.what == "end"]
    story = f"{acts[0].job}: {run}"
    if is_dead_letter:
        verdict.failed += 1
    elif ends:
        verdict.succeeded += 1
    else:
        verdict.lost.append(f"{story} began and never ended")
    if len(ends) > 1:
        verdict.duplicated.append(f"{story} ended {len(ends)} times")
    honest = Counter(act.attempt for act in starts if act.pid != killed_pid)
    verdict.duplicated += [
        f"{story}: attempt {number} began {n} times" for number, n in honest.items() if n > 1
    ]
    if starts and starts[0].due is not None and starts[0].attempt == 1:
        verdict.lags_ms.append(starts[0].at * 1000 - starts[0].due.timestamp() * 1000)
    return bool(ends)
