"""How runs are submitted: the options that an app's calls share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.core.fields import read_delay
from mainspring.core.model import Priority
from mainspring.core.priorities import read_priority
from mainspring.core.triggers.moments import read_moment_or_delay
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.sdk.transactions import DatabaseConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """How a run is submitted.

    Attributes:
        run_at: the earliest instant to start; None means at once.
        delay: the same, as a time from the store's now; give only one of the two.
        priority: the run's tier, or the class that names it; None means the job's.
        idempotency_key: the same key with the same arguments returns the same run for 24 h.
        connection: submit within this connection's transaction; None asks the server.
    """

    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: Priority | str | None = None
    idempotency_key: str | None = None
    connection: DatabaseConnection | None = None


def read_submit_options(
    *,
    run_at: datetime | float | str | None = None,
    delay: timedelta | float | str | None = None,
    priority: Priority | str | None = None,
    idempotency_key: str | None = None,
    connection: DatabaseConnection | None = None,
) -> SubmitOptions:
    """Return options as users write them, which `Function.options` explains.

    Raises:
        InvalidInput: an option is wrong.
    """
    if run_at is not None and delay is not None:
        raise InvalidInput("delay", "says the same as 'run_at'; give one of them")
    moment = None if run_at is None else read_moment_or_delay(run_at, "run_at")
    if isinstance(moment, timedelta):  # by the server's clock, not by this one
        moment, delay = None, moment
    return SubmitOptions(
        run_at=None if moment is None else moment.at,
        delay=None if delay is None else read_delay(delay, "delay"),
        priority=None if priority is None else read_priority(priority, "priority"),
        idempotency_key=idempotency_key,
        connection=connection,
    )
