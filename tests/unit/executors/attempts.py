"""Attempts for tests of executors."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.core.ids import JobId, RunId
from mainspring.ports.executor import AttemptContext


def make_attempt(
    params: dict[str, Any],
    *,
    payload: bytes | None = None,
    timeout: float = 20,
    soft_timeout: float | None = None,
    run_id: int = 256,
) -> AttemptContext:
    return AttemptContext(
        run_id=RunId(run_id),
        job_id=JobId(UUID(int=7)),
        job_name="test",
        tenant="default",
        attempt=2,
        token=41,
        fire_at=datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        due_at=datetime(2026, 3, 29, 1, 30, 5, tzinfo=UTC),
        target_key="key-1",
        payload=payload,
        params=params,
        timeout=timedelta(seconds=timeout),
        soft_timeout=timedelta(seconds=soft_timeout) if soft_timeout is not None else None,
    )
