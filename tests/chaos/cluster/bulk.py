"""Thousands of submissions a second, in batches over HTTP; each item has a key and is repeated until acknowledged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from mainspring.core.ids import parse_job_id, parse_run_id
from tests.chaos.client import Client, Log, Refused, Unknown, host_now
from tools.judge import Operation

JOB = "chaos-bulk"
_BATCHES = 10
"""A second."""
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass(slots=True)
class BulkLoad:
    """Submits runs of the light job at a steady rate.

    Attributes:
        rate: runs a second.
        latest: how far the load itself has fallen behind, in seconds, at most.
    """

    client: Client
    log: Log
    job_id: str
    rate: float
    random: Random
    acknowledged: int = 0
    latest: float = 0.0
    is_stopping: bool = False

    async def run(self) -> None:
        """Submit until told to stop, then wait for what is open."""
        size = round(self.rate / _BATCHES)
        async with asyncio.TaskGroup() as group:
            started, number = time.monotonic(), 0
            while not self.is_stopping:
                group.create_task(self._submit(number, size))
                number += 1
                ahead = started + number / _BATCHES - time.monotonic()
                self.latest = max(self.latest, -ahead)
                await asyncio.sleep(max(ahead, 0))

    async def _submit(self, number: int, size: int) -> None:
        keys = [f"bulk-{number}-{index}" for index in range(size)]
        body = [{"job_id": self.job_id, "idempotency_key": key} for key in keys]
        pause = _PAUSE
        while True:
            asked_at = host_now()
            try:
                answer = await self.client.ask("POST", "/runs/bulk", body)
            except (Refused, Unknown) as error:
                outcome = "fail" if isinstance(error, Refused) else "unknown"
                self.client.repeated += 1
                self._note(keys, [None] * size, asked_at, outcome)
                await asyncio.sleep(pause * self.random.uniform(0.5, 1.0))
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if answer.status != 200:
                raise RuntimeError(f"a bulk submission answered {answer.status}: {answer.body}")
            self._note(keys, [item["run_id"] for item in answer.body], asked_at, "ok")
            self.acknowledged += size
            return

    def _note(self, keys: list[str], runs: list[Any], asked_at: datetime, outcome: str) -> None:
        job_id, answered_at = parse_job_id(self.job_id), host_now()
        self.log.operations += [
            Operation(
                kind="submit",
                job_id=job_id,
                asked_at=asked_at,
                answered_at=answered_at,
                outcome=outcome,
                key=key,
                run_id=parse_run_id(run) if run is not None else None,
            )
            for key, run in zip(keys, runs, strict=True)
        ]
