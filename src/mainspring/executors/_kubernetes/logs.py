"""Follows what a pod prints: into the live log of its run, and into what is kept with its end."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator

from mainspring.core.secrets import PieceMask
from mainspring.egress.secrets import Revealer
from mainspring.executors._kubernetes.cluster import ApiServerUnreachable, CallRefused, ClusterCalls
from mainspring.executors._kubernetes.lines import Instant, LogLines, Piece, show_second
from mainspring.executors._kubernetes.manifests import CONTAINER
from mainspring.executors.output import Kept
from mainspring.ports.executor import AttemptContext

_PAUSE = 1.0
"""Seconds before a log is asked for again."""
_MOST_TRIES = 30
"""Refusals in a row after which there is no more."""


class PodLog:
    """The output of one pod, each line once.

    A connection may end although the pod has not, and nothing says which of both it is: when the API server is
    replaced, or when the node begins a new file. So the log is asked for until the pod is known to have ended before
    the last question. Each begins with the second of the last line, and lines that are known by then are left out.
    """

    def __init__(self, cluster: ClusterCalls, context: AttemptContext, revealer: Revealer) -> None:
        self._cluster = cluster
        self._context = context
        self._revealer = revealer
        self._kept: Kept | None = None
        self._has_ended = asyncio.Event()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last: Instant | None = None  # of the last whole line
        self._count = 0  # how many lines have that time
        self._begun = 0  # bytes of the line behind them that were passed on already
        self._pieces = PieceMask()

    def read(self) -> str | None:
        """Return what was kept, once nothing follows any more; None if it printed nothing."""
        self._show(self._revealer.hide_rest(self._pieces))
        return self._kept.read() or None if self._kept is not None else None

    def end(self) -> None:
        """Note that the pod has ended."""
        self._has_ended.set()

    async def follow(self, namespace: str, pod: str) -> None:
        """Pass on what it prints until it has ended. Whatever fails is told in the output."""
        tries, refusal = 0, ""
        while tries < _MOST_TRIES:
            is_last = self._has_ended.is_set()
            try:
                async with self._cluster.follow(namespace, pod, self._query()) as pieces:
                    await self._take(pieces)
            except (CallRefused, ApiServerUnreachable) as error:
                if isinstance(error, CallRefused) and error.status == 404:
                    break
                tries, refusal = tries + 1, str(error)
            else:
                tries = 0
                if is_last:
                    break
            await self._pause()
        self._write(self._decoder.decode(b"", final=True))
        self._show(self._revealer.hide_rest(self._pieces))
        if tries == _MOST_TRIES:
            self._write(f"[… the pod's log could not be read on: {refusal}]\n")

    async def _pause(self) -> None:
        if self._has_ended.is_set():
            await asyncio.sleep(0)  # noqa: TID251 -- it waits for no time, and lets others have their turn
            return
        try:
            async with asyncio.timeout(_PAUSE):
                await self._has_ended.wait()
        except TimeoutError:
            return

    def _query(self) -> list[tuple[str, str]]:
        query = [("container", CONTAINER), ("follow", "true"), ("timestamps", "true")]
        if self._last is not None:
            query.append(("sinceTime", show_second(self._last)))
        return query

    async def _take(self, pieces: AsyncIterator[bytes]) -> None:
        lines = LogLines()
        async for data in pieces:
            for piece in lines.take(data):
                self._pass_on(piece)
        for piece in lines.end():
            self._pass_on(piece)

    def _pass_on(self, piece: Piece) -> None:
        """Pass on what is not known of a piece of a line."""
        time = piece.time
        if time is None:  # a word of the node, which is no line of the pod's
            self._write(piece.data.decode("utf-8", "replace"))
            return
        if self._last is not None and (time, piece.nth) <= (self._last, self._count):
            return
        self._write(self._decoder.decode(piece.data[max(self._begun - piece.at, 0) :]))
        if piece.is_whole:
            self._last, self._count, self._begun = time, piece.nth, 0
        else:
            self._begun = max(self._begun, piece.at + len(piece.data))

    def _write(self, text: str) -> None:
        if text:
            self._show(self._revealer.hide_piece(text, self._pieces))

    def _show(self, text: str) -> None:
        if not text:
            return
        if self._kept is None:
            self._kept = Kept(self._context.open_log())
        self._kept.write(text.replace("\0", "\ufffd"))
