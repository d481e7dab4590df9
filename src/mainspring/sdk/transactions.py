"""Submitting and completing runs within the caller's own transaction on PostgreSQL.

The process needs no server for it, only the connection. So what the server's use cases do elsewhere, they do here: the
same rules make the run, and the same statements insert and end it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.fields import read_payload
from mainspring.core.ids import format_run_id
from mainspring.core.outcomes import succeeded
from mainspring.errors import Conflict, InvalidInput, NotFound, StaleLease
from mainspring.sdk.function import NO_PAYLOAD
from mainspring.sdk.places import START_WITH_APP
from mainspring.sdk.submit_options import SubmitOptions
from mainspring.signals import trace_headers

if TYPE_CHECKING:
    from mainspring.core.model import Job
    from mainspring.core.once import OnceRule
    from mainspring.ports.executor import AttemptContext
    from mainspring.ports.store.runs import SubmitResult
    from mainspring.stores.postgres.callers import CallersStore

Accepted = tuple[str, str]
"""A run's id in its text form, and what became of the submission."""


class DatabaseConnection(Protocol):
    """A connection with an open transaction on the database that holds Mainspring's tables.

    It is one of asyncpg or psycopg 3, or a connection or session of SQLAlchemy on one of these.
    """

    @property
    def execute(self) -> Callable[..., Any]:
        """Execute a statement."""
        ...

    @property
    def close(self) -> Callable[..., Any]:
        """End the connection."""
        ...


async def submit_within(
    tenant: str, name: str, payloads: Sequence[object], options: SubmitOptions
) -> list[Accepted]:
    """Submit runs within the transaction of the connection that the options name.

    Raises:
        InvalidInput: an option, a payload or the connection is wrong, or a rule of the job does not go with it.
        NotFound: there is no job of that name.
        Conflict: the idempotency key was used for another request.
        SchemaMismatch: this program does not fit the store's tables.
    """
    from mainspring.stores.postgres.callers import open_store
    from mainspring.stores.postgres.drivers import find_driver

    texts = _texts_of(payloads)
    return await _submit(
        await open_store(await find_driver(options.connection)), tenant, name, texts, options
    )


def submit_within_sync(
    tenant: str, name: str, payloads: Sequence[object], options: SubmitOptions
) -> list[Accepted]:
    """Like `submit_within`, for code without an event loop."""
    from mainspring.stores.postgres.callers import open_store
    from mainspring.stores.postgres.drivers import drive, find_driver_sync

    texts = _texts_of(payloads)
    store = drive(open_store(find_driver_sync(options.connection)))
    return drive(_submit(store, tenant, name, texts, options))


async def complete_within(connection: DatabaseConnection, attempt: AttemptContext, result: object) -> None:
    """End an attempt's run as SUCCEEDED within the transaction of a connection.

    Raises:
        InvalidInput: the connection is wrong.
        StaleLease: the attempt is over. The transaction has failed, and can only be rolled back.
    """
    from mainspring.stores.postgres.callers import open_store
    from mainspring.stores.postgres.drivers import find_driver

    text = _text_of_result(result)
    await _complete(await open_store(await find_driver(connection)), attempt, text)


def complete_within_sync(connection: DatabaseConnection, attempt: AttemptContext, result: object) -> None:
    """Like `complete_within`, for code without an event loop."""
    from mainspring.stores.postgres.callers import open_store
    from mainspring.stores.postgres.drivers import drive, find_driver_sync

    text = _text_of_result(result)
    drive(_complete(drive(open_store(find_driver_sync(connection))), attempt, text))


async def _submit(
    store: CallersStore, tenant: str, name: str, texts: Sequence[bytes | None], options: SubmitOptions
) -> list[Accepted]:
    # They cost a start, and many apps only define jobs.
    from mainspring.engine.common.traces import RunTraces
    from mainspring.engine.usecases.priority_classes import with_tiers
    from mainspring.engine.usecases.runs import KEY_LIFETIME
    from mainspring.engine.usecases.submissions import JobForm, Submission, make_submitted_run
    from mainspring.engine.usecases.submitted_traces import SubmittedTraces

    found = await store.read_job(tenant, name)
    if found is None:
        raise NotFound("job", name, remedy=START_WITH_APP)
    _refuse_rules(found.job)
    trace = trace_headers().get("traceparent")
    submissions = [
        Submission(
            job_id=found.job.id,
            payload=text,
            run_at=options.run_at,
            delay=options.delay,
            priority=options.priority,
            idempotency_key=options.idempotency_key,
            traceparent=trace,
        )
        for text in texts
    ]
    if isinstance(options.priority, str):
        submissions = await with_tiers(store, submissions)
    form = JobForm(found.job, KEY_LIFETIME)
    calls = SubmittedTraces(RunTraces(), submissions)  # the caller's span is that of the submission, too
    runs = [
        calls.give(index, make_submitted_run(form, one, now=found.now, expiries=found.expiries), found.now)
        for index, one in enumerate(submissions)
    ]
    results = await store.submit(runs, now=found.now) if runs else []
    return [_accepted(result, options) for result in results]


def _refuse_rules(job: Job) -> None:
    from mainspring.core.once import needs_own_transaction

    spec = job.spec
    rules: list[tuple[str, OnceRule | None]] = [
        ("unique", spec.unique),
        ("debounce", spec.debounce),
        ("throttle", spec.throttle),
    ]
    for field, rule in rules:
        if rule is not None and needs_own_transaction(rule):
            what = f"{field!r} with 'on_conflict'" if field == "unique" else repr(field)
            message = (
                f"does not go with {what} of the job {spec.name!r}, which decides between submissions of"
                " different transactions; submit it after the commit, or give each a unique key with 'existing'"
            )
            raise InvalidInput("connection", message)


def _accepted(result: SubmitResult, options: SubmitOptions) -> Accepted:
    if result.run_id is None or result.status is SubmissionVerdict.KEY_MISMATCH:
        message = f"{options.idempotency_key!r} was used for another request; use a new key"
        raise Conflict("idempotency_key", message)
    status = result.status
    if status is SubmissionVerdict.DUPLICATE:
        status = SubmissionVerdict.SUBMITTED
    return format_run_id(result.run_id), status.value


async def _complete(store: CallersStore, attempt: AttemptContext, result: bytes | None) -> None:
    end = succeeded(attempt.run_id, attempt.token, attempt.session_id, result)
    if await store.complete(end):
        return
    with suppress(Exception):  # it fails on purpose; each driver has an error of its own for it
        await store.forbid_commit()
    raise StaleLease(
        f"attempt {attempt.attempt} of {format_run_id(attempt.run_id)} is over: it has ended the run before, or its"
        " lease was lost and another attempt goes on; this transaction is rolled back"
    )


def _texts_of(payloads: Sequence[object]) -> list[bytes | None]:
    return [None if payload is NO_PAYLOAD else read_payload(payload) for payload in payloads]


def _text_of_result(result: object) -> bytes | None:
    """Return the result as a worker would report it: one that cannot be kept is left out, with the reason."""
    from mainspring.executors._calls import succeeded as outcome_of

    text: bytes | None = getattr(outcome_of(result), "result", None)
    return text
