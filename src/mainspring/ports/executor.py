"""The port of executors, which run attempts: function, shell, http."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Protocol, runtime_checkable

from mainspring.core.artifacts import check_artifact_name
from mainspring.core.ids import (
    ArtifactId,
    JobId,
    RunId,
    SessionId,
    format_artifact_id,
    format_run_id,
    key_for_target,
)
from mainspring.core.outcomes import Failure
from mainspring.core.run_logs import RunProgress, make_progress
from mainspring.core.tracing import show_trace_id
from mainspring.core.values import value
from mainspring.errors import Conflict
from mainspring.ports.tracing import headers_of

GENTLY = "gently"
"""The message of a cancellation that lets work that cannot be stopped run to its end; see `Executor.execute`."""
MAX_THREADS = 1_000
"""The most sync functions that one worker may run at a time. Each needs a thread of its own."""


FileContent = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""What a job gives as a file: a path, bytes, or an open binary file."""


class FileKeeper(Protocol):
    """Takes the files of attempts to where they are kept. The errors are those of `AttemptContext.artifact`."""

    async def keep(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Keep a file, and return its id."""
        ...

    def keep_sync(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Keep a file, and return its id. The calling thread waits."""
        ...

    async def keep_result(self, context: AttemptContext, result: bytes) -> bytes:
        """Keep a result that is too large for its run, and return what stands in its place."""
        ...

    def keep_result_sync(self, context: AttemptContext, result: bytes) -> bytes:
        """Do the same while the calling thread waits."""


class OpenLog(Protocol):
    """Where the output of an attempt goes while it runs. It may be written to from any thread."""

    def write(self, text: str) -> None:
        """Take in what the attempt has written. No secret may stand there."""
        ...

    def skip(self, count: int) -> None:
        """Note bytes that were written and are gone."""
        ...

    def tell(self, progress: RunProgress) -> None:
        """Note how far the attempt says it is."""
        ...


class LogRoom(Protocol):
    """Opens what takes the output of attempts under way."""

    @property
    def limit(self) -> int:
        """The most bytes that are kept of an attempt, but for the newest ones."""
        ...

    def open(self, context: AttemptContext) -> OpenLog:
        """Return where an attempt's output goes."""
        ...


@value()
class AttemptContext:
    """Everything that an executor and a job may know about the attempt. Its fields are positional for speed.

    Attributes:
        fire_at: the nominal instant of a scheduled run; None for others.
        due_at: when the run was due to start.
        attempt: from 1.
        token: the fencing token. Pass it to the target, so that the target can refuse late holders too.
        target_key: the submitter's idempotency key, or None.
        payload: JSON text in UTF-8, or None.
        timeout: hard limit of this attempt.
        soft_timeout: when to ask the job to end; None means only the hard limit.
        session_id: the worker session that holds the lease. With it and the token, a job can end its run itself.
        trace: the trace context (`core.tracing`) that it passes on; None if its run is not traced.
        room: where its output goes while it runs; None if it goes there only at its end.
        log: what `room` has opened for it; None as long as it has written nothing.
        kept: where the executor keeps what the job prints; None as long as it has printed nothing.
        files: takes the files that the job leaves behind; None where none are taken.
    """

    run_id: RunId
    job_id: JobId
    job_name: str
    tenant: str
    attempt: int
    token: int
    fire_at: datetime | None
    due_at: datetime
    target_key: str | None
    payload: bytes | None
    params: Mapping[str, Any]
    timeout: timedelta
    soft_timeout: timedelta | None = None
    session_id: SessionId = SessionId(0)
    trace: bytes | None = None
    room: LogRoom | None = field(default=None, repr=False, compare=False)
    log: OpenLog | None = field(default=None, init=False, repr=False, compare=False)
    kept: Any = field(default=None, init=False, repr=False, compare=False)
    files: FileKeeper | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def run(self) -> str:
        """The run's id as commands and the API show and take it: `run_` and 13 characters."""
        return format_run_id(self.run_id)

    @property
    def idempotency_key(self) -> str:
        """The idempotency key, the same for every attempt of the run. Pass it to the target."""
        return key_for_target(self.run_id, self.target_key)

    @property
    def trace_id(self) -> str | None:
        """The id of the trace that the attempt is in, as tools for tracing show it; None if it is in none."""
        return show_trace_id(self.trace)

    async def artifact(self, name: str, content: FileContent, *, content_type: str | None = None) -> str:
        """Keep a file, so that it can be fetched after the run, and return its id.

        It is there once this returns. It is shown if this attempt is the run's last.

        Args:
            name: what it is called, like `report.pdf` or `plots/a.png`.
            content: a path, bytes, or an open binary file, which is read to its end. Large files go piece by piece.
            content_type: its media type; None goes by the end of the name.

        Raises:
            InvalidInput: the name or the type is none, or the file cannot be read or is too large.
            Conflict: the attempt has one of that name, or has lost its run; or no files are kept here.
        """
        if self.files is None:
            return _without_files(self, name)
        return await self.files.keep(self, name, content, content_type)

    def artifact_sync(self, name: str, content: FileContent, *, content_type: str | None = None) -> str:
        """Like `artifact`, for functions without `async`."""
        if self.files is None:
            return _without_files(self, name)
        return self.files.keep_sync(self, name, content, content_type)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the work is: `mainspring run show` and the API tell it while the run is RUNNING.

        Call it as often as you like: about once a second, the newest one is sent. What a job says in its first second
        is not sent if it ends by then.

        Args:
            done: how much is done.
            total: how much there is to do; None if that is not known.
            message: a few words for people; of longer ones the first 200 characters are kept.

        Raises:
            InvalidInput: a number is negative or not finite, or the message is no text.
        """
        told = make_progress(done, total, message)
        log = self.open_log()
        if log is not None:
            log.tell(told)

    def open_log(self) -> OpenLog | None:
        """Return where the attempt's output goes while it runs; None if it goes there only at its end."""
        if self.log is None and self.room is not None:
            self.log = self.room.open(self)  # type: ignore[misc]  # it is the same object each time
        return self.log

    def trace_headers(self) -> dict[str, str]:
        """Return the headers by which a request carries on the trace; empty without one.

        Within a span of your own, made with OpenTelemetry, they carry on that span.
        """
        return headers_of(self.trace)


def _without_files(context: AttemptContext, name: str) -> str:
    """Return the id of a file that is kept nowhere, for a function that is called directly, as a test does.

    Raises:
        InvalidInput: the name is none.
        Conflict: it is called by a worker that takes no files.
    """
    check_artifact_name(name)
    if context.run_id:
        raise Conflict("artifacts.url", "is not set, so files of runs cannot be kept")
    return format_artifact_id(ArtifactId(0))


@value(kw_only=True)
class Success:
    """The attempt succeeded.

    Attributes:
        result: JSON text in UTF-8, or None. If the work is done and its result cannot be kept, the mark that
            `core.results` makes.
        output: captured text (a command's stdout and stderr, a response's body), capped by the executor.
    """

    result: bytes | None = None
    output: str | None = None


@value()
class Snooze:
    """The job asks to be called again later; no attempt is counted."""

    delay: timedelta


@value()
class NotBegun:
    """The work was not begun, because it had been asked at the last moment whether it may begin, and may not."""


Outcome = Success | Failure | Snooze | NotBegun

OnEnd = Callable[[Outcome], None]
"""Called with the outcome of an attempt."""


class Executor(Protocol):
    """Runs attempts of one target type."""

    @property
    def type(self) -> str:
        """The target type: `function`, `shell`, `http`."""
        ...

    async def start(self) -> None:
        """Acquire what attempts share, such as a client session or threads."""
        ...

    async def execute(self, context: AttemptContext) -> Outcome:
        """Run one attempt and return how it ended.

        The executor enforces `context.timeout` itself, and reports it as a `Failure` with `is_timeout`. When the
        calling task is cancelled, the executor stops the work (a command's whole process tree) before it lets
        `CancelledError` through. It abandons work that cannot be stopped (a function in a thread). If the message of
        the cancellation is `GENTLY`, it waits for such work instead, and returns how it ended, by completion or time
        limit. Anything that the job raises becomes a `Failure`; nothing else is raised.
        """
        ...

    async def stop(self) -> None:
        """Release what `start` acquired. Called when no attempt is under way."""
        ...


@runtime_checkable
class BoundedExecutor(Executor, Protocol):
    """An executor that limits how many attempts of some functions run at a time, however many slots are free."""

    @property
    def bounded_functions(self) -> frozenset[str]:
        """Names of the functions that share the limit."""
        ...

    def room(self) -> int | None:
        """Return how many more of them can begin without waiting; None means no limit.

        A caller that begins no more than this many, and nothing else meanwhile, has to wait for nothing.
        """
        ...

    def listen_for_room(self, listener: Callable[[], object]) -> None:
        """Register one listener.

        It is called on the event loop when there may be room although no attempt has ended.
        """
        ...


@runtime_checkable
class DeferringExecutor(Executor, Protocol):
    """An executor whose work begins some time after it was asked for: on a thread, or in a process that is made."""

    def ask_before_work(self, may_begin: Callable[[], bool]) -> None:
        """Register what is asked, on any thread, right before the work of an attempt begins.

        If it says no, the work does not begin, and its outcome is `NotBegun`.
        """
        ...


@runtime_checkable
class CallbackExecutor(Executor, Protocol):
    """An executor that runs attempts without a task for each, for work that may take only microseconds."""

    def begin(self, context: AttemptContext, on_end: OnEnd) -> object | None:
        """Start an attempt and return a handle on it. `on_end` is called once, later, on the calling thread.

        Returns:
            None: it cannot start this attempt; use `execute`.
        """
        ...

    async def halt(self, handle: object, message: str | None) -> Outcome:
        """Stop an attempt that was started, as `execute` does when cancelled. Its `on_end` is no longer called.

        Raises:
            CancelledError: the attempt was stopped or abandoned.
        """
        ...


@runtime_checkable
class BatchExecutor(CallbackExecutor, Protocol):
    """An executor that can give many attempts to one call."""

    def begin_batch(self, contexts: Sequence[AttemptContext], on_end: OnEnd) -> object | None:
        """Start one call for attempts of one version of a job, as `begin` does for one attempt.

        Its outcome says how the call ended; `split` says how each attempt did. `halt` stops the call.
        """
        ...

    def split(self, handle: object, outcome: Outcome) -> Sequence[Outcome]:
        """Return the outcome of each attempt of a call that has ended, in the order of its contexts."""
        ...
