"""A workflow as it is defined: its steps, and which of them follow which."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.model import DEFAULT_TIMEOUT, Delivery, Priority, Target
from mainspring.core.retry import RetryPolicy
from mainspring.core.values import value
from mainspring.core.workflows.maps import StepMap
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.waits import StepWait


@value(kw_only=True)
class WorkflowStep:
    """One step: a target, another job that it runs, or something that it waits for.

    Attributes:
        target: None if it runs a job, or waits.
        job: the name of the job that it runs, in the version that is the newest when the step starts. Its runs are
            those of that job, which says how they are carried out.
        wait: what it waits for instead of running anything.
        name: unique within the workflow.
        after: the names of its parents, the steps whose ends its rule judges.
        allow_failure: the workflow may succeed although this step has failed.
        at_end: it runs once all others have ended, whatever has happened. Its parents are of this kind, too.
        undoes: the name of the step that it undoes, after that has succeeded and the workflow has not. It waits for
            nothing else. None: it is no undo.
        when: an expression; the step is skipped if it is false once the rule has said that the step runs.
        map: for which items it runs; None: it runs once.
        payload: JSON text in UTF-8 for the target; None means that of the workflow's run, or of the job that it runs.
        given: JSON text of what its payload is made of (`core.workflows.expressions.GivenPayload`); None if none is.
        priority, queue: of its run; None: those of the workflow.
        labels: what a worker must offer to get its run, sorted.
        timeout, soft_timeout: limits of an attempt, as of a job.
    """

    name: str
    target: Target | None = None
    job: str | None = None
    wait: StepWait | None = None
    after: tuple[str, ...] = ()
    rule: StepRule = StepRule.ALL_SUCCESS
    allow_failure: bool = False
    at_end: bool = False
    undoes: str | None = None
    when: str | None = None
    map: StepMap | None = None
    payload: bytes | None = None
    given: bytes | None = None
    priority: Priority | None = None
    queue: str | None = None
    labels: tuple[str, ...] = ()
    retry: RetryPolicy = RetryPolicy()
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    timeout: timedelta = DEFAULT_TIMEOUT
    soft_timeout: timedelta | None = None


@value()
class Workflow:
    """A graph of steps, in the order in which they were written. A step is known by its place in it, too.

    Attributes:
        deadline: how long it may take, from when it began; None: as long as its steps take.
        result: an expression that makes the result of the workflow's run; None: it has none.
    """

    steps: tuple[WorkflowStep, ...]
    deadline: timedelta | None = None
    result: str | None = None
