"""The clients of a simulation: their requests, and the answers they got."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from mainspring.api.errors import Rejected
from mainspring.core.access import TokenWish
from mainspring.core.actors import Actor, ActorKind
from mainspring.core.backfill import BackfillChange
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.fields import read_duration, read_payload
from mainspring.core.ids import DEFAULT_TENANT, JobId, RunId
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.limits import CLUSTER
from mainspring.core.model import Priority
from mainspring.core.pauses import PauseScope
from mainspring.core.redrives import RedriveChange
from mainspring.core.redriving import RedriveFrom
from mainspring.core.rights import ALL_TENANTS, AccessRole
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.access import MadeToken
from mainspring.engine.usecases.browsing import RunFilter
from mainspring.engine.usecases.events import EventRequest
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import (
    Conflict,
    InvalidInput,
    MainspringError,
    NotFound,
    StoreUnavailable,
    TooMany,
    Unreachable,
)
from mainspring.ports.store.jobs import NewJob
from mainspring.testing.factories import START
from tools.judge import ChangeRequest, Operation, TokenUse
from tools.simulator.alerted import CHANNEL
from tools.simulator.bounded import BOUNDED
from tools.simulator.flowed import spec_of_flow
from tools.simulator.nodes import ServerNode
from tools.simulator.plan import Action
from tools.simulator.world import SeededIds, Trouble, World

T = TypeVar("T")
_TRIES = 4
_ACCOUNT = "robot"
_BOUNDED_BY = 2.0
"""Seconds from the start. Faults that stop a process for long begin then, so what is set later may not be known."""


class Clients:
    """Carries out the plan's actions, each in a task of its own, and records the answers."""

    def __init__(self, world: World, servers: list[ServerNode]) -> None:
        self._world = world
        self._servers = servers
        self._random = world.random("clients")
        self._trouble = Trouble()
        self._jobs: dict[str, JobId] = {}
        self._runs: list[tuple[JobId, RunId]] = []
        self._plans = {job.name: job for job in world.plan.jobs}
        self._is_bounded = False
        self._requests = 0
        self._tokens: dict[str, MadeToken] = {}
        self._flows: dict[str, NewJob] = {}
        self._flow_runs: list[tuple[str, RunId]] = []

    async def run(self) -> None:
        """Start every action at its instant. Return when all have been answered."""
        loop = self._world.loop
        tasks = []
        for action in self._world.plan.actions:
            await asyncio.sleep(max(action.at - loop.time(), 0))
            tasks.append(asyncio.create_task(self._act(action)))
        await asyncio.gather(*tasks)

    async def pause_all(self) -> None:
        """Pause all jobs, so that none fires any more, and resume all runs of workflows."""
        for name in self._plans:
            await self._act(Action(at=0.0, kind="pause", job=name))
        for name in {job for job, _ in self._flow_runs}:
            await self._act(Action(at=0.0, kind="resume_flows", job=name))

    async def _ask(self, call: Callable[[Engine], Awaitable[T]]) -> T:
        return await self._random.choice(self._servers).ask(self._trouble, call)

    async def _act(self, action: Action) -> None:
        for _ in range(_TRIES):
            try:
                await getattr(self, f"_{action.kind}")(action)
            except (Unreachable, StoreUnavailable) as error:
                self._world.recorder.say(f"client {action.kind} {action.job}: {type(error).__name__}")
                await asyncio.sleep(self._random.uniform(0.1, 2))
            except (NotFound, Conflict, InvalidInput, TooMany) as error:
                self._world.recorder.say(f"client {action.kind} {action.job}: {type(error).__name__}")
                return
            else:
                return

    def _tenant(self, name: str) -> str:
        return self._plans[name].tenant

    async def _find(self, name: str) -> JobId:
        known = self._jobs.get(name)
        if known is None:
            job = await self._ask(lambda engine: engine.client.jobs.find(self._tenant(name), name))
            known = self._jobs[name] = job.id
        return known

    async def _change(self, kind: str, call: Callable[[Engine, Actor], Awaitable[T]]) -> T:
        """Ask for a change of a job, under an id of its own by which the audit has it."""
        self._requests += 1
        request = f"request-{self._requests}"
        by = Actor(name="client", kind=ActorKind.LOCAL, action=kind, request_id=request)
        outcome = "unknown"
        try:
            result = await self._ask(lambda engine: call(engine, by))
            outcome = "ok"
        except (Conflict, InvalidInput, TooMany):
            outcome = "fail"
            raise  # a job that is not found may have been deleted after this change: that stays unknown
        finally:
            made = ChangeRequest(id=request, kind=kind, outcome=outcome)
            self._world.recorder.access.requests.append(made)
        return result

    async def _create(self, action: Action) -> None:
        plan = self._plans[action.job]
        if plan.tenant == BOUNDED and not self._is_bounded:
            return  # what bounds its runs is not known to all servers by now
        body = {"name": plan.name, "function": "work", **plan.body}
        job = await self._change(
            "create", lambda engine, by: engine.client.jobs.create(plan.tenant, body, by=by)
        )
        self._jobs[action.job] = job.id

    async def _edit(self, action: Action) -> None:
        job_id = await self._find(action.job)
        tenant = self._tenant(action.job)
        await self._change(
            "edit", lambda engine, by: engine.client.jobs.edit(tenant, job_id, action.body, by=by)
        )

    async def _pause(self, action: Action) -> None:
        job_id = await self._find(action.job)
        tenant = self._tenant(action.job)
        await self._change("pause", lambda engine, by: engine.client.jobs.pause(tenant, job_id, by=by))

    async def _resume(self, action: Action) -> None:
        job_id = await self._find(action.job)
        tenant = self._tenant(action.job)
        await self._change("resume", lambda engine, by: engine.client.jobs.resume(tenant, job_id, by=by))

    async def _delete(self, action: Action) -> None:
        job_id = await self._find(action.job)
        tenant = self._tenant(action.job)
        await self._change("delete", lambda engine, by: engine.client.jobs.delete(tenant, job_id, by=by))

    async def _create_flow(self, action: Action) -> None:
        """Store a workflow. The job has one id, however often it is asked for."""
        plan = self._plans[action.job]
        new = self._flows.get(action.job)
        if new is None:
            job_id = JobId(SeededIds(self._world, self._random).new_uuid())
            spec = spec_of_flow(plan)
            new = self._flows[action.job] = NewJob(id=job_id, tenant=plan.tenant, spec=spec, next_fire=None)
        await self._ask(lambda engine: engine.store.add_jobs([new], now=engine.clock.now()))
        self._jobs[action.job] = new.id

    async def _submit_flow(self, action: Action) -> None:
        submission = Submission(job_id=await self._find(action.job))
        tenant = self._tenant(action.job)
        submitted = await self._ask(lambda engine: engine.client.runs.submit(tenant, submission))
        self._flow_runs.append((action.job, submitted.run_id))
        self._world.recorder.flow_runs.add(submitted.run_id)

    async def _cancel_flow(self, action: Action) -> None:
        """Cancel one of the last runs of a workflow, or the run of one of its steps."""
        own = [run_id for job, run_id in self._flow_runs if job == action.job][-3:]
        if not own:
            return
        run_id, tenant = self._random.choice(own), self._tenant(action.job)
        if self._random.random() < 0.3:
            steps = await self._ask(lambda engine: engine.store.list_flow_runs(run_id, limit=20))
            run_id = self._random.choice([step.id for step in steps] or [run_id])
        await self._ask(lambda engine: engine.client.runs.cancel(tenant, run_id))

    async def _pause_flow(self, action: Action) -> None:
        """Pause one of the last runs of a workflow."""
        own = [run_id for job, run_id in self._flow_runs if job == action.job][-3:]
        if own:
            run_id, tenant = self._random.choice(own), self._tenant(action.job)
            await self._ask(lambda engine: engine.client.flow_commands.pause(tenant, run_id))

    async def _resume_flows(self, action: Action) -> None:
        """Resume all runs of a workflow that are paused."""
        tenant = self._tenant(action.job)
        for run_id in [run_id for job, run_id in self._flow_runs if job == action.job]:
            with suppress(Conflict):
                await self._ask(partial(_resume, tenant, run_id))

    async def _redrive_flow(self, action: Action) -> None:
        """Run one of the last runs of a workflow again: from where it failed, from some step, or from the start."""
        own = [run_id for job, run_id in self._flow_runs if job == action.job][-5:]
        if not own:
            return
        run_id, tenant = self._random.choice(own), self._tenant(action.job)
        names = [one["name"] for one in self._plans[action.job].body["steps"]]
        drawn: list[RedriveFrom] = [*["failed"] * 4, "start", (self._random.choice(names),)]
        begin = self._random.choice(drawn)
        result = await self._ask(lambda engine: engine.client.redriving.redrive(tenant, run_id, begin=begin))
        assert result.run_id is not None
        again = {"failed": [], "start": names}[begin] if isinstance(begin, str) else begin
        self._world.recorder.flow_redrives[result.run_id] = frozenset(again)
        self._flow_runs.append((action.job, result.run_id))

    async def _skip_step(self, action: Action) -> None:
        """Skip a step of one of the last runs of a workflow."""
        own = [run_id for job, run_id in self._flow_runs if job == action.job][-3:]
        if own:
            run_id, tenant = self._random.choice(own), self._tenant(action.job)
            step = self._random.choice(self._plans[action.job].body["steps"])["name"]
            await self._ask(lambda engine: engine.client.flow_commands.skip(tenant, run_id, [step]))

    async def _signal_flow(self, action: Action) -> None:
        """Give one of the last runs of a workflow one of the signals for which its steps wait."""
        own = [run_id for job, run_id in self._flow_runs if job == action.job][-3:]
        steps = self._plans[action.job].body["steps"]
        names = [step["name"] for step in steps if "signal" in step.get("wait", {})]
        if own:
            run_id, tenant, name = (
                self._random.choice(own),
                self._tenant(action.job),
                self._random.choice(names),
            )
            await self._ask(lambda engine: engine.client.flow_answers.signal(tenant, run_id, name))

    async def _send_event(self, action: Action) -> None:
        """Send one of the events for which steps of a workflow wait."""
        steps = self._plans[action.job].body["steps"]
        topics = [step["name"] for step in steps if "event" in step.get("wait", {})]
        request, tenant = EventRequest(topic=self._random.choice(topics)), self._tenant(action.job)
        await self._ask(lambda engine: engine.client.events.send(tenant, request))

    async def _submit(self, action: Action) -> None:
        job_id, tenant = await self._find(action.job), self._tenant(action.job)
        asked_at = self._world.time()
        delay = action.body.get("delay")
        submission = Submission(
            job_id=job_id,
            run_at=asked_at + timedelta(seconds=delay) if delay is not None else None,
            priority=Priority[action.body["priority"]] if "priority" in action.body else None,
            idempotency_key=action.body.get("key"),
            payload=read_payload(action.body.get("payload")),
        )
        try:
            submitted = await self._ask(lambda engine: engine.client.runs.submit(tenant, submission))
        except MainspringError as error:
            if isinstance(error, TooMany):
                self._world.recorder.note_refusal(error, 1)
            self._note("submit", job_id, asked_at, _outcome(error), key=submission.idempotency_key)
            raise
        self._runs.append((job_id, submitted.run_id))
        self._note(
            "submit",
            job_id,
            asked_at,
            "ok",
            key=submission.idempotency_key,
            run_id=submitted.run_id,
            status=submitted.status.value,
        )

    async def _flood(self, action: Action) -> None:
        """Submit many runs at once. If no answer comes, they are not submitted again: they may be there."""
        job_id, tenant = await self._find(action.job), self._tenant(action.job)
        asked_at = self._world.time()
        customers = action.body.get("customers", 0)
        payloads = [
            b'{"customer":"%d"}' % (place % customers) if customers else None
            for place in range(action.body["count"])
        ]
        runs = [Submission(job_id=job_id, payload=payload) for payload in payloads]
        try:
            results = await self._ask(lambda engine: engine.client.runs.submit_many(tenant, runs))
        except MainspringError as error:
            if isinstance(error, TooMany):
                self._world.recorder.note_refusal(error, len(runs))
            for _ in runs:
                self._note("submit", job_id, asked_at, _outcome(error))
            return
        for result in results:
            self._note("submit", job_id, asked_at, "ok", run_id=result.run_id)

    async def _weigh(self, action: Action) -> None:
        tenant, weight = self._tenant(action.job), action.body["weight"]
        await self._ask(lambda engine: engine.client.tenants.put(tenant, {"weight": weight}))
        self._world.recorder.weights[tenant] = weight

    async def _reserve(self, action: Action) -> None:
        tenant = self._tenant(action.job)
        self._world.recorder.promises[tenant] = action.body["reserved"]
        await self._ask(lambda engine: engine.client.tenants.put(tenant, action.body))
        if self._world.loop.time() < _BOUNDED_BY:
            self._world.recorder.reserves[tenant] = action.body["reserved"]

    async def _calendar(self, action: Action) -> None:
        tenant = self._tenant(action.job)
        await self._ask(lambda engine: engine.client.calendars.put(tenant, "closed", action.body))

    async def _calendar_of_moves(self, action: Action) -> None:
        tenant = self._tenant(action.job)
        await self._ask(lambda engine: engine.client.calendars.put(tenant, "moving", action.body))

    async def _limit(self, action: Action) -> None:
        tenant, name, rule = self._tenant(action.job), action.body["name"], action.body["rule"]
        scope = action.body.get("scope", "tenant")
        owner = CLUSTER if scope == "cluster" else tenant
        # It may be set without an answer; if it is not, no job can use it.
        self._world.recorder.limits[name] = {**rule, "scope": scope}
        await self._ask(lambda engine: engine.client.limits.put(owner, name, rule))

    async def _cap(self, action: Action) -> None:
        key = CapKey(CapScope(action.body["scope"]), action.body["name"])
        await self._ask(lambda engine: engine.client.caps.set(LaneCap(key, action.body["max_running"])))

    async def _channel(self, action: Action) -> None:
        await self._ask(lambda engine: engine.client.channels.put(DEFAULT_TENANT, CHANNEL, action.body))

    async def _token(self, action: Action) -> None:
        """Make an access token, and the account that it is of."""
        grants = {ALL_TENANTS: AccessRole.ADMIN}
        await self._ask(lambda engine: engine.client.access.put_account(_ACCOUNT, grants))
        name = action.body["name"]
        wish = TokenWish(name=name, role=AccessRole.ADMIN, account=_ACCOUNT, tenant=ALL_TENANTS)
        made = await self._ask(lambda engine: engine.client.access.make_token(wish, asker=None))
        self._tokens.setdefault(name, made)

    async def _use(self, action: Action) -> None:
        """Show a server a token, as a request does."""
        made = self._tokens.get(action.body["name"])
        server = self._random.choice(self._servers)
        if made is None:
            return

        async def show(_: Engine) -> None:
            assert server.gatekeeper is not None
            try:
                await server.gatekeeper.look_at(made.text, {"type": "http", "client": None})
            except Rejected:
                is_admitted = False
            else:
                is_admitted = True
            use = TokenUse(
                at=self._world.time(), token=made.token.prefix, server=server.name, is_admitted=is_admitted
            )
            self._world.recorder.access.uses.append(use)

        await server.ask(self._trouble, show)

    async def _revoke(self, action: Action) -> None:
        made = self._tokens.get(action.body["name"])
        if made is not None:
            prefix = made.token.prefix
            await self._ask(lambda engine: engine.client.access.revoke(prefix, asker=None))

    async def _bound(self, action: Action) -> None:
        queue, tenant, recorder = action.body["queue"], action.body["tenant"], self._world.recorder
        await self._ask(lambda engine: engine.client.queues.put(BOUNDED, queue))
        await self._ask(lambda engine: engine.client.tenants.put(BOUNDED, tenant))
        self._is_bounded = self._world.loop.time() < _BOUNDED_BY
        if "expires_after" in queue:
            recorder.expiries[BOUNDED] = read_duration(queue["expires_after"], "expires_after")
        if "submit_rate" in tenant:
            recorder.rates[BOUNDED] = tenant["submit_rate"]

    async def _order(self, action: Action) -> None:
        await self._ask(lambda engine: engine.client.queues.put("crowd", action.body))
        self._world.recorder.order = action.body["order"]

    async def _urge(self, action: Action) -> None:
        queue, after = action.body["queue"], action.body["preempt_after"]
        await self._ask(lambda engine: engine.client.queues.put(queue, {"preempt_after": after}))

    async def _hold(self, action: Action) -> None:
        until = START + timedelta(seconds=action.body["until"])
        body = {"mode": action.body["mode"], "until": until.isoformat()}
        scope, name = PauseScope(action.body["scope"]), action.body["name"]
        await self._ask(lambda engine: engine.client.pauses.pause(scope, name, body, made_by="client"))

    async def _release(self, action: Action) -> None:
        scope, name = PauseScope(action.body["scope"]), action.body["name"]
        await self._ask(lambda engine: engine.client.pauses.resume(scope, name))

    async def _write_still(self, action: Action) -> None:
        await self._ask(lambda engine: engine.client.calendars.put(DEFAULT_TENANT, "still", action.body))

    async def _set_still(self, action: Action) -> None:
        scope, name = PauseScope(action.body["scope"]), action.body["name"]
        body = {"items": [{"calendar": "still", "mode": mode} for mode in action.body["modes"]]}
        await self._ask(
            lambda engine: engine.client.blackouts.put(
                scope, name, body, tenant=DEFAULT_TENANT, made_by="client"
            )
        )

    async def _backfill(self, action: Action) -> None:
        """Make a backfill. One whose answer did not come is asked for again, and then stands in its own way."""
        job_id, tenant = await self._find(action.job), self._tenant(action.job)
        to_at = self._world.time() - timedelta(seconds=action.body["ago"])
        ends = {
            "from": (to_at - timedelta(seconds=action.body["width"])).isoformat(),
            "to": to_at.isoformat(),
        }
        body = {**ends, **action.body["options"]}
        await self._ask(lambda engine: engine.client.backfills.create(tenant, job_id, body))

    async def _change_backfill(self, action: Action) -> None:
        """Change the newest backfill of a job."""
        job_id, tenant = await self._find(action.job), self._tenant(action.job)
        page = await self._ask(
            lambda engine: engine.client.backfills.list_page(tenant, job_id=job_id, limit=1)
        )
        if page:
            key, change = page[0].id, BackfillChange(action.body["change"])
            await self._ask(lambda engine: engine.client.backfills.change(tenant, key, change))

    async def _redrive(self, action: Action) -> None:
        """Have the dead letters of a job run again. If no answer comes it is asked for again: then there are two."""
        wanted, tenant = DeadFilter(job_id=await self._find(action.job)), self._tenant(action.job)
        rate, is_newest = action.body["rate"], action.body["is_newest"]
        await self._ask(
            lambda engine: engine.client.redrives.create(tenant, wanted, rate=rate, is_newest=is_newest)
        )

    async def _change_redrive(self, action: Action) -> None:
        """Change the newest redrive of a tenant."""
        tenant = self._tenant(action.job)
        page = await self._ask(lambda engine: engine.client.redrives.list_page(tenant, limit=1))
        if page:
            key, change = page[0].id, RedriveChange(action.body["change"])
            await self._ask(lambda engine: engine.client.redrives.change(tenant, key, change))

    async def _redrive_one(self, action: Action) -> None:
        """Let several clients settle one of a job's last dead letters at the same time, each in its own way."""
        wanted, tenant = DeadFilter(job_id=await self._find(action.job)), self._tenant(action.job)
        page = await self._ask(lambda engine: engine.client.dead_letters.list_page(tenant, wanted, limit=5))
        if not page:
            return
        run_id = self._random.choice(page).run.id
        named = DeadFilter(run_ids=(run_id,))
        ways: tuple[Callable[[Engine], Awaitable[object]], ...] = (
            lambda engine: engine.client.redriving.redrive(tenant, run_id),
            lambda engine: engine.client.redriving.redrive(tenant, run_id, is_newest=False),
            lambda engine: engine.client.dead_letters.discard(tenant, named, reason="simulated"),
        )
        chosen = [self._random.choice(ways) for _ in range(3)]
        answers = await asyncio.gather(*map(self._ask, chosen), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, MainspringError):
                raise answer

    async def _discard(self, action: Action) -> None:
        """Discard the dead letters of a job."""
        wanted, tenant = DeadFilter(job_id=await self._find(action.job)), self._tenant(action.job)
        await self._ask(lambda engine: engine.client.dead_letters.discard(tenant, wanted, reason="simulated"))

    async def _cancel(self, action: Action) -> None:
        job_id, tenant = await self._find(action.job), self._tenant(action.job)
        page = await self._ask(
            lambda engine: engine.client.runs.list_page(tenant, RunFilter(job_id=job_id), limit=5)
        )
        if not page.runs:
            return
        run_id = self._random.choice(page.runs).id
        asked_at = self._world.time()
        try:
            answer = await self._ask(lambda engine: engine.client.runs.cancel(tenant, run_id))
        except MainspringError as error:
            self._note("cancel", job_id, asked_at, _outcome(error), run_id=run_id)
            raise
        self._note("cancel", job_id, asked_at, "ok", run_id=run_id, answer=str(answer))

    def _note(
        self,
        kind: str,
        job_id: JobId,
        asked_at: datetime,
        outcome: str,
        *,
        key: str | None = None,
        run_id: RunId | None = None,
        answer: str | None = None,
        status: str = "submitted",
    ) -> None:
        operation = Operation(
            kind=kind,
            job_id=job_id,
            asked_at=asked_at,
            answered_at=self._world.time(),
            outcome=outcome,
            key=key,
            run_id=run_id,
            answer=answer,
            status=status,
        )
        self._world.recorder.operations.append(operation)
        self._world.recorder.say(f"client {kind} run {run_id}: {outcome} {answer or ''}")


def _outcome(error: MainspringError) -> str:
    if isinstance(error, TooMany):
        return "refused"
    return "unknown" if isinstance(error, (Unreachable, StoreUnavailable)) else "fail"


async def _resume(tenant: str, run_id: RunId, engine: Engine) -> None:
    await engine.client.flow_commands.resume(tenant, run_id)
