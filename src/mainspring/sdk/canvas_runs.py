"""Submits signatures that were put together: each shape is a workflow, and the arguments are the run's payload."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mainspring.core.values import value
from mainspring.errors import InvalidInput, NotFound
from mainspring.sdk.canvas_steps import CanvasSteps, check_length
from mainspring.sdk.function import NO_PAYLOAD
from mainspring.sdk.references import ValueReference
from mainspring.sdk.signatures import Canvas, Signature
from mainspring.sdk.workflow import AppStep, AppWorkflow

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.runs import RunHandle
    from mainspring.sdk.submit_options import SubmitOptions

_MOST_NAMED = 60
"""Characters of the functions' names in the name of a workflow."""


@value()
class CanvasJob:
    """A canvas as a workflow.

    Attributes:
        workflow: the same for each canvas of this shape. It is checked when its definition is asked for.
        payload: the arguments, as the payload of a run.
    """

    app: App
    workflow: AppWorkflow
    payload: object

    @property
    def name(self) -> str:
        """The job's name."""
        return self.workflow.name

    @property
    def body(self) -> Mapping[str, Any]:
        """The job's body, as `PUT /api/v1/jobs` takes it.

        Raises:
            InvalidInput: an option of a call is wrong.
        """
        return self.workflow.definition


def define(canvas: Canvas, args: tuple[Any, ...] = ()) -> CanvasJob:
    """Return a canvas as a workflow.

    Args:
        args: what its first calls get in front of their own arguments.

    Raises:
        InvalidInput: its parts do not go together.
    """
    calls = list(_calls_of(canvas))
    app = _app_of(calls)
    made = CanvasSteps((), keeps_inputs=True)
    left = made.add(canvas, first=args)
    shape = json.dumps([made.bodies, left.expression], sort_keys=True)
    names = ",".join(dict.fromkeys(call.function.name for call in calls))
    kind = "chain" if canvas.is_chain else "group"
    workflow = AppWorkflow(
        app, f"{kind}:{names[:_MOST_NAMED]}:{hashlib.sha256(shape.encode()).hexdigest()[:12]}", {}
    )
    workflow.steps += [AppStep(body["name"], body) for body in made.bodies]
    workflow.returns(check_length(left, kind))
    return CanvasJob(app, workflow, made.inputs or NO_PAYLOAD)


async def submit(canvas: Canvas, args: tuple[Any, ...], options: SubmitOptions) -> RunHandle[Any]:
    """Submit a run of a canvas. The job of its shape is made if there is none."""
    job = define(canvas, args)
    with suppress(NotFound):  # which is so the first time only
        (handle,) = await job.app.submit(job.name, [job.payload], options)
        return handle
    body = job.body
    await job.app.perform(lambda client: client.put_job(body))
    (handle,) = await job.app.submit(job.name, [job.payload], options)
    return handle


def submit_sync(canvas: Canvas, args: tuple[Any, ...], options: SubmitOptions) -> RunHandle[Any]:
    """Like `submit`, for code without an event loop."""
    job = define(canvas, args)
    with suppress(NotFound):
        (handle,) = job.app.submit_sync(job.name, [job.payload], options)
        return handle
    body = job.body
    job.app.perform_sync(lambda client: client.put_job(body))
    (handle,) = job.app.submit_sync(job.name, [job.payload], options)
    return handle


def _calls_of(part: Signature | Canvas) -> list[Signature]:
    """Return the calls of a part, those that handle errors included."""
    own = [part] if isinstance(part, Signature) else [call for each in part.parts for call in _calls_of(each)]
    return [*own, *(call for handler in part.handlers for call in _calls_of(handler))]


def _app_of(calls: list[Signature]) -> App:
    """Return the app of the calls.

    Raises:
        InvalidInput: their jobs belong to several tenants, or an argument is not known yet.
    """
    first = calls[0].function
    for call in calls:
        if call.function.app.tenant != first.app.tenant:
            message = f"is a job of tenant {call.function.app.tenant!r}, and {first.name!r} one of {first.app.tenant!r}"
            raise InvalidInput(call.function.name, message)
        if any(isinstance(one, ValueReference) for one in (*call.args, *call.kwargs.values())):
            message = "gets what a workflow is given; add it to that: app.workflow(…).add(…)"
            raise InvalidInput(call.function.name, message)
    return first.app
