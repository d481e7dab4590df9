"""What does not go together in a step that runs a job, or waits, instead of having a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.definition.steps import OF_JOB, OF_RUNS, STEP_OPTIONS
from mainspring.core.targets import TARGETS
from mainspring.errors import InvalidInput


def check_job_step(body: Mapping[str, Any]) -> None:
    """Refuse what a step that runs a job has not, since that job has it."""
    given = [field for field in ("target", *TARGETS.by_field) if field in body]
    if given:
        raise InvalidInput(given[0], "does not go with 'job': a step runs a target or a job; remove one")
    for name in OF_JOB:
        option = STEP_OPTIONS.get(name)
        field = next((form for form in option.forms if form in body), None)
        if field is not None and body[field] is not None:
            raise InvalidInput(
                field, "does not go with 'job': the job that the step runs says it; set it there"
            )


def check_wait_step(body: Mapping[str, Any]) -> None:
    """Refuse what a step that waits has not, since it has no runs."""
    given = [field for field in ("job", "target", *TARGETS.by_field) if body.get(field) is not None]
    if given:
        raise InvalidInput(given[0], "does not go with 'wait': a step runs something or waits; remove one")
    if body.get("at_end") is True:
        raise InvalidInput("at_end", "does not go with 'wait': nothing could end it any more but an answer")
    if body.get("undoes") is not None:
        raise InvalidInput("undoes", "does not go with 'wait': to undo something, a step runs something")
    for name in OF_RUNS:
        option = STEP_OPTIONS.get(name)
        field = next((form for form in option.forms if body.get(form) is not None), None)
        if field is not None:
            more = "; give wait.timeout" if name == "timeout" else ""
            raise InvalidInput(field, f"does not go with 'wait': a step that waits has no run{more}")
