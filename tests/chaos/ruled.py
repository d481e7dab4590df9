"""Jobs whose runs have rules: limits, once only, one at a time, calendars, pauses; and what is submitted to them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from mainspring.core.ids import parse_job_id, parse_run_id
from tests.chaos.client import Client, JobClient, KnownJob, Log, Refused, Unknown, host_now
from tests.chaos.workload import EVERY_SECOND
from tools.judge import Operation

if TYPE_CHECKING:
    from tests.chaos.trials import Outcome

CALENDAR = "closed"
HELD_QUEUE = "held"
"""The queue that is paused now and then."""
CAPPED_QUEUE = "capped"
"""The queue whose cap is changed now and then."""
SHARED = "shared"
PACED = "paced"
FAILURES = 3
"""After so many the broken job pauses itself."""
_KEYED = {"function": "chaos-keyed", "retry": {"max_retries": 3, "backoff": "fixed", "delay": "300ms"}}
_BY_KEY = {"key": "$.key"}
_QUEUED = {**_BY_KEY, "scope": "queued"}
_SUBMITTED: dict[str, dict[str, Any]] = {
    "cap-attempt": {"concurrency": [{**_BY_KEY, "limit": 2}]},
    "cap-run": {"concurrency": [{**_BY_KEY, "limit": 1, "hold": "run"}]},
    "cap-shared": {"concurrency": [{**_BY_KEY, "limit": 3}, {"use": SHARED}]},
    "cap-shared-too": {"concurrency": [{"use": SHARED}]},
    "rate-own": {"concurrency": [{"rate": "4/s", "burst": 3}]},
    "rate-paced": {"concurrency": [{"use": PACED}]},
    "rate-paced-too": {"concurrency": [{"use": PACED}]},
    "unique-live": {"unique": _BY_KEY},
    "unique-queued": {"unique": _QUEUED, "concurrency": [{**_BY_KEY, "limit": 1}]},
    "unique-replaced": {
        "unique": {**_QUEUED, "on_conflict": "replace"},
        "concurrency": [{**_BY_KEY, "limit": 1}],
    },
    "unique-period": {"unique": {**_BY_KEY, "period": "4s"}},
    "unique-rejected": {"unique": {**_BY_KEY, "on_conflict": "reject"}},
    "debounced": {"debounce": {**_BY_KEY, "wait": "500ms", "max_wait": "2s"}},
    "throttled": {"throttle": {**_BY_KEY, "limit": 2, "per": "3s"}},
    "held-submitted": {"queue": HELD_QUEUE},
    "capped-plain": {"queue": CAPPED_QUEUE},
    "capped-keyed": {"queue": CAPPED_QUEUE, "concurrency": [{**_BY_KEY, "limit": 2}]},
}
_FREED = ("unique-live", "unique-queued", "unique-replaced", "unique-rejected")
"""Jobs whose keys are all free once their runs are over."""
_SCHEDULED: dict[str, dict[str, Any]] = {
    "line-one": {"every": "1s", "overlap": "queue_one"},
    "line-all": {"every": "1s", "overlap": "queue_all"},
    "line-cancel": {"every": "1s", "overlap": "cancel_running"},
    "closed": {"cron": EVERY_SECOND, "calendars": {"exclude": [CALENDAR]}, "misfire": {"policy": "skip"}},
    "held-fired": {"cron": EVERY_SECOND, "queue": HELD_QUEUE},
    "past": {"every": "2s"},
    "broken": {
        "every": "1s",
        "function": "chaos-broken",
        "retry": {"max_retries": 0},
        "pause_after_failures": FAILURES,
    },
}
REACHED = (
    "queues paused, hold",
    "queues paused, skip",
    "caps changed",
    "queue caps changed",
    "calendars changed",
    "jobs paused by themselves",
    "backfills done",
    "backfills cancelled",
    "unique-live existing",
    "unique-queued existing",
    "unique-replaced replaced",
    "unique-period existing",
    "unique-rejected rejected",
    "debounced debounced",
    "throttled throttled",
)
"""What a storm of a minute has done."""
JUDGED = (
    "outside_caps_reached",
    "outside_queue_caps_reached",
    "outside_permits_used_up",
    "outside_runs_beside_a_pause",
    "outside_payloads_seen",
    "outside_debounced",
    "outside_backfills_full",
    "outside_fires_skipped_in_line",
    "fires_skipped_by_a_pause",
    "fires_left_out_by_a_calendar",
    "runs_that_made_way",
    "backfill_fires_skipped",
)
"""What the judge has met in it: each rule kept something back."""
_SLOW = {"line-one", "line-cancel"}
_LINES = ("line-one", "line-all", "line-cancel")
_KEYS = "abc"
_PAUSE = 0.15
_PATIENCE = 180.0


def ruled_jobs() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the jobs to which runs are submitted, and those with a trigger. Their limits and calendar come first."""
    slow = {"function": "chaos-slow"}
    return (
        [{"name": name, **_KEYED, **body} for name, body in _SUBMITTED.items()],
        [
            {"name": name, **_KEYED, **(slow if name in _SLOW else {}), "payload": {"key": "x"}, **body}
            for name, body in _SCHEDULED.items()
        ],
    )


def missing(outcome: Outcome) -> list[str]:
    """Return what was not done, or not met by the judge."""
    counts = outcome.verdict.counts
    return [
        *(name for name in REACHED if not outcome.reached[name]),
        *(name for name in JUDGED if not counts.get(name)),
    ]


@dataclass(slots=True)
class RuledLoad:
    """Submits runs with few keys at a steady rate, in bursts; each has a number of its own, and is acknowledged.

    Attributes:
        reached: by the job's name and the answer's status, how many submissions.
    """

    client: Client
    log: Log
    random: Random
    reached: Counter[str]
    rate: float = 30.0
    jobs: dict[str, KnownJob] = field(default_factory=dict)
    is_stopping: bool = False
    _number: int = 0

    async def create(self, jobs: JobClient) -> list[KnownJob]:
        """Create the jobs; return those with a trigger."""
        submitted, scheduled = ruled_jobs()
        for body in (*submitted, *scheduled):
            self.jobs[body["name"]] = await jobs.insist(body)
        return [self.jobs[body["name"]] for body in scheduled]

    async def run(self) -> None:
        """Submit until told to stop, then wait for what is open."""
        names = [*_SUBMITTED, *_LINES]
        async with asyncio.TaskGroup() as group:
            started, sent = time.monotonic(), 0
            while not self.is_stopping:
                name, key = self.random.choice(names), self.random.choice(_KEYS)
                count = 1 if name in _LINES else self.random.choice([1, 1, 2, 4])
                for _ in range(count):
                    group.create_task(self._submit(name, key))
                sent += count
                await asyncio.sleep(max(started + sent / self.rate - time.monotonic(), 0))

    async def finish(self) -> None:
        """Wait until all runs of jobs with keys are over, and submit to every key that was in use: it must be free.

        Raises:
            TimeoutError: runs are not over within the limit.
        """
        await self._drain()
        for name in _FREED:
            for key in _KEYS:
                await self._submit(name, key, is_probe=True)

    async def _submit(self, name: str, key: str, *, is_probe: bool = False) -> None:
        self._number += 1
        payload = {"key": key, "number": self._number}
        job_id, request = self.jobs[name].id, f"ruled-{self._number}"
        while True:
            asked_at = host_now()
            outcome, status, run = "unknown", "unknown", None
            try:
                answer = await self.client.ask(
                    "POST", f"/jobs/{job_id}/runs", {"payload": payload}, key=request
                )
                if answer.status == 409:
                    outcome, status = "refused", "rejected"
                elif answer.status in {200, 201}:
                    outcome, status, run = "ok", answer.body["status"], answer.body["run_id"]
                else:
                    raise RuntimeError(f"a submission answered {answer.status}: {answer.body}")
            except Refused:
                outcome = "fail"
            except Unknown:
                self.client.repeated += 1
            self.log.operations.append(
                Operation(
                    kind="submit",
                    job_id=parse_job_id(job_id),
                    asked_at=asked_at,
                    answered_at=host_now(),
                    outcome=outcome,
                    key=request,
                    run_id=parse_run_id(run) if run is not None else None,
                    status=status,
                    payload=payload,
                    is_probe=is_probe,
                )
            )
            if outcome in {"ok", "refused"}:
                self.reached[f"{name} {status}"] += 1
                return
            await asyncio.sleep(_PAUSE)

    async def _drain(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        for name in _FREED:
            while await self._is_live(self.jobs[name].id):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"runs of {name} are not over")
                await asyncio.sleep(0.3)

    async def _is_live(self, job_id: str) -> bool:
        for state in ("PENDING", "RUNNING", "RETRYING"):
            page = await self.client.fetch(f"/runs?job_id={job_id}&state={state}&limit=1")
            if page["items"]:
                return True
        return False
