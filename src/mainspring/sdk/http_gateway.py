"""How a worker in another process reaches the engine: the open worker protocol over HTTP."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec

from mainspring.clock import LoopWaiter
from mainspring.core.checkpoints import NewCheckpoint
from mainspring.core.ids import ArtifactId, RunId, SessionId, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.results import read_mark
from mainspring.errors import Conflict, InvalidInput, NotFound, StoreUnavailable, Unreachable
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.checkpoints import KeptStepPage, KeptSteps
from mainspring.ports.clock import RandomSource
from mainspring.ports.executor import Success
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    HandedBack,
    LogReport,
    LogResult,
    Registration,
    Report,
    ReportResult,
    Session,
)
from mainspring.sdk.transfers import Transfers
from mainspring.sdk.transport import ANSWER_SECONDS
from mainspring.wire import operations, protocol
from mainspring.wire.protocol import (
    BeatAnswerIn,
    BeatBody,
    ClaimAnswerIn,
    SessionBody,
    SessionGrantedIn,
)
from mainspring.wire.protocol.artifacts import read_artifact_id

_PART_BYTES = 800_000
"""The most bytes of reports in one request. A server reads 1 MiB."""
_FIRST_SHARE = 0.6
"""The share of a beat period that a server has to answer a heartbeat or a report, before the call goes to another one.
It is more than half, so that if none of them answers, the worker gives up first and beats again at once."""
_LONGEST_SILENCE = 6.0
"""The most seconds for the same. It is less than the reaper waits for a report after a run's deadline."""

_UPLOAD_PAUSES = (0.5, 2.0, 5.0)
"""Seconds after which a file is sent again that could not be sent."""

_encode = msgspec.json.Encoder().encode


class HttpGateway:
    """A `WorkerGateway` for one server, or for several that share a store.

    Every call may be repeated: sessions are cheap, claims carry a number, and reports a token. If a server does not
    answer, the repeat goes to another one. Heartbeats, reports and the final `leave` go there at once. They must not
    be late: a run whose end is not reported by its deadline counts as timed out. A claim goes there after the
    worker's own backoff.

    Args:
        server: the address; separate several by commas.
    """

    def __init__(self, server: str, *, random: RandomSource | None = None) -> None:
        self._transport = Transfers(server, random=random)
        self._silence = ANSWER_SECONDS  # the worker gives up sooner
        self._tells_durations = True
        self._takes_logs = True

    async def start(self) -> None:
        """Open the HTTP session."""
        await self._transport.start()

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._transport.close()

    async def register(self, registration: Registration) -> Session:
        """Open a session."""
        body = protocol.from_registration(registration)
        granted = await self._transport.call_as(operations.WORKER_REGISTER, SessionGrantedIn, body=body)
        self._tells_durations = self._takes_logs = True
        beat_period = timedelta(seconds=granted.beat_period_seconds)
        if len(self._transport.servers) > 1:
            self._silence = min(granted.beat_period_seconds * _FIRST_SHARE, _LONGEST_SILENCE)
        return Session(
            id=protocol.read_session(granted.session_id),
            beat_period=beat_period,
            tenant=granted.tenant,
            queues=tuple(granted.queues),
        )

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases; wait up to `call.wait` for the first."""
        body = protocol.from_claim(call)
        # Not repeated here: the worker repeats it with limit 0, so that another server recognizes the repeat.
        answer = await self._transport.call_as(
            operations.WORKER_CLAIM, ClaimAnswerIn, body=body, may_move=True
        )
        return protocol.to_claim_reply(answer)

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        """Report that the session is alive and what it holds."""
        body = BeatBody(
            session_id=protocol.show_session(session_id), held=protocol.from_keys(held), answered=answered
        )
        view = await self._transport.call_as(
            operations.WORKER_BEAT, BeatAnswerIn, body=body, may_repeat=True, seconds=self._silence
        )
        return protocol.to_beat_reply(view)

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Report how attempts ended, in as many requests as needed. After an error, repeat the whole call."""
        if self._tells_durations:
            try:
                return await self._report(session_id, reports)
            except InvalidInput:
                if all(_is_plain(report) for report in reports):
                    raise
        # Servers of earlier releases refuse reports with what is younger than they are.
        results = await self._report(session_id, tuple(map(_without_news, reports)))
        self._tells_durations = False
        return results

    async def _report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        results: list[ReportResult] = []
        for part in _parts([_encode(protocol.from_report(report)) for report in reports]):
            body = {"session_id": protocol.show_session(session_id), "reports": part}
            view = await self._transport.call(
                operations.WORKER_REPORT,
                body=body,
                may_repeat=True,
                may_move=True,
                seconds=self._silence,
            )
            results += [ReportResult(result) for result in view.results]
        return tuple(results)

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Keep a file; see `ArtifactGateway`. The server says where it goes, which may be a bucket."""
        session = protocol.show_session(session_id)
        place = await self._transport.call(
            operations.WORKER_ARTIFACT, body=_body_of(session, upload), may_repeat=True
        )
        waiter = LoopWaiter()
        for pause in (*_UPLOAD_PAUSES, None):
            try:
                await self._send(place, upload)
                body = protocol.ConfirmBody(session_id=session, artifact_id=place.artifact_id)
                kept = await self._transport.call(operations.WORKER_CONFIRM, body=body, may_repeat=True)
            except (Unreachable, StoreUnavailable):
                if pause is None:
                    raise
                await waiter.wait(pause)
            else:
                return read_artifact_id(kept.artifact_id)
        raise AssertionError("the last try raises or returns")

    async def _send(self, place: protocol.ArtifactPlaceView, upload: ArtifactUpload) -> None:
        """Put the bytes of a file. If they are there already, a try before has put them."""
        headers = place.headers
        if not place.url.startswith("/"):
            headers = {**headers, "Content-MD5": b64encode(upload.md5).decode()}
        try:
            await self._transport.send_file(place.url, headers, upload.open, upload.size)
        except Conflict as error:
            if error.field != "artifact":
                raise

    async def keep_checkpoints(self, session_id: SessionId, items: Sequence[NewCheckpoint]) -> KeptSteps:
        """Keep what steps have come to, in as many requests as needed; see `CheckpointGateway`."""
        answers: list[KeptSteps] = []
        for part in _parts(_encode(protocol.from_checkpoint(item)) for item in items):
            body = {"session_id": protocol.show_session(session_id), "steps": part}
            view = await self._transport.call(
                operations.WORKER_KEEP_STEPS, body=body, may_repeat=True, may_move=True
            )
            answers.append(protocol.to_kept(view))
        return KeptSteps(tuple(verdict for kept in answers for verdict in kept.verdicts), answers[-1].at)

    async def list_checkpoints(
        self, session_id: SessionId, run_id: RunId, token: int, *, after: tuple[str, int] | None = None
    ) -> KeptStepPage:
        """Return a page of the steps of a run; see `CheckpointGateway`."""
        name, number = after or (None, -1)
        body = protocol.StepsWantedBody(
            session_id=protocol.show_session(session_id),
            run_id=format_run_id(run_id),
            token=token,
            after_name=name,
            after_number=number,
        )
        view = await self._transport.call(
            operations.WORKER_LIST_STEPS, body=body, may_repeat=True, may_move=True
        )
        return protocol.to_step_page(view, token)

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        """Send what attempts under way have written, in as many requests as needed.

        A server of an earlier release takes none; then nothing more is sent in this session.
        """
        results: list[LogResult] = []
        items = [_encode(protocol.from_log_report(report)) for report in reports]
        for part in _parts(items):
            if not self._takes_logs:
                break
            body = {"session_id": protocol.show_session(session_id), "reports": part}
            try:
                view = await self._transport.call(
                    operations.WORKER_LOG, body=body, may_repeat=True, may_move=True, seconds=self._silence
                )
            except NotFound:
                self._takes_logs = False
            else:
                results += [LogResult(result) for result in view.results]
        return (*results, *[LogResult.UNKNOWN] * (len(reports) - len(results)))

    async def leave(self, session_id: SessionId) -> None:
        """End the session."""
        body = SessionBody(session_id=protocol.show_session(session_id))
        await self._transport.call(operations.WORKER_LEAVE, body=body, may_repeat=True)


def _body_of(session: str, upload: ArtifactUpload) -> protocol.ArtifactBody:
    return protocol.ArtifactBody(
        session_id=session,
        run_id=format_run_id(upload.run_id),
        token=upload.token,
        name=upload.name,
        content_type=upload.content_type,
        size=upload.size,
        sha256=upload.sha256.hex(),
        is_result=upload.is_result,
    )


def _is_plain(report: Report) -> bool:
    """Say whether every server knows all that a report says."""
    return _without_news(report) == report


def _without_news(report: Report) -> Report:
    """Return a report that every server knows."""
    ending = report.ending
    if isinstance(ending, HandedBack):
        ending = replace(ending, is_preempted=False)
    elif isinstance(ending, Success | Failure) and read_mark(ending.result) is not None:
        ending = replace(ending, result=None)
    if isinstance(ending, Failure):
        ending = replace(ending, cause=None)
    return replace(report, ending=ending, took=None)


def _parts(reports: Iterable[bytes]) -> Iterator[list[msgspec.Raw]]:
    """Split encoded reports into requests that a server accepts; a longer report goes by itself.

    Each report is encoded once: the bytes that are measured are the bytes that are sent.
    """
    part: list[msgspec.Raw] = []
    size = 0
    for item in reports:
        length = len(item) + 1
        if part and size + length > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append(msgspec.Raw(item))
        size += length
    if part:
        yield part
