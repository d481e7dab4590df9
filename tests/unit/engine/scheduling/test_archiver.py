"""O8: what the history loses was read back from the archive before, whatever happens between any two steps."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.clock import LoopWaiter
from mainspring.core.archive import (
    ArchivedFile,
    ArchiveKind,
    ArchiveState,
    RowSum,
    first_of_batch,
    number_of,
)
from mainspring.core.ids import RunId
from mainspring.engine.scheduling.archiver import Archiver
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.settling.janitor import Janitor, Retention
from mainspring.ports.archive import ArchiveMismatch, ArchiveUnavailable
from mainspring.stores.memory import MemoryStore
from mainspring.testing.conformance.archive import TODAY, end_runs
from mainspring.testing.factories import START, own_shards

KEEP = timedelta(days=1)
LATER = START + timedelta(days=3)
Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["work", "janitor", "late", "take", "spoil", "away"]), st.just(0)),
        st.tuples(st.just("more"), st.integers(1, 3)),
        st.tuples(st.just("crash"), st.integers(1, 8)),
    ),
    min_size=1,
    max_size=40,
)


class Spool:
    """A copy in memory."""

    def __init__(self) -> None:
        self.data = b""

    async def begin(self) -> None:
        self.data = b""

    async def write(self, data: bytes) -> None:
        self.data += data


@dataclass
class Shelf:
    """An archive in memory. Its files hold the rows as they are copied.

    Attributes:
        files: by name.
        days: the names of the files that each day consists of, for readers, with their digests.
        is_away: it cannot be reached.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    days: dict[date, dict[str, bytes]] = field(default_factory=dict)
    is_away: bool = False
    url: str = "/archive"
    part_weight: int = 1 << 20

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}"

    async def begin(self, day: date, *, installation: str) -> int | None:
        del installation  # the only one
        self._reach()
        return max(map(number_of, self.days.get(day, ())), default=None)

    @asynccontextmanager
    async def open_spool(self, size: int = 0) -> AsyncIterator[Spool]:
        del size
        yield Spool()

    async def write(self, spool: Any, name: str, kind: ArchiveKind, expected: RowSum) -> ArchivedFile:
        self._reach()
        rows = spool.data.splitlines()
        whole = next((names for names in self.days.values() if _folder(name) in map(_folder, names)), {})
        beside = {
            row
            for other in whole
            if _kind(other) == _kind(name) and _batch(other) != _batch(name)
            for row in self.files[other].splitlines()
        }
        known = [row for row in rows if row in beside]
        made = self._describe(name, kind, b"\n".join(row for row in rows if row not in beside))
        made = replace(made, known=RowSum(len(known), sum(map(_id, known))))
        if made.sum + made.known != expected:
            raise ArchiveMismatch("the copy has other rows")
        if not made.sum.rows:
            return replace(made, bytes=0, digest=b"")
        mine = {other: digest for other, digest in whole.items() if _batch(other) == _batch(name)}
        if mine and mine.get(name) != made.digest:
            raise ArchiveMismatch("the day is whole, and has other rows")
        self.files[name] = b"\n".join(row for row in rows if row not in beside)
        return made

    async def check(self, name: str, kind: ArchiveKind) -> ArchivedFile:
        self._reach()
        return self._describe(name, kind, self.files[name])

    async def finish(self, day: date, files: Sequence[ArchivedFile]) -> None:
        self._reach()
        self.days.setdefault(day, {}).update({file.name: file.digest for file in files})

    def _reach(self) -> None:
        if self.is_away:
            raise ArchiveUnavailable("away")

    def _describe(self, name: str, kind: ArchiveKind, data: bytes) -> ArchivedFile:
        ids = list(map(_id, data.splitlines()))
        return ArchivedFile(
            name=name,
            kind=kind,
            sum=RowSum(len(ids), sum(ids)),
            first_id=min(ids, default=None),
            last_id=max(ids, default=None),
            digest=hashlib.sha256(data).digest(),
            bytes=len(data),
        )

    def runs(self) -> Counter[int]:
        """Return how often readers find each run."""
        names = (name for found in self.days.values() for name in found if _kind(name) == "part")
        return Counter(_id(row) for name in names for row in self.files[name].splitlines())


def _id(row: bytes) -> int:
    return int(row.partition(b",")[0])


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _kind(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]


def _batch(name: str) -> int:
    return first_of_batch(number_of(name))


class Crash(Exception):
    """The process dies here."""


class Crashing:
    """Passes calls on, and dies right after the call whose turn it is."""

    def __init__(self, inner: Any, calls: Any, dies_after: int) -> None:
        self._inner, self._calls, self._dies_after = inner, calls, dies_after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **given: Any) -> Any:
            answer = await found(*args, **given)
            if next(self._calls) == self._dies_after:
                raise Crash(name)
            return answer

        return call


class Site:
    """A store, its archive, and the servers that own shard 0 one after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore(time=lambda: LATER)
        self.shelf = Shelf()
        self.ids: list[RunId] = []
        self.janitor = Janitor(
            self.store, waiter=LoopWaiter(), retention=Retention(history=KEEP), archives=True
        )
        self._owners: list[Archiver] = []

    async def open(self) -> None:
        await self.store.open()
        epochs = await own_shards(self.store)
        self._owners.append(self._server(self.store, self.shelf, epochs))

    def _server(self, store: Any, shelf: Any, epochs: Any) -> Archiver:
        ownership = Ownership()
        ownership.update({0: epochs[0]})
        return Archiver(store, shelf, ownership=ownership, waiter=LoopWaiter(), keep=KEEP)

    async def _take(self) -> dict[int, int]:
        """Have another server take shard 0. The one before does not know of it yet."""
        epoch = next(shard.epoch for shard in await self.store.read_shards() if shard.shard == 0)
        return await self.store.take_shards("node-2", {0: epoch}, now=LATER)

    async def do(self, step: Step) -> None:
        what, number = step
        if what == "more":
            self.ids += await end_runs(self.store, number, retried=True)
        elif what == "take":
            self._owners.append(self._server(self.store, self.shelf, await self._take()))
        elif what == "crash":
            calls = count(1)
            cut = Crashing(self.store, calls, number), Crashing(self.shelf, calls, number)
            with suppress(Crash):
                await self._server(*cut, await self._take()).tick(LATER)
            self._owners.append(self._server(self.store, self.shelf, await self._take()))
        elif what == "late":
            await self._owners[max(len(self._owners) - 2, 0)].tick(LATER)
        elif what == "janitor":
            await self.janitor.tick(LATER)
        elif what == "away":
            self.shelf.is_away = not self.shelf.is_away
        elif what == "spoil":
            await self._spoil()
        else:
            await self._owners[-1].tick(LATER)

    async def _spoil(self) -> None:
        """Have the archive lose a row of a file that was not read back yet."""
        for part in await self.store.list_archive_parts(TODAY):
            name = part.url.removeprefix("/archive/")
            if part.state is ArchiveState.WRITTEN and self.shelf.files.get(name):
                self.shelf.files[name] = self.shelf.files[name].rpartition(b"\n")[0]
                return

    async def lost(self) -> list[RunId]:
        """Return the runs that are neither in the history nor, once, in what readers find in the archive."""
        found = self.shelf.runs()
        runs = await self.store.get_runs(self.ids)
        return [
            run_id for run_id, run in zip(self.ids, runs, strict=True) if run is None and found[run_id] != 1
        ]


def play(steps: Sequence[Step]) -> list[RunId]:
    """Return which runs are lost or doubled, as soon as any are."""

    async def go() -> list[RunId]:
        site = Site()
        await site.open()
        try:
            for step in steps:
                await site.do(step)
                if lost := await site.lost():
                    return lost
            return []
        finally:
            await site.store.close()

    return asyncio.run(go())


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_what_is_dropped_was_verified(steps: list[Step]) -> None:
    assert play([("more", 2), *steps]) == []


def test_a_day_is_dropped_in_the_end() -> None:
    async def go() -> None:
        site = Site()
        await site.open()
        for step in [("more", 3), *[("work", 0)] * 9, ("janitor", 0), ("work", 0)]:
            await site.do(step)
        assert await site.store.get_runs(site.ids) == [None] * 3
        assert await site.lost() == []
        [day] = await site.store.list_archive_days(limit=9)
        assert (day.state, day.runs) == (ArchiveState.DROPPED, 3)
        await site.store.close()

    asyncio.run(go())


async def _take_on_trust(archive: Any, part: Any) -> ArchivedFile:
    """Stand in for `check_part`: read nothing back."""
    del archive
    return ArchivedFile(
        name=part.url.removeprefix("/archive/"),
        kind=part.kind,
        sum=part.sum,
        first_id=part.first_id,
        last_id=part.last_id,
        digest=part.digest,
        bytes=part.bytes,
    )


async def _compare_nothing(*_: Any) -> None:
    """Stand in for `compare_day`."""


@pytest.mark.parametrize(
    ("guard", "instead", "harm"),
    [("check_part", _take_on_trust, ("spoil", 0)), ("compare_day", _compare_nothing, ("more", 1))],
)
def test_the_loss_of_a_check_is_noticed(
    guard: str, instead: Any, harm: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the tests above would hold for whatever the archiver does."""
    if (
        guard == "compare_day"
    ):  # PostgreSQL watches a day only right before it is compared: until then nothing is known
        monkeypatch.setattr("mainspring.stores.memory.archive.reopen_days", lambda *_: None)
    written = [("more", 2), ("work", 0), ("work", 0), harm]
    steps = [*written, *[("work", 0)] * 9, ("janitor", 0), ("work", 0)]
    assert play(steps) == []
    monkeypatch.setattr(f"mainspring.engine.scheduling.archiver.{guard}", instead)
    assert play(steps) != []
