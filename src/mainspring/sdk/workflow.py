"""`App.workflow`: a job that runs steps, written in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from mainspring.core.definition.workflows import read_workflow
from mainspring.core.model import Delivery, Priority
from mainspring.core.workflows.expressions import MARK, STEPS, is_expression
from mainspring.errors import InvalidFields, InvalidInput
from mainspring.sdk.definitions import Causes, WorkflowOptions, check_body, plain_options
from mainspring.sdk.function import NO_PAYLOAD, Function
from mainspring.sdk.once import Duration
from mainspring.sdk.places import refuse_callable
from mainspring.sdk.references import ValueReference, plain_payload
from mainspring.sdk.submit_options import SubmitOptions

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.canvas_added import AddedSteps
    from mainspring.sdk.runs import RunHandle
    from mainspring.sdk.signatures import Canvas, Signature

RuleName: TypeAlias = Literal[
    "all_success",
    "all_done",
    "none_failed",
    "none_failed_min_one_success",
    "one_success",
    "one_failed",
    "all_failed",
    "none_skipped",
]
"""What a step asks of the steps that it waits for."""
_ANY_STEP = {"name": "any", "function": "any"}


class StepOptions(TypedDict, total=False):
    """The other arguments of `AppWorkflow.step`, written out for editors and type checkers.

    A test compares them with the options of a step and the short forms of Mainspring's own targets.
    """

    callback_url: str
    command: str | Sequence[str]
    shell: bool
    target: Mapping[str, Any]
    payload: Any
    priority: Priority | str | None
    queue: str | None
    isolation: str | None
    labels: Sequence[str] | set[str] | frozenset[str]
    retry: Mapping[str, Any]
    retries: int
    retry_on: Causes
    no_retry_on: Causes
    delivery: Delivery | str
    timeout: Duration
    soft_timeout: Duration | None


class AppStep:
    """A step of a workflow, for others to wait for, and to get what it has returned.

    Attributes:
        name: unique in its workflow.
        body: its fields, as `workflow.steps` has them.
    """

    def __init__(self, name: str, body: Mapping[str, Any]) -> None:
        self.name = name
        self.body: dict[str, Any] = dict(body)

    @property
    def result(self) -> ValueReference:
        """What its run will have returned; null if it has not succeeded."""
        return ValueReference(f"{STEPS}.{self.name}.result")

    @property
    def error(self) -> ValueReference:
        """Why it will have failed, as text; null if it has not."""
        return ValueReference(f"{STEPS}.{self.name}.error")

    @property
    def status(self) -> ValueReference:
        """How it will have ended: `succeeded`, `failed`, `cancelled`, `skipped` or `upstream_failed`."""
        return ValueReference(f"{STEPS}.{self.name}.status")

    def __repr__(self) -> str:
        return f"<step {self.name!r}>"


class AppMap(AppStep):
    """A step that runs once for each item of a list. Others may ask how many items have ended how."""

    @property
    def succeeded(self) -> ValueReference:
        """How many of its items have succeeded."""
        return ValueReference(f"{STEPS}.{self.name}.succeeded")

    @property
    def failed(self) -> ValueReference:
        """How many of its items have failed."""
        return ValueReference(f"{STEPS}.{self.name}.failed")


class AppWorkflow:
    """A job that runs steps. `App.workflow` makes it.

    Attributes:
        name: the job's name.
        steps: those that it has so far.
    """

    def __init__(
        self, app: App, name: str, options: Mapping[str, Any], *, deadline: Duration | None = None
    ) -> None:
        self.name = name
        self.steps: list[AppStep] = []
        self._app = app
        self._options = {"name": name, **plain_options(options)}
        self._whole = {} if deadline is None else plain_options({"deadline": deadline})

    @property
    def input(self) -> ValueReference:
        """The payload of the run."""
        return ValueReference("input")

    @property
    def item(self) -> ValueReference:
        """In the payload of a map: the item for which it runs."""
        return ValueReference("item")

    @property
    def index(self) -> ValueReference:
        """In the payload of a map: the place of the item, from 0 on."""
        return ValueReference("index")

    def returns(self, result: ValueReference | str) -> None:
        """Say what the workflow's run returns.

        Args:
            result: what a step has left, or an expression.
        """
        self._whole["result"] = str(result)

    def __repr__(self) -> str:
        return f"<workflow {self.name!r}: {len(self.steps)} steps>"

    def step(
        self,
        name: str,
        call: Function[..., Any, Any] | Callable[..., Any] | str | None = None,
        *,
        job: str | None = None,
        after: AppStep | str | Sequence[AppStep | str] = (),
        rule: RuleName = "all_success",
        allow_failure: bool = False,
        at_end: bool = False,
        undoes: AppStep | str | None = None,
        when: ValueReference | str | None = None,
        **options: Unpack[StepOptions],
    ) -> AppStep:
        """Add a step.

        Args:
            name: unique in the workflow: a letter a-z, and then a-z, 0-9 and _.
            call: a job's function, another function, or the name of one that some worker has. Leave it out for `job`,
                `callback_url`, `command` or `target`.
            job: the name of another job, to run that as the step.
            after: the steps that it waits for, or their names.
            rule: what it asks of them.
            allow_failure: the workflow may succeed although this step has failed.
            at_end: run it once all other steps have ended, whatever has happened.
            undoes: the step that it undoes, if that has succeeded and the workflow does not. It waits for nothing else.
            when: an expression; the step is skipped if it is false by the time that the rule lets the step run.
            options: fields of a step (`retries`, `timeout`, `queue`, `payload`, …). The payload may be what another
                step has left, such as `extract.result`, and so may each of its fields: then the step waits for that.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        own = _own_fields(job, at_end, when)
        own |= {} if undoes is None else {"undoes": undoes.name if isinstance(undoes, AppStep) else undoes}
        step = AppStep(name, self._make(name, call, own, after, rule, allow_failure, options))
        self.steps.append(step)
        return step

    def map(
        self,
        name: str,
        call: Function[..., Any, Any] | Callable[..., Any] | str | None = None,
        *,
        over: Sequence[Any] | ValueReference,
        max_parallel: int | None = None,
        tolerate: float = 0,
        job: str | None = None,
        after: AppStep | str | Sequence[AppStep | str] = (),
        rule: RuleName = "all_success",
        allow_failure: bool = False,
        at_end: bool = False,
        when: ValueReference | str | None = None,
        **options: Unpack[StepOptions],
    ) -> AppMap:
        """Add a step that runs once for each item of a list, each in a run of its own.

        A run gets its item as its payload. If that is an object, its fields go over those of `payload`. A payload
        that names `AppWorkflow.item` or `index` is all that the run gets.

        Args:
            over: the items: any JSON values; or what makes a list of them, such as `extract.result.files`, or an
                expression as text. The step waits for the steps that it names.
            max_parallel: how many of its runs wait or run at once, at most; None is no limit.
            tolerate: how many items may fail without making the step fail: a number, or from 0.0 to 1.0 a part of all.
            name, call, job, after, rule, allow_failure, at_end, when, options: as of `step`.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        items = str(over) if isinstance(over, str | ValueReference) else list(over)
        own: dict[str, Any] = {"map": {"over": items}}
        own["map"] |= {} if max_parallel is None else {"max_parallel": max_parallel}
        own["map"] |= {} if tolerate == 0 else {"tolerate": tolerate}
        own |= _own_fields(job, at_end, when)
        step = AppMap(name, self._make(name, call, own, after, rule, allow_failure, options))
        self.steps.append(step)
        return step

    def wait(
        self,
        name: str,
        *,
        sleep: Duration | None = None,
        until: datetime | ValueReference | str | None = None,
        signal: str | None = None,
        approval: bool | Sequence[str] = False,
        event: str | None = None,
        key: ValueReference | str | None = None,
        timeout: Duration | None = None,
        on_timeout: Literal["fail", "skip"] = "fail",
        after: AppStep | str | Sequence[AppStep | str] = (),
        rule: RuleName = "all_success",
        allow_failure: bool = False,
        when: ValueReference | str | None = None,
    ) -> AppStep:
        """Add a step that runs nothing, but waits for one thing. It holds no worker meanwhile.

        Args:
            sleep: so long, from when the step starts.
            until: an instant, as ISO 8601 text or a datetime; or what another step has left, which makes such text.
            signal: a signal of this name, which someone sends to the run.
            approval: that someone approves; or the accounts of which one has to.
            event: an event of this topic.
            key: the key of the event; or what another step has left, which makes it.
            timeout: how long it waits for a signal, an approval or an event; None: as long as the workflow.
            on_timeout: what becomes of the step when nothing came in time.
            name, after, rule, allow_failure, when: as of `step`.

        Raises:
            InvalidInput: a field is wrong, or the name is taken.
        """
        wait: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
        wait |= {} if until is None else {"until": _plain_made(until)}
        wait |= {} if signal is None else {"signal": signal}
        wait |= {} if approval is False else {"approval": {"by": [] if approval is True else [*approval]}}
        if event is not None:
            wait["event"] = {"topic": event} | ({} if key is None else {"key": _plain_made(key)})
        elif key is not None:
            raise InvalidInput("key", "goes with event, which is not given")
        wait |= {} if timeout is None else {"timeout": timeout}
        wait |= {} if on_timeout == "fail" else {"on_timeout": on_timeout}
        own = {"wait": plain_options(wait), **_own_fields(None, False, when)}
        step = AppStep(name, self._make(name, None, own, after, rule, allow_failure, {}))
        self.steps.append(step)
        return step

    def add(
        self, canvas: Signature | Canvas, *, after: AppStep | str | Sequence[AppStep | str] = ()
    ) -> AddedSteps:
        """Add the steps of a `chain`, `group` or `chord`. They are named after their jobs.

        An argument of a signature may be what another step has left, or the workflow's `input`, or a field of these.

        Args:
            after: the steps that its first calls wait for, or their names.

        Raises:
            InvalidInput: its parts do not go together, or a field of a step is wrong.
        """
        from mainspring.sdk.canvas_added import add_canvas  # costs a start, and few use it

        names = [one.name if isinstance(one, AppStep) else one for one in _listed(after)]
        try:
            return add_canvas(self.steps, canvas, names, check=self._check)
        except InvalidInput as error:
            raise _add_place(error, self.name, None, sys._getframe(1)).with_traceback(None) from None

    def _make(
        self,
        name: str,
        call: object,
        own: Mapping[str, Any],
        after: AppStep | str | Sequence[AppStep | str],
        rule: RuleName,
        allow_failure: bool,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the body of a step, checked as far as it can be alone. Its function gets known to the app."""
        try:
            body = {**self._body_of(name, call, options), **own}
            body |= {"after": [one.name if isinstance(one, AppStep) else one for one in _listed(after)]}
            body |= {"rule": rule} if rule != "all_success" else {}
            body |= {"allow_failure": allow_failure} if allow_failure is not False else {}
            self._check(body)
            if callable(call) and not isinstance(call, Function):
                self._app.registry.add(body["function"], call)
        except InvalidInput as error:
            raise _add_place(error, self.name, name, sys._getframe(2)).with_traceback(None) from None
        return body

    def _body_of(self, name: str, call: object, options: Mapping[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"name": name}
        if isinstance(call, Function):
            body["function"] = call.name
        elif isinstance(call, str):
            body["function"] = call
        elif call is not None:
            refuse_callable(call, is_named=True)
            body["function"] = f"{self.name}.{name}"
        given = {**options}
        made = plain_payload(given.pop("payload")) if "payload" in given else {}
        return body | plain_options(given) | made

    def _check(self, body: Mapping[str, Any]) -> None:
        """Check a step by itself, where the user wrote it. What its parents are is checked with the whole."""
        if any(step.name == body["name"] for step in self.steps):
            raise InvalidInput("name", f"{self.name!r} has a step {body['name']!r} already")
        of_others = {"after", "when", "with", "undoes"}  # they name other steps
        alone = {field: value for field, value in body.items() if field not in of_others}
        made = _alone(body.get("wait", {}))
        if made:
            alone["wait"] = made
        is_over_made = "map" in body and isinstance(body["map"]["over"], str)
        if is_over_made:
            alone["map"] = {**body["map"], "over": []}
        if body["after"] or "with" in body or is_over_made or made:
            alone.pop("rule", None)
        try:
            read_workflow({"steps": [alone]}, "")
        except InvalidFields as error:
            raise error.renamed(lambda field: field.removeprefix(".steps[0].")) from None

    @property
    def definition(self) -> dict[str, Any]:
        """The body of the job, as `PUT /api/v1/jobs` takes it.

        Raises:
            InvalidFields: the steps do not go together. It has all errors.
        """
        return self.define([step.body for step in self.steps])

    def define(self, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the body of the job if it has these steps.

        Raises:
            InvalidFields: they do not go together, or an option of the whole is wrong.
        """
        body = {**self._options, "workflow": {**self._whole, "steps": list(steps)}}
        check_body(body)
        return body

    async def enqueue(
        self, payload: object = NO_PAYLOAD, *, options: SubmitOptions | None = None
    ) -> RunHandle[Any]:
        """Submit a run; return when it is durably stored.

        Args:
            payload: for the steps that have none of their own.

        Raises:
            NotFound: the server has no job of this name; did you start it with this app?
            Unreachable: the server did not answer.
        """
        (handle,) = await self._app.submit(self.name, [payload], options)
        return handle

    def enqueue_sync(
        self, payload: object = NO_PAYLOAD, *, options: SubmitOptions | None = None
    ) -> RunHandle[Any]:
        """Like `enqueue`, for code without an event loop."""
        (handle,) = self._app.submit_sync(self.name, [payload], options)
        return handle


def make_workflow(app: App, name: str, options: WorkflowOptions, *, deadline: Duration | None) -> AppWorkflow:
    """Make a workflow without steps.

    Args:
        deadline: how long a run of it may take as a whole.

    Raises:
        InvalidInput: an option is wrong. The error has a note that says where it is written.
    """
    frame = sys._getframe(2)
    try:
        workflow = AppWorkflow(app, name, options, deadline=deadline)
        workflow.define([_ANY_STEP])
    except InvalidInput as error:
        raise _add_place(error, name, None, frame).with_traceback(None) from None
    return workflow


def _add_place(error: InvalidInput, workflow: object, step: object, frame: FrameType) -> InvalidInput:
    call = f"app.workflow({workflow!r}, …)" if step is None else f"the step {step!r} of {workflow!r}"
    error.add_note(f"in {call}: {frame.f_code.co_filename}, line {frame.f_lineno}")
    return error


def _plain_made(given: datetime | ValueReference | str) -> Any:
    if isinstance(given, ValueReference):
        return {MARK: str(given)}
    return given.isoformat() if isinstance(given, datetime) else given


def _alone(wait: Mapping[str, Any]) -> dict[str, Any]:
    """Return a wait that names no other steps, if it does; nothing if not."""
    if is_expression(wait.get("until")):
        return {**wait, "until": {MARK: "input"}}
    if is_expression(wait.get("event", {}).get("key")):
        return {**wait, "event": {**wait["event"], "key": {MARK: "input"}}}
    return {}


def _listed(after: AppStep | str | Sequence[AppStep | str]) -> list[AppStep | str]:
    return [after] if isinstance(after, AppStep | str) else list(after)


def _own_fields(job: str | None, at_end: bool, when: ValueReference | str | None) -> dict[str, Any]:
    """Return the fields of a step that are not as usual."""
    own: dict[str, Any] = {} if job is None else {"job": job}
    own |= {"at_end": at_end} if at_end is not False else {}
    return own | ({} if when is None else {"when": str(when)})
