"""The client that makes jobs while servers are killed: what it is unsure of, it asks for again in the end."""

from __future__ import annotations

from typing import Any, cast

from mainspring.core.ids import format_job_id, parse_job_id
from mainspring.testing.factories import START, IdSequence
from tests.chaos.client import Answer, Client, JobClient, Log

JOB = format_job_id(IdSequence().new_job_id())
VIEW = {"job_id": JOB, "name": "once-1", "version": 1}


class Scripted:
    """Answers as a server does whose first answer was lost, and whose write was carried out late."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    async def insist(self, method: str, path: str, body: object = None) -> Answer:
        return Answer(422, {"code": "invalid_input"}, START, START)

    async def fetch(self, path: str) -> Any:
        assert path == "/jobs?name=once-1"
        return {"items": self.jobs}


async def test_job_that_appears_after_its_repetition_was_refused_is_noted() -> None:
    server, log = Scripted(), Log()
    client = JobClient(cast(Client, server), log)
    assert await client.create({"name": "once-1", "run_at": "2026-01-05T12:00:00Z"}) is None
    assert log.changes == []
    server.jobs.append(VIEW)
    for _ in range(2):
        await client.settle()
    [change] = log.changes
    assert (change.job_id, change.version, change.at) == (parse_job_id(JOB), 1, START)
