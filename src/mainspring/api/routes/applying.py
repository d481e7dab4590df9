"""Jobs that are kept in files: what would change, and the change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import check_bulk
from mainspring.engine.usecases.applying import AppliedJob
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.applying import AppliedView
from mainspring.wire.versions import view_changes


@handles(operations.APPLY_JOBS)
async def apply_jobs(call: Call, bodies: Any) -> list[AppliedView]:
    return _view(await call.engine.applying.apply(call.tenant, _checked(bodies)))


@handles(operations.DIFF_JOBS)
async def diff_jobs(call: Call, bodies: Any) -> list[AppliedView]:
    return _view(await call.engine.applying.diff(call.tenant, _checked(bodies)))


def _checked(bodies: Any) -> list[dict[str, Any]]:
    check_bulk(bodies, "jobs")
    for index, body in enumerate(bodies):
        if not isinstance(body, dict):
            raise InvalidInput(f"[{index}]", "must be an object")
    checked: list[dict[str, Any]] = bodies
    return checked


def _view(applied: Sequence[AppliedJob]) -> list[AppliedView]:
    return [
        AppliedView(
            name=one.spec.name,
            outcome=one.outcome.value,
            owner=None if one.before is None else one.before.owner,
            changes=view_changes(None if one.before is None else one.before.spec, one.spec),
        )
        for one in applied
    ]


ROUTES: list[Endpoint] = [apply_jobs, diff_jobs]
