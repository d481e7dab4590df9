"""The limits of an attempt, `timeout` and `soft_timeout`: which go together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mainspring.core.fields import one_of, show
from mainspring.errors import InvalidInput


def check_timeouts(timeout: timedelta, soft_timeout: timedelta | None, body: Mapping[str, Any]) -> None:
    """Refuse a soft limit that an attempt would never reach.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote.
    """
    if soft_timeout is None or soft_timeout < timeout:
        return
    soft = one_of(body, "soft_timeout", "soft_timeout_seconds")
    hard = one_of(body, "timeout", "timeout_seconds")
    if soft is None and hard is not None:
        raise InvalidInput(hard, f"must be longer than the soft timeout, {show(soft_timeout)}")
    message = f"must be shorter than the timeout, {show(timeout)}, or it would never be reached"
    raise InvalidInput(soft or "soft_timeout", message)
