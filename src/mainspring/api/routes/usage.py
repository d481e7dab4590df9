"""What became of runs."""

from __future__ import annotations

from datetime import datetime

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.reading import query_moment
from mainspring.core.fields import read_choice
from mainspring.core.usage import UsageStep
from mainspring.wire import operations
from mainspring.wire.usage import UsageView, view_usage


@handles(operations.GET_USAGE)
async def get_usage(call: Call) -> UsageView:
    step = call.query.get("step")
    report = await call.engine.usage.read(
        call.tenant,
        since=_moment(call, "since"),
        until=_moment(call, "until"),
        step=None if step is None else read_choice(step, "step", UsageStep),
        queue=call.query.get("queue"),
    )
    return view_usage(report)


def _moment(call: Call, name: str) -> datetime | None:
    text = call.query.get(name)
    return None if text is None else query_moment(text, name, now=call.engine.now())


ROUTES: list[Endpoint] = [get_usage]
