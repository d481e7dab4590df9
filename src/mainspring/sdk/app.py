"""`App`: jobs as decorated functions, and calls to the server that schedules them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from mainspring.core.fields import read_payload, read_word
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.owners import read_owner
from mainspring.errors import Conflict, InvalidInput, MainspringError, NotFound
from mainspring.plugins import load_plugins
from mainspring.registry import FunctionRegistry
from mainspring.sdk.async_facade import AsyncFacade
from mainspring.sdk.batch import Batch
from mainspring.sdk.credentials import check_token
from mainspring.sdk.definitions import JobOptions, WorkflowOptions, job_body
from mainspring.sdk.function import NO_PAYLOAD, Function, check_payloads
from mainspring.sdk.places import START_WITH_APP, add_place, refuse_callable
from mainspring.sdk.portal import Portal
from mainspring.sdk.runs import RunHandle, wait_for_run
from mainspring.sdk.submit_options import SubmitOptions
from mainspring.signals import Call, current_attempt

if TYPE_CHECKING:
    from mainspring.host.embedding import Embedding, EmbeddingOptions
    from mainspring.payloads.codec import Codec
    from mainspring.ports.executor import AttemptContext
    from mainspring.sdk.client import AsyncClient
    from mainspring.sdk.durable import DurableContext
    from mainspring.sdk.once import Duration
    from mainspring.sdk.staging import Stage
    from mainspring.sdk.sync_client import SyncClient
    from mainspring.sdk.transactions import DatabaseConnection
    from mainspring.sdk.workflow import AppWorkflow
    from mainspring.testing.mode import TestingMode, TestingOptions
    from mainspring.wire.owners import OwnerView
    from mainspring.wire.views import RunView

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
DEFAULT_SERVER = "http://127.0.0.1:8620"
_MAX_BYTES = 900_000
_NO_NAME = "give App(name=…): without a name, nobody knows which jobs were this app's"


class JobDecorator(Protocol):
    """What `@app.job()` returns: it makes a function a job."""

    @overload
    def __call__(
        self, call: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Function[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, call: Callable[P, T], /) -> Function[P, T, T]: ...


class App:
    """Jobs as decorated functions.

    `mainspring up MODULE:APP` and `mainspring worker MODULE:APP` upsert the jobs by name and run them.
    `await f.enqueue(...)` submits a run from anywhere. Calls to the server go out from one loop in the app's own
    thread. So they work from any event loop, and the methods that end in `_sync` work without one.

    Args:
        server: the server's address; the default is the server of the process that runs the app, then
            MAINSPRING_SERVER, then http://127.0.0.1:8620.
        tenant: the tenant that the jobs and their runs belong to.
        name: the app's name: its jobs belong to it, and what it does not define any more is found by it. The default
            is the MODULE:APP under which the app is loaded. Name apps that share a store, and never rename them.
        token: the access token to present; the default is the one that MAINSPRING_TOKEN has, or the file that
            MAINSPRING_TOKEN_FILE names.

    Attributes:
        registry: the functions by name, for workers.
        tenant: the tenant.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        name: str | None = None,
        token: str | None = None,
    ) -> None:
        load_plugins()  # a job may have a trigger that a package adds
        self.tenant: str = read_word(tenant, "tenant")
        self.registry: FunctionRegistry = FunctionRegistry()
        self._server = server
        self._host_server: str | None = None
        self._may_move = False
        self._host_token: str | None = None
        self._token = None if token is None else check_token(token, "token")
        self._name = None if name is None else read_owner(name, "name")
        self._reference: str | None = None
        self._functions: dict[str, Function[..., Any, Any]] = {}
        self._workflows: dict[str, AppWorkflow] = {}
        self._job_ids: dict[str, str] = {}
        self._client: AsyncClient | None = None
        self._client_pid = 0
        self._stage: Stage | None = None
        self._portal = Portal(self._close_client)

    @property
    def server(self) -> str:
        """The address of the server that calls go to."""
        return self._server or self._host_server or os.environ.get("MAINSPRING_SERVER") or DEFAULT_SERVER

    @property
    def client(self) -> AsyncClient:
        """All routes of the API as coroutine methods that can be awaited on any event loop."""
        return cast("AsyncClient", AsyncFacade(self.perform))

    @property
    def sync(self) -> SyncClient:
        """The same methods for code without an event loop: each waits and returns the answer, or yields a list."""
        from mainspring.sdk.sync_client import SyncClient

        return SyncClient(self.perform_sync)

    @property
    def name(self) -> str | None:
        """The app's name: the one that it was given, or else the MODULE:APP that it was loaded by; None if neither."""
        return self._name or self._reference

    def load_as(self, reference: str) -> None:
        """Tell the app the MODULE:APP that it was loaded by. A name given to `App` wins."""
        self._reference = reference

    async def put_jobs(self, *, prune: bool = False) -> OwnerView | None:
        """Store the jobs that the code defines, as `mainspring up` does at its start.

        Args:
            prune: delete the jobs that this app once defined and does not any more, unless a live worker still has
                their function. That takes a name: give one to `App`.

        Returns:
            What became of the jobs that are not defined any more; None if the app has no name.

        Raises:
            InvalidInput: a definition is wrong, or there is no name to prune by.
        """
        if prune and self.name is None:
            raise InvalidInput("name", _NO_NAME)
        return await self.perform(lambda client: self._put_jobs(client, prune))

    def put_jobs_sync(self, *, prune: bool = False) -> OwnerView | None:
        """Like `put_jobs`, for code without an event loop."""
        if prune and self.name is None:
            raise InvalidInput("name", _NO_NAME)
        return self.perform_sync(lambda client: self._put_jobs(client, prune))

    async def _put_jobs(self, client: AsyncClient, prune: bool) -> OwnerView | None:
        from mainspring.sdk.applying import (  # costs a start, and many only define
            apply_to,
            name_job,
            parts_of,
        )

        told: list[OwnerView] = []
        *before, last = parts_of(self.definitions())
        for part in (*before, last):
            names = [*self._functions, *self._workflows]
            owners = {self.name: names} if self.name is not None and part is last else {}
            try:
                told = await apply_to(client, part, owners, prune=prune and part is last)
            except (InvalidInput, Conflict) as error:
                raise name_job(error, part) from None
        return told[0] if told else None

    def serve_by(self, server: str | None, *, may_move: bool = False) -> None:
        """Tell the app which server its process works for; None: for none any more. An address given to `App` wins.

        Args:
            may_move: whether another process may take the server's place. Then calls wait a while for it.
        """
        self._host_server = server
        self._may_move = may_move

    def call_with(self, token: str | None) -> None:
        """Tell the app which access token its own process's server takes; None: that of the environment again."""
        self._host_token = token

    @overload
    def job(
        self,
        name: str | None = None,
        *,
        batch: Batch | Mapping[str, Any],
        **definition: Unpack[JobOptions],
    ) -> Callable[[Callable[[list[Call[Any]]], R]], Function[..., R, Any]]: ...
    @overload
    def job(self, name: str | None = None, **definition: Unpack[JobOptions]) -> JobDecorator: ...
    def job(self, name: str | None = None, **definition: Any) -> Any:
        """Make a function a job.

        Args:
            name: the job's name; the function's by default.
            definition: fields of a job (`every`, `cron`, `tz`, `run_at`, `retry`, `queue`, `timeout`, …), and
                `retries` for `retry.max_retries`. Without a trigger, the job runs only when submitted.
                With `batch`, the function gets a list of calls.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        if callable(name):
            raise InvalidInput("name", "write @app.job() with parentheses")

        return self.decorator(name, definition)

    def decorator(
        self,
        name: str | None,
        definition: Mapping[str, Any],
        *,
        make: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
        version: str | None = None,
    ) -> Callable[[Callable[..., Any]], Function[..., Any, Any]]:
        """Return what makes a function a job, for `job` and `durable`.

        Args:
            make: returns what workers call in its place.
            version: that of its code, if only workers that have this one are to call it.
        """

        def decorate(call: Callable[..., Any]) -> Function[..., Any, Any]:
            job_name = name if name is not None else getattr(call, "__name__", "")
            try:
                is_isolated = definition.get("isolation") is not None
                refuse_callable(call, is_named=name is not None, is_isolated=is_isolated)
                if job_name in self._workflows:
                    raise InvalidInput("name", f"the app has a workflow {job_name!r}; choose another name")
                body = job_body(job_name, definition)
                if version is not None:
                    body["function"] = f"{job_name}@{version}"
                called = call if make is None else make(call)
                function: Function[..., Any, Any] = Function(self, job_name, called, body)
                self.registry.add(body["function"], called)
            except InvalidInput as error:
                # How it was found out is of no use to the user, whose line is the one above this one.
                raise add_place(error, job_name, sys._getframe(1)).with_traceback(None) from None
            self._functions[job_name] = function
            return function

        return decorate

    def durable(
        self, name: str | None = None, *, code_version: str | None = None, **definition: Unpack[JobOptions]
    ) -> Callable[
        [Callable[Concatenate[DurableContext, P], Coroutine[Any, Any, T]]],
        Function[P, Coroutine[Any, Any, T], T],
    ]:
        """Make an async function a job whose steps are kept, so that a later attempt goes on where this one ended.

        The function gets a `DurableContext` before its arguments. What is not in a step of it may run again.

        Args:
            name: the job's name; the function's by default.
            code_version: change it if runs that are under way cannot go on with the changed function. They then wait
                for a worker of the version with which they were made.
            definition: fields of a job, as for `job`. Neither `batch` nor `isolation` goes with it.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        from mainspring.sdk.durable import decorate_durable  # costs a start, and few are durable

        return decorate_durable(self, name, code_version, definition)

    def workflow(
        self, name: str, *, deadline: Duration | None = None, **definition: Unpack[WorkflowOptions]
    ) -> AppWorkflow:
        """Make a job that runs steps; `step` of what is returned adds them.

        Args:
            name: the job's name.
            deadline: how long a run of it may take as a whole.
            definition: fields of a job (`cron`, `every`, `queue`, `overlap`, `notify`, …). Retries, time limits and
                labels are for the steps.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        from mainspring.sdk.workflow import make_workflow  # costs a start, and few have steps

        if name in self._functions or name in self._workflows:
            raise InvalidInput("name", f"the app has a job {name!r} already; choose another name")
        workflow = make_workflow(self, name, definition, deadline=deadline)
        self._workflows[name] = workflow
        return workflow

    def definitions(self) -> list[dict[str, Any]]:
        """Return the bodies of the app's jobs, as `PUT /api/v1/jobs` takes them.

        Raises:
            InvalidInput: the steps of a workflow do not go together.
        """
        workflows = [workflow.definition for workflow in self._workflows.values()]
        return [dict(function.definition) for function in self._functions.values()] + workflows

    async def submit(
        self, name: str, payloads: Sequence[object], options: SubmitOptions | None = None
    ) -> list[RunHandle[Any]]:
        """Submit runs of a job by its name; `Function.enqueue` is the usual way.

        Raises:
            InvalidInput: a payload or option is wrong; nothing of that request is stored.
            NotFound: the server has no job of that name.
            TooMany: a queue or the tenant is full, or its rate is used up; nothing of that request is stored.
            Unreachable: the server did not answer.
        """
        check_payloads(payloads)
        chosen = options or SubmitOptions()
        if chosen.connection is not None:
            self._refuse_transactions_in_tests()
            from mainspring.sdk.transactions import submit_within

            accepted = await submit_within(self.tenant, name, payloads, chosen)
            return self._handles(name, accepted)
        return await self.perform(lambda client: self._submit(client, name, payloads, chosen))

    def submit_sync(
        self, name: str, payloads: Sequence[object], options: SubmitOptions | None = None
    ) -> list[RunHandle[Any]]:
        """Like `submit`, for code without an event loop."""
        check_payloads(payloads)
        chosen = options or SubmitOptions()
        if chosen.connection is not None:
            self._refuse_transactions_in_tests()
            from mainspring.sdk.transactions import submit_within_sync

            accepted = submit_within_sync(self.tenant, name, payloads, chosen)
            return self._handles(name, accepted)
        return self.perform_sync(lambda client: self._submit(client, name, payloads, chosen))

    async def complete(
        self,
        connection: DatabaseConnection,
        result: object = None,
        *,
        attempt: AttemptContext | None = None,
    ) -> None:
        """End the run that calls this, as SUCCEEDED, within the transaction of a connection.

        The run ends with your commit, together with what else the transaction has written; a rollback undoes both. Make
        it the last statement of the transaction. What the function returns afterwards is not kept.

        Args:
            connection: as for `Function.options`; its database is that of the servers.
            result: the run's result, as JSON. As always, one that is too large or not JSON is left out.
            attempt: the attempt to end, in a batch; otherwise `current_attempt()`.

        Raises:
            InvalidInput: the connection is wrong.
            LookupError: no attempt is under way here.
            StaleLease: the attempt is over, because its lease was lost or it has ended its run before. The transaction
                has failed, so nothing of it is kept.
        """
        self._refuse_transactions_in_tests()
        from mainspring.sdk.transactions import complete_within

        await complete_within(connection, attempt or current_attempt(), result)

    def complete_sync(
        self,
        connection: DatabaseConnection,
        result: object = None,
        *,
        attempt: AttemptContext | None = None,
    ) -> None:
        """Like `complete`, for functions without an event loop."""
        self._refuse_transactions_in_tests()
        from mainspring.sdk.transactions import complete_within_sync

        complete_within_sync(connection, attempt or current_attempt(), result)

    def _refuse_transactions_in_tests(self) -> None:
        if self._stage is not None:
            message = (
                "app.testing() keeps runs in memory, where no transaction reaches them; use a server instead"
            )
            raise InvalidInput("connection", message)

    async def perform(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Make calls with the app's client, from any event loop."""
        if self._stage is not None:
            return await self._stage.perform(work)
        return await self._portal.call_async(lambda: self._with_client(work))

    def perform_sync(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        """Make calls with the app's client while the calling thread waits."""
        if self._stage is not None:
            return self._stage.perform_sync(work)
        return self._portal.call(lambda: self._with_client(work))

    async def wait_for(self, run_id: str, timeout: float | timedelta | None = None) -> RunView:
        """Wait until a run has ended; `RunHandle.wait` is the usual way."""
        if self._stage is not None:
            return await self._stage.wait(run_id, timeout)
        return await self.perform(lambda client: wait_for_run(client, run_id, timeout))

    def wait_for_sync(self, run_id: str, timeout: float | timedelta | None = None) -> RunView:
        """Like `wait_for`, for code without an event loop."""
        if self._stage is not None:
            return self._stage.wait_sync(run_id, timeout)
        return self.perform_sync(lambda client: wait_for_run(client, run_id, timeout))

    def testing(self, mode: str = "eager", **options: Unpack[TestingOptions]) -> TestingMode:
        """Serve the app within this process until a block ends: `with app.testing() as t`, or `async with`.

        Inside, nothing reaches a server. Runs are kept in memory, and time stands still until it is moved. Leaving the
        block forgets the runs.

        Args:
            mode: `eager`: a call that makes a run due carries it out before it returns, with its retries. `held`:
                runs wait for `t.work()`, `t.run_all()` or `t.jump()`.
            options: `raise_errors`, `now`, `http` and `shell`; see `mainspring.testing.TestingMode`.

        Raises:
            InvalidInput: there is no such mode, or the app is being tested already.
        """
        from mainspring.testing.mode import TestingMode

        return TestingMode(self, mode, **options)

    def embedded(self, **options: Unpack[EmbeddingOptions]) -> Embedding:
        """Serve the app within a process that something else runs, such as a web server.

        It schedules, serves the API and runs the jobs, on threads of its own. Any number of processes may do this on
        one store: each fire makes one run. On SQLite one of them works, and the next takes over when it ends.

        Use what is returned as a lifespan (`FastAPI(lifespan=app.embedded())`), as a block (`async with`, `with`), or
        call its `start()`, which does nothing in the parent process of a reloader, in commands that serve nothing, and
        in tests.

        Args:
            options: `store`, `data`, `slots`, `port`, `drain` and `prune`; see `mainspring.host.embedding`. What is not
                given comes from the environment and the file, as for `mainspring up`.

        Raises:
            InvalidInput: an option is wrong.
        """
        from mainspring.host.embedding import Embedding

        return Embedding(self, **options)

    def serve_on(self, stage: Stage | None) -> None:
        """Send the app's calls to a stage instead of a server; None sends them to the server again."""
        self._stage = stage

    @property
    def stage(self) -> Stage | None:
        """Where the app's calls go instead of a server."""
        return self._stage

    def close(self) -> None:
        """End the app's thread and connections; this happens by itself at exit. A later call reopens them."""
        self._portal.close()

    async def _submit(
        self, client: AsyncClient, name: str, payloads: Sequence[object], options: SubmitOptions
    ) -> list[RunHandle[Any]]:
        handles: list[RunHandle[Any]] = []
        codec = self._result_codec(name)
        for batch in _batches(name, payloads, options):
            try:
                results = await client.submit_runs(batch)
            except InvalidInput as error:
                raise _refusal(error, name, len(handles)) from None
            for result in results:
                if result.run_id is None or result.status == "key_mismatch":
                    message = f"{options.idempotency_key!r} was used for another request; use a new key"
                    raise Conflict("idempotency_key", message)
                status = "submitted" if result.status == "duplicate" else result.status
                handles.append(RunHandle(self, result.run_id, status, codec=codec))
        return handles

    def _handles(self, name: str, accepted: Sequence[tuple[str, str]]) -> list[RunHandle[Any]]:
        codec = self._result_codec(name)
        return [RunHandle(self, run_id, status, codec=codec) for run_id, status in accepted]

    def _result_codec(self, name: str) -> Codec | None:
        """Return what reads the results of a job. Of a batched one, the function returns outcomes, not results."""
        function = self._functions.get(name)
        if function is None or function.types is None or function.definition.get("batch") is not None:
            return None
        return function.types.result

    async def _with_client(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]]) -> T:
        if (
            self._client is None or self._client_pid != os.getpid()
        ):  # a fork has no use for its parent's connections
            from mainspring.sdk.client import AsyncClient

            self._client = AsyncClient(self.server, tenant=self.tenant, token=self._token)
            self._client_pid = os.getpid()
        self._client.relocate = self._find_server if self._may_move else None
        self._client.credentials.lend(None if self._server or self._token else self._host_token)
        return await work(self._client)

    def _find_server(self) -> str:
        return self.server

    async def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _batches(name: str, payloads: Sequence[object], options: SubmitOptions) -> Iterator[list[dict[str, Any]]]:
    """Split submissions into requests that the server accepts, bounded in number and in bytes."""
    from mainspring.wire.operation import BULK_LIMIT  # costs a start, and many apps only define jobs

    common: dict[str, Any] = {"job": name}
    if options.delay is not None:
        common["delay"] = options.delay.total_seconds()
    if options.run_at is not None:
        common["run_at"] = options.run_at
    if options.priority is not None:
        one = options.priority
        common["priority"] = one if isinstance(one, str) else one.name
    if options.idempotency_key is not None:
        common["idempotency_key"] = options.idempotency_key
    overhead = 256 + 4 * len(name)
    batch: list[dict[str, Any]] = []
    size = 0
    for payload in payloads:
        item = dict(common)
        if payload is not NO_PAYLOAD:
            item["payload"] = payload
        length = overhead + len(read_payload(item.get("payload")) or b"")
        if batch and (len(batch) == BULK_LIMIT or size + length > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    if batch:
        yield batch


def _refusal(error: InvalidInput, name: str, done: int) -> MainspringError:
    """Return the error of a single submission for a refused bulk request."""
    place, _, field = error.field.rpartition("].")
    if field == "job":
        return NotFound("job", name, remedy=START_WITH_APP)
    if done or place not in {"", "[0"}:
        return error
    return InvalidInput(field, error.message)
