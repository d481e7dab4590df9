"""What clients ask of the product over HTTP, and what of it they know afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import aiohttp

from mainspring.core.ids import JobId, RunId, parse_job_id
from tools.judge import ChangeKind, Fault, Operation

_TIMEOUT = aiohttp.ClientTimeout(total=5)
_PAUSE = 0.1


Windows = tuple[tuple[datetime, datetime], ...]
"""From when up to, but without, when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A change of a job that a client brought about between two instants; its definition is in the final read.

    Attributes:
        windows: when the job's calendar keeps its fires out from then on; None for as before.
        is_by_itself: the job paused itself, and a client saw it.
    """

    job_id: JobId
    kind: ChangeKind
    at: datetime
    until: datetime
    version: int
    windows: Windows | None = None
    is_by_itself: bool = False


@dataclass(slots=True)
class Log:
    """What the harness did and was told."""

    operations: list[Operation] = field(default_factory=list)
    changes: list[Noted] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class Refused(Exception):
    """Nobody listened: surely nothing was done."""


class Unknown(Exception):
    """The answer did not come."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and its body, and when it was asked for and came."""

    status: int
    body: Any
    asked_at: datetime
    answered_at: datetime


def host_now() -> datetime:
    """Return the instant by the host's clock, which is the store's too."""
    return datetime.fromtimestamp(time.time(), UTC)


class Client:
    """Calls the product wherever it listens just now."""

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._session: aiohttp.ClientSession | None = None
        self.repeated = 0

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        address: str | None = None,
    ) -> Answer:
        """Ask once, wherever the product listens, or at a given address.

        Raises:
            Refused: nobody listened.
            Unknown: no answer came, or one that leaves it open.
        """
        assert self._session is not None
        headers = {"Idempotency-Key": key} if key is not None else {}
        asked_at = host_now()
        url = f"{address or self._address()}/api/v1{path}"
        try:
            async with self._session.request(method, url, json=body, headers=headers) as answer:
                content = await answer.json(content_type=None)
                status = answer.status
        except aiohttp.ClientConnectorError as error:
            raise Refused from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unknown from error
        if status >= 500:
            if status != 503:
                raise RuntimeError(f"{method} {path} answered {status}: {content}")
            raise Unknown
        return Answer(status, content, asked_at, host_now())

    async def insist(self, method: str, path: str, body: object = None) -> Answer:
        """Ask until an answer comes; `asked_at` is when the first try went out.

        In doubt the same server is asked again. One that was stopped carries out what waits for it when it goes on:
        after a repetition somewhere else, and whatever was changed next, that would undo it all.
        """
        first, address = host_now(), self._address()
        while True:
            try:
                answer = await self.ask(method, path, body, address=address)
            except (Refused, Unknown) as error:
                self.repeated += 1
                if isinstance(error, Refused):
                    address = self._address()
                await asyncio.sleep(_PAUSE)
            else:
                return Answer(answer.status, answer.body, first, answer.answered_at)

    async def fetch(self, path: str) -> Any:
        """Return what a GET answers."""
        answer = await self.insist("GET", path)
        if answer.status != 200:
            raise RuntimeError(f"GET {path} answered {answer.status}: {answer.body}")
        return answer.body

    async def count_unfinished(self) -> dict[str, int]:
        """Return how many runs wait or run, by state (only as many as a list shows).

        `/counts` may answer by a census that is some seconds old.
        """
        return {
            state: len((await self.fetch(f"/runs?state={state}"))["items"])
            for state in ("PENDING", "RUNNING", "RETRYING", "BLOCKED")
        }


@dataclass(slots=True)
class KnownJob:
    """A job as its client knows it."""

    id: str
    name: str
    version: int
    is_paused: bool = False


class JobClient:
    """Creates and changes jobs, each change repeated until it is known to be made, and notes it.

    Every change is made so that a repetition changes nothing more: an instant between the first try and the answer
    is then all that a client can say of it.

    Attributes:
        last_refusal: what was said of the last job that was refused.
    """

    def __init__(self, client: Client, log: Log) -> None:
        self._client = client
        self._log = log
        self._refused: list[tuple[str, datetime]] = []
        self.last_refusal = ""

    async def adopt(self, since: datetime) -> list[KnownJob]:
        """Note the jobs that exist already (those of the app) as created since an instant."""
        page = await self._client.fetch("/jobs?limit=1000")
        jobs = [KnownJob(view["job_id"], view["name"], view["version"]) for view in page["items"]]
        for job in jobs:
            self._note(job, ChangeKind.CREATED, since)
        return jobs

    async def create(self, body: dict[str, Any]) -> KnownJob | None:
        """Create a job; None if it was refused (an instant may have passed meanwhile)."""
        answer = await self._client.insist("POST", "/jobs", body)
        view = answer.body
        if answer.status >= 400:  # but a try that was not answered may have done it
            page = await self._client.fetch(f"/jobs?name={body['name']}")
            if not page["items"]:
                self._refused.append((body["name"], answer.asked_at))
                self.last_refusal = str(answer.body)
                return None
            view = page["items"][0]
        job = KnownJob(view["job_id"], view["name"], view["version"])
        self._note(job, ChangeKind.CREATED, answer.asked_at)
        return job

    async def insist(self, body: dict[str, Any]) -> KnownJob:
        """Create a job that nothing may stand in the way of.

        Raises:
            RuntimeError: it was refused.
        """
        job = await self.create(body)
        if job is None:
            raise RuntimeError(f"{body['name']} was refused: {self.last_refusal}")
        return job

    async def settle(self) -> None:
        """Note the jobs that exist after all, although a repetition was refused and there was no such job then.

        What a server had sent before it was killed may reach the store, through a line that stalled, later than that.
        """
        for name, asked_at in self._refused:
            page = await self._client.fetch(f"/jobs?name={name}")
            for view in page["items"]:
                job = KnownJob(view["job_id"], view["name"], view["version"])
                self._note(job, ChangeKind.CREATED, asked_at)
        self._refused.clear()

    async def edit(self, job: KnownJob, patch: dict[str, Any]) -> None:
        """Change a job; a patch that says what holds already changes nothing."""
        answer = await self._client.insist("PATCH", f"/jobs/{job.id}", patch)
        if answer.status != 200:
            raise RuntimeError(f"an edit answered {answer.status}: {answer.body}")
        if answer.body["version"] != job.version:
            job.version = answer.body["version"]
            self._note(job, ChangeKind.EDITED, answer.asked_at)

    async def pause(self, job: KnownJob) -> None:
        """Pause a job."""
        answer = await self._client.insist("POST", f"/jobs/{job.id}/pause")
        if not job.is_paused:
            job.is_paused = True
            self._note(job, ChangeKind.PAUSED, answer.asked_at)

    async def resume(self, job: KnownJob) -> None:
        """Resume a job."""
        answer = await self._client.insist("POST", f"/jobs/{job.id}/resume")
        if job.is_paused:
            job.is_paused = False
            self._note(job, ChangeKind.RESUMED, answer.asked_at)

    async def delete(self, job: KnownJob) -> None:
        """Delete a job; not to be found any more is as good."""
        answer = await self._client.insist("DELETE", f"/jobs/{job.id}")
        self._note(job, ChangeKind.DELETED, answer.asked_at)

    async def cancel(self, job_id: JobId, run_id: RunId, text: str) -> None:
        """Cancel a run, once, and note what was answered."""
        asked_at = host_now()
        outcome, word = "ok", None
        try:
            answer = await self._client.ask("POST", f"/runs/{text}/cancel")
            word = answer.body.get("result")
            outcome = "ok" if answer.status == 200 else "fail"
        except Refused:
            outcome = "fail"
        except Unknown:
            outcome = "unknown"
        operation = Operation(
            kind="cancel",
            job_id=job_id,
            asked_at=asked_at,
            answered_at=host_now(),
            outcome=outcome,
            run_id=run_id,
            answer=word,
        )
        self._log.operations.append(operation)

    def _note(self, job: KnownJob, kind: ChangeKind, at: datetime) -> None:
        change = Noted(job_id=parse_job_id(job.id), kind=kind, at=at, until=host_now(), version=job.version)
        self._log.changes.append(change)
