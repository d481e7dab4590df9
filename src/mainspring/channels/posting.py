"""Posts a message to a receiver that speaks HTTP, and judges its answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import parse_qsl, unquote, urlsplit

from mainspring.channels.reach import ChannelReach
from mainspring.egress.client import NoAnswer, read_retry_after, read_start
from mainspring.egress.policy import Blocked, parse_url
from mainspring.egress.secrets import Revealer
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable, MessageRefused

MOST_ANSWER = 1000
"""Bytes that are read of an answer."""
_SHOWN = 200
_NEVER = frozenset({400, 410, 411, 413, 414, 415, 422, 431})
"""Statuses that the same message would get again. Others, such as 401 and 404, end when the receiver is mended."""
_ASKS_TO_WAIT = frozenset({429, 503})


class Poster:
    """Posts JSON within a time limit. It follows no redirects.

    Args:
        limit: for connecting, posting and reading the answer together.
    """

    def __init__(self, reach: ChannelReach, limit: timedelta) -> None:
        self._reach = reach
        self._limit = limit

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], revealer: Revealer) -> None:
        """Post a body; return if the receiver has taken it.

        Args:
            url: with its secret in its place.
            revealer: what it has read stands in no error. Its tenant decides where the call may lead.

        Raises:
            MessageRefused: the guard forbids the address, or the receiver will never take the message.
            ChannelUnavailable: the receiver did not take it now.
        """
        await self._call("POST", url, body, {**headers, "Content-Type": "application/json"}, revealer)

    async def get(self, url: str, revealer: Revealer) -> None:
        """Get a URL; return if the receiver is content. Arguments and errors are those of `post`."""
        await self._call("GET", url, None, {}, revealer)

    async def _call(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], revealer: Revealer
    ) -> None:
        try:
            endpoint = parse_url(url, "url")
            async with self._reach.client_of(revealer.tenant).request(
                method, url, endpoint, body=body, headers=headers, limit=self._limit
            ) as response:
                status = response.status
                if 200 <= status < 300:
                    return
                data, is_cut = await read_start(response, MOST_ANSWER)
                error = _explain(status, revealer.hide(data.decode("utf-8", "replace"), is_cut_after=is_cut))
                if status in _NEVER:
                    raise MessageRefused(error)
                wait = read_retry_after(response.headers) if status in _ASKS_TO_WAIT else None
                raise ChannelUnavailable(error, retry_after=wait)
        except InvalidInput as error:
            raise MessageRefused(f"url: {error.message}") from None
        except Blocked as error:
            message = f"the address is blocked: {error} (the operator's setting channels.allow)"
            raise MessageRefused(revealer.hide(message)) from None
        except TimeoutError:
            raise ChannelUnavailable(f"no answer within {self._limit.total_seconds():g} s") from None
        except NoAnswer as error:
            raise ChannelUnavailable(revealer.hide(str(error))) from None


def parts_of(url: str) -> set[str]:
    """Return what a channel's address holds beside its host, whole and in pieces: lists do not show it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return {url}
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    pieces = {parts.path, parts.path.strip("/"), parts.query, *parts.path.split("/"), *parts.query.split("&")}
    pieces |= {unquote(piece) for piece in pieces} | {word for pair in pairs for word in pair}
    return pieces | {f"{parts.path}?{parts.query}"}


def _explain(status: int, answer: str) -> str:
    if 300 <= status < 400:
        return f"response status {status}; redirects are not followed"
    text = " ".join(answer.split())
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)[:_SHOWN]
    return f"response status {status}: {shown}" if shown else f"response status {status}"
