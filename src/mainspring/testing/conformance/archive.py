"""Days of the history are copied out of the store, and only one that is verified may be lost."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date, timedelta

from mainspring.core.archive import (
    ATTEMPT_COLUMNS,
    MARGIN,
    RUN_COLUMNS,
    WIDE_FACTOR,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    ArchiveState,
    RowSum,
    next_batch,
    part_name,
    start_of_day,
)
from mainspring.core.ids import DEFAULT_TENANT, RunId
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowVerdict
from mainspring.ports.store.nodes import Epochs
from mainspring.testing.conformance.completion import fail, succeed
from mainspring.testing.conformance.flows import end_of, make_start, make_turn, start_flow
from mainspring.testing.conformance.traces import TRACE
from mainspring.testing.conformance.upkeep import prune_all
from mainspring.testing.factories import START, add_job, at, own_shards, running_run, submit

DAY = timedelta(days=1)
TODAY = START.date()
TOMORROW = start_of_day(TODAY) + DAY


class Collected:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data: bytes = b""
        self.begun: int = 0

    async def begin(self) -> None:
        """Forget what has come."""
        self.data = b""
        self.begun += 1

    async def write(self, data: bytes) -> None:
        """Keep more of it."""
        self.data += data

    def rows(self, kind: ArchiveKind) -> list[dict[str, str]]:
        """Return the rows, each by the names of its columns."""
        names = [name for name, _ in (RUN_COLUMNS if kind is ArchiveKind.RUNS else ATTEMPT_COLUMNS)]
        lines = csv.reader(self.data.decode().splitlines(keepends=True))
        return [dict(zip(names, line, strict=True)) for line in lines]


async def copy_day(store: Store, kind: ArchiveKind, day: date = TODAY) -> list[dict[str, str]]:
    """Return all rows of a kind of a day."""
    rows: list[dict[str, str]] = []
    for of in await store.outline_archive_day(day):
        if of.kind is kind:
            sink = Collected()
            await store.copy_archive_range(day, of, sink)
            assert sink.begun == 1
            rows += sink.rows(kind)
    return rows


async def end_runs(store: Store, count: int, *, retried: bool = False) -> list[RunId]:
    """Have runs of a job end well, after a failed attempt each if they are retried."""
    await store.prepare_history(now=START)
    job = await add_job(store)
    ids = []
    for _ in range(count):
        held = await running_run(store, job)
        ids.append(held.run_id)
        if retried:
            await store.cancel_runs([held.run_id], reason="operator", now=START)
            await store.apply([fail(held, now=1)], now=at(1))
        else:
            await store.apply([succeed(held)], now=at(1))
    return ids


def make_part(of: ArchiveRange, sum_: RowSum, *, day: date = TODAY) -> ArchivePart:
    """Make the part that a range becomes."""
    return ArchivePart(
        day=day,
        kind=of.kind,
        number=of.number,
        url=f"/archive/{part_name(day, of.kind, of.number)}",
        sum=sum_,
        first_id=1,
        last_id=2**62,
        bytes=100,
        digest=b"\0" * 31 + b"\xff",
        changed_at=at(10),
    )


async def write_day(store: Store, epochs: Epochs, day: date = TODAY) -> list[ArchivePart]:
    """Store that all parts of a day were written."""
    parts = [
        make_part(of, await store.count_archive_range(day, of), day=day)
        for of in await store.outline_archive_day(day)
    ]
    assert parts
    assert [await store.save_archive_part(part, epochs=epochs) for part in parts] == [True] * len(parts)
    return parts


class Archive:
    """What is copied is what is there, and parts go from written to verified to dropped."""

    __test__ = False

    async def test_a_day_is_copied_whole(self, store: Store) -> None:
        ids = await end_runs(store, 3)
        rows = await copy_day(store, ArchiveKind.RUNS)
        assert sorted(int(row["id"]) for row in rows) == sorted(ids)
        ranges = [of for of in await store.outline_archive_day(TODAY) if of.kind is ArchiveKind.RUNS]
        sums = [await store.count_archive_range(TODAY, of) for of in ranges]
        assert sum(sums, RowSum()) == RowSum(3, sum(ids))

    async def test_columns_are_those_of_the_run(self, store: Store) -> None:
        [run_id] = await end_runs(store, 1)
        [row] = await copy_day(store, ArchiveKind.RUNS)
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert run.finished_at is not None
        assert (row["state"], row["tenant"], row["queue"]) == ("SUCCEEDED", DEFAULT_TENANT, run.lane.queue)
        assert row["job_id"] == str(run.job_id)
        assert int(row["finished_at"]) == round(run.finished_at.timestamp() * 1_000_000)
        assert (row["reason"], row["trace"]) == (r"\N", r"\N")

    async def test_runs_of_steps_name_their_workflow(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        held = await running_run(store, job)
        assert await store.start_flows([make_start(job, held, 0, 1)], now=START) == [FlowVerdict.STARTED]
        steps = await store.list_flow_runs(held.run_id)
        await store.cancel_runs([run.id for run in steps], reason="tried", now=at(1))
        rows = await copy_day(store, ArchiveKind.RUNS)
        found = {(row["flow_id"], row["step"], row["item"]) for row in rows}
        assert found == {(str(held.run_id), "0", "-1"), (str(held.run_id), "1", "-1")}
        assert {row["job"] for row in rows} == {job.spec.name}

    async def test_the_state_of_a_flow_that_ended_is_kept(self, store: Store) -> None:
        await store.prepare_history(now=START)
        epochs = await own_shards(store)
        flow_id = await start_flow(store, await add_job(store))
        end = await end_of(store, flow_id, RunState.SUCCEEDED)
        turn = await make_turn(store, flow_id, state=b"\0last\xff", end=end)
        assert await store.turn_flows([turn], epochs=epochs, now=at(1)) == [FlowVerdict.TURNED]
        [row] = await copy_day(store, ArchiveKind.RUNS)
        assert (row["id"], row["flow_state"]) == (str(flow_id), b"\0last\xff".hex())

    async def test_texts_are_kept_to_the_letter(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        odd = 'a "quote", a\nline, \\N and ä'
        [run_id] = await submit(store, job, payload=odd.encode(), trace=TRACE)
        await store.cancel_runs([run_id], reason=odd, now=at(1))
        [row] = await copy_day(store, ArchiveKind.RUNS)
        assert row["payload"] == f"\\x{odd.encode().hex()}"
        assert (row["reason"], row["trace"]) == (odd, TRACE.hex())
        assert (row["state"], row["started_at"]) == ("CANCELLED", r"\N")

    async def test_attempts_are_copied(self, store: Store) -> None:
        [run_id] = await end_runs(store, 1, retried=True)
        [row] = await copy_day(store, ArchiveKind.ATTEMPTS)
        assert (int(row["run_id"]), row["error"]) == (run_id, "boom")

    async def test_a_day_is_found_until_it_is_verified(self, store: Store) -> None:
        await end_runs(store, 1)
        epochs = await own_shards(store)
        assert await store.find_unarchived_day(before=start_of_day(TODAY)) is None
        assert await store.find_unarchived_day(before=TOMORROW) == TODAY
        await write_day(store, epochs)
        assert await store.find_unarchived_day(before=TOMORROW) == TODAY
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        assert await store.find_unarchived_day(before=TOMORROW) is None
        assert await store.find_unarchived_day(before=TOMORROW + MARGIN) is None

    async def test_only_the_owner_of_shard_0_writes(self, store: Store) -> None:
        await end_runs(store, 1)
        epochs = await own_shards(store)
        stale = {0: epochs[0] - 1}
        [part] = await write_day(store, epochs)
        for wrong in (stale, {}):
            assert not await store.may_archive_day(TODAY, epochs=wrong)
            assert not await store.save_archive_part(replace(part, bytes=7), epochs=wrong)
            assert not await store.verify_archive_day(TODAY, epochs=wrong, now=at(20))
            await store.forget_archive_day(TODAY, epochs=wrong)
        assert await store.list_archive_parts(TODAY) == [part]
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        await prune_all(store, TOMORROW)
        assert await store.drop_archive_days(epochs=stale, now=at(30)) == []

    async def test_what_is_verified_stays_as_it_is(self, store: Store) -> None:
        await end_runs(store, 1)
        epochs = await own_shards(store)
        [part] = await write_day(store, epochs)
        assert await store.save_archive_part(replace(part, bytes=7), epochs=epochs)
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        assert not await store.may_archive_day(TODAY, epochs=epochs)
        assert not await store.save_archive_part(replace(part, bytes=8), epochs=epochs)
        assert not await store.verify_archive_day(TODAY, epochs=epochs, now=at(21))
        await store.forget_archive_day(TODAY, epochs=epochs)
        verified = replace(part, bytes=7, state=ArchiveState.VERIFIED, changed_at=at(20))
        assert await store.list_archive_parts(TODAY) == [verified]

    async def test_a_day_is_forgotten_before_it_is_verified(self, store: Store) -> None:
        await end_runs(store, 1)
        epochs = await own_shards(store)
        await write_day(store, epochs)
        await store.forget_archive_day(TODAY, epochs=epochs)
        assert await store.list_archive_parts(TODAY) == []
        assert await store.list_archive_days(limit=10) == []

    async def test_a_day_is_dropped_once_nothing_is_left(self, store: Store) -> None:
        await end_runs(store, 2, retried=True)
        epochs = await own_shards(store)
        await write_day(store, epochs)
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        assert await store.drop_archive_days(epochs=epochs, now=at(30)) == []
        await prune_all(store, TOMORROW)
        assert await store.drop_archive_days(epochs=epochs, now=at(40)) == [TODAY]
        assert await store.drop_archive_days(epochs=epochs, now=at(41)) == []
        [day] = await store.list_archive_days(limit=10)
        assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 2, 2)
        assert (day.parts, day.bytes, day.changed_at) == (2, 200, at(40))
        assert not await store.may_archive_day(TODAY, epochs=epochs)

    async def test_a_dropped_day_that_has_rows_again_is_found(self, store: Store) -> None:
        """The store's clock was ahead, and was put right: what ends now is in no file yet."""
        await end_runs(store, 1, retried=True)
        epochs = await own_shards(store)
        await write_day(store, epochs)
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        await prune_all(store, TOMORROW)
        assert await store.drop_archive_days(epochs=epochs, now=at(30)) == [TODAY]
        assert await store.find_unarchived_day(before=TOMORROW) is None
        await end_runs(store, 2, retried=True)
        assert await store.find_unarchived_day(before=TOMORROW) == TODAY
        assert not await store.may_archive_day(TODAY, epochs=epochs)
        known = await store.list_archive_parts(TODAY)
        assert not await store.save_archive_part(replace(known[0], bytes=7), epochs=epochs)
        first = next_batch(known)
        for of in await store.outline_archive_day(TODAY):
            part = make_part(
                replace(of, number=first + of.number), await store.count_archive_range(TODAY, of)
            )
            assert await store.may_archive_day(TODAY, epochs=epochs, number=part.number)
            assert await store.save_archive_part(part, epochs=epochs)
        assert await store.find_unarchived_day(before=TOMORROW) == TODAY
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(50))
        assert await store.find_unarchived_day(before=TOMORROW) is None
        assert not await store.may_archive_day(TODAY, epochs=epochs, number=first)
        await prune_all(store, TOMORROW)
        assert await store.drop_archive_days(epochs=epochs, now=at(60)) == [TODAY]
        assert not await store.may_archive_day(TODAY, epochs=epochs, number=first)
        [day] = await store.list_archive_days(limit=10)
        assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 3, 3)

    async def test_a_verified_day_that_gets_rows_is_open_again(self, store: Store) -> None:
        """The clock is set back, so what ends now ends in a day that is in the archive: it is in no file of it."""
        ids = await end_runs(store, 2)
        epochs = await own_shards(store)
        assert await store.claim_archive("/archive", epochs=epochs) is not None
        await store.watch_archive_day(TODAY)
        parts = await write_day(store, epochs)
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        ids += await end_runs(store, 1, retried=True)
        assert await store.find_unarchived_day(before=TOMORROW) == TODAY
        await prune_all(store, TOMORROW)
        assert all(await store.get_runs(ids))
        known = await store.list_archive_parts(TODAY)
        assert [(part.state, part.sum) for part in known] == [(ArchiveState.DROPPED, parts[0].sum)]
        for of in await store.outline_archive_day(TODAY):
            number = next_batch(known) + of.number
            total = await store.count_archive_range(TODAY, of)
            before = parts[0].sum if of.kind is ArchiveKind.RUNS else RowSum()
            new = RowSum(total.rows - before.rows, total.ids - before.ids)
            part = replace(make_part(replace(of, number=number), new), known=before)
            assert part.total == total
            assert await store.save_archive_part(part, epochs=epochs)
        assert await store.verify_archive_day(TODAY, epochs=epochs, now=at(40))
        await prune_all(store, TOMORROW)
        assert await store.get_runs(ids) == [None] * 3
        assert await store.drop_archive_days(epochs=epochs, now=at(50)) == [TODAY]
        [day] = await store.list_archive_days(limit=9)
        assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 3, 1)

    async def test_rows_that_come_amid_undo_what_was_written(self, store: Store) -> None:
        await end_runs(store, 1)
        epochs = await own_shards(store)
        await store.watch_archive_day(TODAY)
        await write_day(store, epochs)
        await end_runs(store, 1)
        assert await store.list_archive_parts(TODAY) == []
        assert not await store.verify_archive_day(TODAY, epochs=epochs, now=at(20))
        assert await store.may_archive_day(TODAY, epochs=epochs)

    async def test_once_there_is_an_archive_nothing_goes_that_is_not_there(self, store: Store) -> None:
        ids = await end_runs(store, 2, retried=True)
        epochs = await own_shards(store)
        before = await store.read_archive()
        assert before.url is None
        assert await store.claim_archive("/archive", epochs={0: epochs[0] - 1}) is None
        assert await store.read_archive() == before
        assert await store.claim_archive("/archive", epochs=epochs) == before.installation
        assert await store.read_archive() == replace(before, url="/archive")
        await prune_all(store, TOMORROW)
        assert all(await store.get_runs(ids))
        await store.end_archive()
        assert await store.read_archive() == before
        await prune_all(store, TOMORROW)
        assert await store.get_runs(ids) == [None, None]

    async def test_a_day_without_rows_goes_though_it_is_not_in_the_archive(self, store: Store) -> None:
        epochs = await own_shards(store)
        await store.claim_archive("/archive", epochs=epochs)
        await store.prepare_history(now=START)
        await prune_all(store, TOMORROW + 9 * DAY)
        assert await store.find_unarchived_day(before=TOMORROW + 9 * DAY) is None

    async def test_ranges_are_bounded_by_bytes(self, store: Store) -> None:
        """However little room they take where the store packs them, and though all of them end at one instant."""
        await store.prepare_history(now=START)
        job = await add_job(store)
        ids = []
        for _ in range(3):
            ids += await submit(store, job, 100, payload=b'"' + b"x" * 60_000 + b'"')
        await store.cancel_runs(ids, reason="operator", now=at(1))
        ranges = await store.outline_archive_day(TODAY, most=30_000_000)
        sums = [await store.count_archive_range(TODAY, of) for of in ranges]
        assert sum(sums, RowSum()) == RowSum(300, sum(ids))
        assert len(ranges) > 1
        for of, total in zip(ranges, sums, strict=True):
            assert total.rows * 120_000 * WIDE_FACTOR <= 30_000_000
            assert total.rows * 120_000 <= of.bytes <= total.rows * 121_000

    async def test_days_are_listed_by_pages(self, store: Store) -> None:
        epochs = await own_shards(store)
        days = [date(2025, 1, number) for number in (1, 2, 3)]
        of = ArchiveRange(ArchiveKind.RUNS, 0, 0, 1)
        for day in days:
            assert await store.save_archive_part(make_part(of, RowSum(5, 2**70), day=day), epochs=epochs)
        assert await store.verify_archive_day(days[0], epochs=epochs, now=at(20))
        newest = await store.list_archive_days(limit=2)
        assert [day.day for day in newest] == days[:0:-1]
        [oldest] = await store.list_archive_days(before=days[1], limit=2)
        assert (oldest.day, oldest.state, oldest.runs) == (days[0], ArchiveState.VERIFIED, 5)
        [part] = await store.list_archive_parts(days[0])
        assert part.sum == RowSum(5, 2**70)
