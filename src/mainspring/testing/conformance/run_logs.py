"""What attempts write is kept as long as their leases are held, and read by its places."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mainspring.core.run_logs import LogPart, RunProgress, deflate, join_parts
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.run_logs import KeptProgress, LogEntry, LogPlace
from mainspring.testing.conformance.completion import give_back, succeed, take_again
from mainspring.testing.factories import START, add_session, at, running_run


def make_part(start: int, text: str) -> LogPart:
    """Return a part."""
    data = text.encode()
    return LogPart(start, len(data), deflate(data))


def entry_of(held: HeldRun, *parts: LogPart, **given: object) -> LogEntry:
    """Return an entry of the lease's holder."""
    entry = LogEntry(held.run_id, held.token, held.session_id, parts)
    return replace(entry, **given) if given else entry  # type: ignore[arg-type]


async def read_log(store: Store, held: HeldRun, start: int = 0) -> str:
    """Return what is kept under a lease, from a place on."""
    [parts] = await store.list_log_parts([LogPlace(held.run_id, held.token, start)], limit=100)
    return join_parts(parts, start).text


class RunLogs:
    """The output of attempts under way."""

    __test__ = False

    async def _held(self, store: Store) -> HeldRun:
        return await running_run(store)

    async def test_parts_are_read_from_any_place_on(self, store: Store) -> None:
        held = await self._held(store)
        entry = entry_of(held, make_part(0, "one\n"), make_part(4, "two\n"))
        assert await store.add_run_logs([entry], now=at(1)) == [True]
        assert await store.add_run_logs([entry_of(held, make_part(8, "three\n"))], now=at(2)) == [True]
        assert await read_log(store, held) == "one\ntwo\nthree\n"
        assert await read_log(store, held, 4) == "two\nthree\n"
        assert await read_log(store, held, 6) == "o\nthree\n"
        assert await read_log(store, held, 14) == ""

    async def test_a_repeated_entry_changes_nothing_for_readers(self, store: Store) -> None:
        held = await self._held(store)
        entry = entry_of(held, make_part(0, "one\n"), progress=RunProgress(1.0, 2.0, "half"))
        for second in (1, 2):
            assert await store.add_run_logs([entry], now=at(second)) == [True]
        assert await read_log(store, held) == "one\n"

    async def test_a_late_holder_is_refused(self, store: Store) -> None:
        held = await self._held(store)
        other = await add_session(store)
        entry = entry_of(held, make_part(0, "late\n"), progress=RunProgress(1.0))
        assert await store.add_run_logs([replace(entry, session_id=other)], now=at(1)) == [False]
        assert await store.add_run_logs([replace(entry, token=held.token + 1)], now=at(1)) == [False]
        await store.apply([give_back(held, now=2)], now=at(2))
        assert await store.add_run_logs([entry], now=at(3)) == [False]
        again = await take_again(store, held.run_id, now=4)
        assert await store.add_run_logs([entry, entry_of(again)], now=at(5)) == [False, True]
        assert await read_log(store, held) == ""
        assert await store.get_progress([held.run_id]) == [None]

    async def test_what_was_kept_outlasts_the_lease(self, store: Store) -> None:
        held = await self._held(store)
        await store.add_run_logs([entry_of(held, make_part(0, "done\n"))], now=at(1))
        await store.apply([succeed(held)], now=at(2))
        assert await read_log(store, held) == "done\n"
        assert await store.add_run_logs([entry_of(held, make_part(5, "late\n"))], now=at(3)) == [False]
        assert await read_log(store, held) == "done\n"

    async def test_parts_are_forgotten_by_their_places(self, store: Store) -> None:
        held = await self._held(store)
        parts = [make_part(place, f"{place}\n") for place in (0, 2, 4, 6)]
        await store.add_run_logs([entry_of(held, *parts)], now=at(1))
        await store.add_run_logs([entry_of(held, make_part(8, "8\n"), forget=(2, 6))], now=at(2))
        assert await read_log(store, held) == "0\n\n[… 4 bytes left out …]\n6\n8\n"

    async def test_a_limit_counts_for_each_place(self, store: Store) -> None:
        first, second = await self._held(store), await self._held(store)
        for held in (first, second):
            entry = entry_of(held, *[make_part(place, f"{place}\n") for place in (0, 2, 4)])
            await store.add_run_logs([entry], now=at(1))
        places = [LogPlace(held.run_id, held.token, 2) for held in (first, second)]
        places.append(LogPlace(first.run_id, first.token, 6))
        found = await store.list_log_parts(places, limit=1)
        assert [[part.start for part in parts] for parts in found] == [[2], [2], []]

    async def test_the_newest_progress_of_the_newest_lease_counts(self, store: Store) -> None:
        held = await self._held(store)
        await store.add_run_logs([entry_of(held, progress=RunProgress(1.0, 4.0, "a"))], now=at(1))
        await store.add_run_logs([entry_of(held, progress=RunProgress(3.0, None, None))], now=at(2))
        [kept] = await store.get_progress([held.run_id])
        assert kept == KeptProgress(held.token, RunProgress(3.0, None, None), at(2))
        await store.apply([give_back(held, now=3)], now=at(3))
        again = await take_again(store, held.run_id, now=4)
        await store.add_run_logs([entry_of(again, progress=RunProgress(0.0, 4.0, "again"))], now=at(5))
        [kept] = await store.get_progress([held.run_id])
        assert kept == KeptProgress(again.token, RunProgress(0.0, 4.0, "again"), at(5))

    async def test_what_is_old_is_pruned(self, store: Store) -> None:
        held = await self._held(store)
        await store.prepare_run_logs(now=START)
        entry = entry_of(held, make_part(0, "old\n"), progress=RunProgress(1.0))
        await store.add_run_logs([entry], now=at(1))
        later = START + timedelta(days=3)
        await store.add_run_logs([entry_of(held, make_part(4, "new\n"))], now=later)
        assert await store.prune_run_logs(before=START, limit=10) == 0
        assert await read_log(store, held) == "old\nnew\n"
        before = START + timedelta(days=2)
        while await store.prune_run_logs(before=before, limit=10):
            pass
        assert await read_log(store, held, 4) == "new\n"
        assert await read_log(store, held) == "\n[… 4 bytes left out …]\nnew\n"
        assert await store.get_progress([held.run_id]) == [None]

    async def test_no_entries_and_no_places_are_nothing(self, store: Store) -> None:
        assert await store.add_run_logs([], now=START) == []
        assert await store.list_log_parts([], limit=1) == []
        assert await store.get_progress([]) == []
