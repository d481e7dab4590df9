"""The log of the server that answers."""

from __future__ import annotations

from datetime import timedelta

import structlog

from mainspring.api.call import Call, Endpoint, handles
from mainspring.core.fields import read_duration, read_one_of
from mainspring.errors import Conflict
from mainspring.ports.logs import LEVELS, LogSwitch
from mainspring.wire import operations
from mainspring.wire.logging import LoggingBody, LoggingView, view_logging

_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=1)
_log = structlog.get_logger(__name__)


@handles(operations.GET_LOGGING)
async def get_logging(call: Call) -> LoggingView:
    return view_logging(_switch(call).read())


@handles(operations.SET_LOGGING)
async def set_logging(call: Call, body: LoggingBody) -> LoggingView:
    level = read_one_of(body.level, "level", list(LEVELS))
    lasts = read_duration(body.duration, "duration", low=_SHORTEST, high=_LONGEST)
    switch = _switch(call)
    _log.warning("log_level_asked_for", to=level, by=call.caller, request_id=call.request_id)
    return view_logging(switch.set(level, lasts=lasts))


def _switch(call: Call) -> LogSwitch:
    if call.services.logs is None:
        raise Conflict("level", "the app that this server runs in has the log; set its level there")
    return call.services.logs


ROUTES: list[Endpoint] = [get_logging, set_logging]
