"""What workers send, before it is used: registrations are checked, and reports hold what every store accepts."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core.outcomes import Failure
from mainspring.core.targets import WORKFLOW
from mainspring.core.text import storable
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Registration, Report, Stopped


def check_registration(registration: Registration) -> None:
    """Refuse names that nobody could read, and an offer to carry out workflows, which only the engine does.

    Raises:
        InvalidInput: the field is one of the registration.
    """
    for field in ("name", "host"):
        if not getattr(registration, field).isprintable():
            raise InvalidInput(field, "holds characters that cannot be printed")
    for field in ("queues", "types", "functions", "labels"):
        for index, name in enumerate(getattr(registration, field)):
            if not name.isprintable():
                raise InvalidInput(f"{field}[{index}]", "holds characters that cannot be printed")
    for index, name in enumerate(registration.types):
        if name == WORKFLOW:
            raise InvalidInput(f"types[{index}]", "workflows are carried out by the servers, not by workers")


def keep_storable(report: Report) -> Report:
    """Return the report with text that every store accepts. The run has ended, whatever the text contains."""
    ending = report.ending
    if isinstance(ending, Success):
        output = storable(ending.output)
        return report if output is ending.output else replace(report, ending=replace(ending, output=output))
    if isinstance(ending, Failure):
        ending = replace(ending, error=storable(ending.error), output=storable(ending.output))
    elif isinstance(ending, Stopped):
        texts = {"error": storable(ending.error), "output": storable(ending.output)}
        ending = replace(ending, **texts)
    return replace(report, ending=ending)
