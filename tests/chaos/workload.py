"""The jobs that a campaign adds, and what it submits and changes while faults go on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from mainspring.core.ids import parse_job_id, parse_run_id
from tests.chaos.client import Client, JobClient, KnownJob, Log, Refused, Unknown, host_now
from tests.chaos.effects import SHELL
from tests.chaos.receiver import FLAKY, STEADY
from tools.judge import Operation

EVERY_SECOND = "* * * * * *"
TICK = "tick-"
"""How the names of the jobs begin that fire every second, from which delays are told."""
_RETRY = {"max_retries": 2, "backoff": "fixed", "delay": "300ms"}
_ONCE = {"delivery": "at_most_once", "retry": {"max_retries": 0}}
_WEIGHTS = {
    "chaos-async": 6,
    "chaos-sync": 4,
    "chaos-flaky": 2,
    "chaos-slow": 1,
    "chaos-once": 2,
    "http": 2,
    "http-flaky": 1,
    "shell": 1,
    "shell-flaky": 1,
    "shell-once": 1,
}
_CRONS = (EVERY_SECOND, "*/2 * * * * *", "0-59/3 * * * * *")


@dataclass(frozen=True, slots=True)
class Targets:
    """Where callbacks go and where commands write."""

    receiver: str
    effects: Path

    def shell(self, work: str = "true") -> dict[str, Any]:
        """Return the target of a command that does some work between its lines."""
        return {"command": SHELL.format(file=self.effects / "shell.effects", work=work), "shell": True}

    def http(self, path: str = STEADY) -> dict[str, Any]:
        """Return the target of a callback."""
        return {"callback_url": f"http://{self.receiver}{path}"}


def submitted_jobs(targets: Targets) -> list[dict[str, Any]]:
    """Return the jobs without a trigger, beside those of the app."""
    flaky = '[ "$MAINSPRING_ATTEMPT" -gt 1 ] || { say end failed; exit 1; }'
    return [
        {"name": "http", "retry": _RETRY, **targets.http()},
        {"name": "http-flaky", "retry": _RETRY, **targets.http(FLAKY)},
        {"name": "shell", "retry": _RETRY, **targets.shell()},
        {"name": "shell-flaky", "retry": _RETRY, **targets.shell(flaky)},
        {"name": "shell-once", **_ONCE, **targets.shell("sleep 0.1")},
    ]


def scheduled_jobs(targets: Targets) -> list[dict[str, Any]]:
    """Return the jobs with a trigger."""
    function = {"function": "chaos-async"}
    # Before what waits: their delay tells of kills, not of the backlog that those leave.
    tick = {"cron": EVERY_SECOND, "priority": "HIGH"}
    return [
        {"name": f"{TICK}async", **tick, **function},
        {"name": f"{TICK}sync", **tick, "function": "chaos-sync"},
        {"name": f"{TICK}shell", **tick, **targets.shell()},
        {"name": f"{TICK}http", **tick, **targets.http()},
        {"name": "interval", "every": "1100ms", **function},
        {"name": "interval-once", "every": "1500ms", **_ONCE, **targets.http()},
        {"name": "late-skipped", "cron": EVERY_SECOND, **_misfire("skip"), **function},
        {"name": "late-made-up", "cron": EVERY_SECOND, **_misfire("fire_all"), **function},
        {"name": "late-merged", "every": "1s", **_misfire("fire_latest"), **function},
        {"name": "alone", "every": "1s", "overlap": "skip", "function": "chaos-slow"},
        {"name": "jittered", "cron": "*/2 * * * * *", "jitter": "1s", **function},
    ]


def _misfire(policy: str) -> dict[str, Any]:
    return {"misfire": {"policy": policy, "grace": "1s"}}


@dataclass(slots=True)
class Load:
    """Submits runs at a steady rate; each has a key and is repeated until it is acknowledged.

    Attributes:
        jobs: ids of jobs by name.
        recent: the newest acknowledged runs: job, run.
    """

    client: Client
    log: Log
    jobs: dict[str, str]
    rate: float
    random: Random
    recent: list[tuple[str, str]] = field(default_factory=list)
    acknowledged: int = 0
    is_stopping: bool = False

    async def run(self) -> None:
        """Submit until told to stop, then wait for what is open."""
        names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
        async with asyncio.TaskGroup() as group:
            started, number = time.monotonic(), 0
            while not self.is_stopping:
                (name,) = self.random.choices(names, weights)
                delay = self.random.uniform(0.3, 3.0) if self.random.random() < 0.2 else None
                group.create_task(self._submit(self.jobs[name], f"key-{number}", delay))
                number += 1
                await asyncio.sleep(max(started + number / self.rate - time.monotonic(), 0))

    async def _submit(self, job_id: str, key: str, delay: float | None) -> None:
        body: dict[str, Any] = {}
        if delay is not None:
            body["run_at"] = (host_now() + timedelta(seconds=delay)).isoformat()
        while True:
            asked_at = host_now()
            outcome, run = "unknown", None
            try:
                answer = await self.client.ask("POST", f"/jobs/{job_id}/runs", body, key=key)
                if answer.status not in {200, 201, 202}:  # 202 is what earlier releases say
                    raise RuntimeError(f"a submission answered {answer.status}: {answer.body}")
                outcome, run = "ok", answer.body["run_id"]
            except Refused:
                outcome = "fail"
            except Unknown:
                self.client.repeated += 1
            operation = Operation(
                kind="submit",
                job_id=parse_job_id(job_id),
                asked_at=asked_at,
                answered_at=host_now(),
                outcome=outcome,
                key=key,
                run_id=parse_run_id(run) if run is not None else None,
            )
            self.log.operations.append(operation)
            if run is not None:
                self.acknowledged += 1
                self.recent = [*self.recent[-30:], (job_id, run)]
                return
            await asyncio.sleep(0.15)


@dataclass(slots=True)
class Editor:
    """Changes jobs and cancels runs, one after the other, so that every verb of a client is called within a second."""

    jobs: JobClient
    load: Load
    random: Random
    pace: float = 0.15
    known: list[KnownJob] = field(default_factory=list)
    is_stopping: bool = False
    _made: int = 0

    async def run(self) -> None:
        """Do one thing after the other until told to stop."""
        while not self.is_stopping:
            if len(self.known) < 3:
                await self._create({"cron": self.random.choice(_CRONS)})
            action = self.random.choice(["edit", "pause", "resume", "delete", "cancel", "cancel", "once"])
            await getattr(self, f"_{action}")()
            await asyncio.sleep(self.pace)

    async def _create(self, trigger: dict[str, str]) -> None:
        self._made += 1
        body = {"name": f"edited-{self._made}", "function": "chaos-async", **trigger}
        job = await self.jobs.create(body)
        if job is not None:
            self.known.append(job)

    async def _once(self) -> None:
        instant = host_now() + timedelta(seconds=self.random.uniform(0.3, 2.5))
        self._made += 1
        body = {"name": f"once-{self._made}", "function": "chaos-async", "run_at": instant.isoformat()}
        await self.jobs.create(body)

    async def _edit(self) -> None:
        patch = self.random.choice([{"cron": cron} for cron in _CRONS] + [{"timeout": "60s"}])
        if "timeout" in patch:
            patch = {"timeout": f"{self.random.randint(30, 90)}s"}
        await self.jobs.edit(self.random.choice(self.known), patch)

    async def _pause(self) -> None:
        await self.jobs.pause(self.random.choice(self.known))

    async def _resume(self) -> None:
        await self.jobs.resume(self.random.choice(self.known))

    async def _delete(self) -> None:
        # The oldest, so that a deletion is as frequent as a creation.
        await self.jobs.delete(self.known.pop(0))

    async def _cancel(self) -> None:
        if self.load.recent:
            job, run = self.random.choice(self.load.recent)
            await self.jobs.cancel(parse_job_id(job), parse_run_id(run), run)
