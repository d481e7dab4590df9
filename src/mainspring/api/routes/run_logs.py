"""What runs write: read, and followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.errors import Rejected
from mainspring.api.reading import path_run_id
from mainspring.api.streaming import Stream
from mainspring.core.fields import read_one_of
from mainspring.core.ids import RunId
from mainspring.engine.usecases.run_logs import LogMark, LogNews
from mainspring.errors import InvalidInput
from mainspring.wire import operations
from mainspring.wire.run_logs import (
    EVENT_STREAM,
    KEEP_ALIVE,
    OFFSET_HEADER,
    LogEvent,
    read_mark,
    write_event,
)


@handles(operations.GET_RUN_LOGS)
async def get_run_logs(call: Call) -> Answer[str] | Stream:
    if call.principal.hides_payloads:
        raise Rejected(403, "what runs write is hidden from this account, as payloads are")
    run_id, query = path_run_id(call.key), call.query
    attempt: int | None = query.get("attempt")
    if read_one_of(query["follow"], "follow", ["true", "false"]) == "true":
        return await _follow(call, run_id, attempt)
    if "last-event-id" in call.fields:
        raise InvalidInput("last-event-id", "is for a run that is followed; ask with follow=true")
    start: int = query["offset"]
    text = await call.engine.run_logs.read(call.tenant, run_id, attempt=attempt, start=start)
    return Answer(text.text, 200, headers={OFFSET_HEADER: str(text.end), "cache-control": "no-store"})


async def _follow(call: Call, run_id: RunId, attempt: int | None) -> Stream:
    if call.query["offset"]:
        raise InvalidInput("offset", "does not go with follow; to go on, send the header Last-Event-ID")
    after: LogMark | None = None
    if (text := call.fields.get("last-event-id")) is not None:
        after = LogMark(*read_mark(text, "last-event-id"))
    await call.engine.run_logs.check(call.tenant, run_id, attempt)
    news = call.engine.run_logs.follow(call.tenant, run_id, attempt=attempt, after=after)
    return Stream(_events(news), EVENT_STREAM, {"cache-control": "no-store", "x-accel-buffering": "no"})


async def _events(news: AsyncGenerator[LogNews, None]) -> AsyncIterator[bytes]:
    async with aclosing(news) as items:
        async for one in items:
            mark = one.mark.token, one.mark.place
            if one.state is not None:
                yield write_event("end", mark, LogEvent(status=one.state.value))
            elif one.text is None:
                yield KEEP_ALIVE
            else:
                yield write_event("log", mark, LogEvent(attempt=one.attempt, text=one.text))


ROUTES: list[Endpoint] = [get_run_logs]
