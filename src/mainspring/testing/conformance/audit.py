"""The audit: verbs write an entry beside each change, and none where nothing changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import AuditEntry, AuditFilter, AuditItem, KeptEntry, Subject, entries
from mainspring.core.backfill import BackfillChange
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import JobId, RedriveId, RunId, format_run_id
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.limits import JobLimit, LimitRule
from mainspring.core.model import Priority
from mainspring.core.priorities import PriorityClass
from mainspring.core.queues import Queue
from mainspring.core.redrives import RedriveChange
from mainspring.core.tenants import Tenant
from mainspring.ports.store import Store
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.ports.store.redrives import NewRedrive
from mainspring.testing.conformance.backfills import make_backfill
from mainspring.testing.conformance.blackouts import blackout
from mainspring.testing.conformance.calendars import make_calendar
from mainspring.testing.conformance.dead_letters import bury, redrive_of
from mainspring.testing.conformance.jobs import UNKNOWN
from mainspring.testing.conformance.restrictions import MAIL, paused
from mainspring.testing.factories import (
    START,
    IdSequence,
    add_job,
    at,
    make_change,
    make_edit,
    make_new_job,
    make_new_run,
    make_pause,
    make_spec,
    read_job,
    running_run,
    submit,
)

_PREFIX = "k3v9q2xa"
ANN = Actor(
    name="ann", kind=ActorKind.ACCOUNT, action="do_it", token=_PREFIX, address="10.0.0.7", request_id="req_1"
)


def note(subject_id: str = "it", **given: Any) -> tuple[AuditEntry, ...]:
    """Make what a verb takes: the entry about something that ann does."""
    subject = Subject(
        kind=given.pop("kind", "thing"),
        id=subject_id,
        tenant=given.pop("tenant", "default"),
        name=given.pop("name", None),
    )
    return entries(given.pop("actor", ANN), subject, at=given.pop("at", START), **given)


async def kept(store: Store) -> list[KeptEntry]:
    """Return all entries, the oldest first."""
    return (await store.list_audit(AuditFilter(), limit=1000))[::-1]


async def noted(store: Store) -> list[str]:
    """Return what the entries are about, the oldest first."""
    return [one.entry.subject_id for one in await kept(store)]


class ChangesOfJobsAreAudited:
    """What changes a job has an entry; what finds nothing to change has none."""

    __test__ = False

    async def test_an_entry_is_as_it_was_made(self, store: Store) -> None:
        before, after = {"retry.delay": "10s", "n": [1, None, {"a": True}]}, {"text": "ä\N{SNOWMAN} '\""}
        audit = note("a", before=before, after=after, kind="job", tenant="acme", at=at(0.123456))
        await store.add_jobs([make_new_job()], now=START, audit=audit)
        bare = replace(
            audit[0], token=None, address=None, request_id=None, before=None, after=None, subject_name="b"
        )
        await store.add_jobs([make_new_job()], now=START, audit=[bare])
        first, second = await kept(store)
        assert (first.entry, first.seal) == (audit[0], None)
        assert (second.entry, second.id > first.id) == (bare, True)

    async def test_adding_jobs(self, store: Store) -> None:
        new = make_new_job()
        await store.add_jobs([new], now=START, audit=note("added"))
        await store.add_jobs([make_new_job(new.spec)], now=START, audit=note("taken"))
        assert await noted(store) == ["added"]

    async def test_of_many_things_those_count_that_changed(self, store: Store) -> None:
        old = await add_job(store)
        new = [make_new_job(), make_new_job(old.spec), make_new_job(), make_new_job()]
        audit = (
            *note(
                "", items=[AuditItem(place=0, id="a"), AuditItem(place=1, id="b"), AuditItem(place=2, id="c")]
            ),
            *note("d", items=[AuditItem(place=3, id="d")]),
            *note("taken", items=[AuditItem(place=1, id="b")]),
        )
        await store.add_jobs(new, now=START, audit=audit)
        many, one = [each.entry for each in await kept(store)]
        assert (many.after, many.outcome) == ({"count": 2, "ids": ["a", "c"]}, "partial")
        assert (one.subject_id, one.after, one.outcome) == ("d", None, "done")

    async def test_editing_jobs(self, store: Store) -> None:
        job = await add_job(store)
        await store.edit_jobs([make_edit(job, revision=99)], now=at(1), audit=note("moved"))
        await store.edit_jobs([make_edit(job)], now=at(1), audit=note("edited"))
        assert await noted(store) == ["edited"]

    async def test_pausing_and_resuming_jobs(self, store: Store) -> None:
        job = await add_job(store, next_fire_at=at(60))
        for name in ("paused", "paused already"):
            await store.pause_jobs([make_pause(job)], now=at(1), audit=note(name))
        for name in ("resumed", "resumed already"):
            change = make_change(await read_job(store, job.id), next_fire_at=at(60))
            await store.resume_jobs([change], now=at(2), audit=note(name))
        assert await noted(store) == ["paused", "resumed"]

    async def test_deleting_jobs(self, store: Store) -> None:
        job = await add_job(store)
        for name in ("deleted", "missing"):
            await store.delete_jobs([make_change(job)], now=at(1), audit=note(name))
        assert await noted(store) == ["deleted"]

    async def test_applying_jobs(self, store: Store) -> None:
        job = await add_job(store)
        owners = [OwnedNames("shop", (job.spec.name,))]
        for name, change in (
            ("moved", JobsChange(tenant="default", edits=[make_edit(job, revision=99)])),
            ("edited", JobsChange(tenant="default", edits=[make_edit(job)])),
            ("owned", JobsChange(tenant="default", owners=owners)),
            ("owned already", JobsChange(tenant="default", owners=owners)),
        ):
            await store.apply_jobs(change, now=at(1), audit=note(name))
        assert await noted(store) == ["edited", "owned"]

    async def test_owning_jobs(self, store: Store) -> None:
        name = (await add_job(store)).spec.name
        for named, subject in (([name], "defined"), ([name], "as it is"), ([], "undefined")):
            await store.own_jobs("default", "shop", named, now=at(1), audit=note(subject))
        assert await noted(store) == ["defined", "undefined"]


class ChangesOfSettingsAreAudited:
    """What operators set has an entry."""

    __test__ = False

    async def test_pauses(self, store: Store) -> None:
        for subject in ("paused", "as it is"):
            await store.add_pauses([paused()], now=START, audit=note(subject))
        await store.add_pauses([paused(note="why")], now=START, audit=note("with a note"))
        for subject in ("resumed", "not paused"):
            await store.lift_pauses([MAIL], now=at(1), audit=note(subject))
        assert await noted(store) == ["paused", "with a note", "resumed"]

    async def test_blackouts(self, store: Store) -> None:
        await store.write_calendars([make_calendar()], revision=await store.read_calendar_revision())
        revision = await store.read_calendar_revision()
        for subject, blackouts, known in (
            ("moved", [blackout()], revision - 1),
            ("set", [blackout()], revision),
            ("as it is", [blackout()], revision),
            ("removed", [], revision),
        ):
            await store.set_blackouts(MAIL, blackouts, revision=known, now=START, audit=note(subject))
        assert await noted(store) == ["set", "removed"]

    async def test_caps(self, store: Store) -> None:
        cap = LaneCap(CapKey(CapScope.LABEL, "gpu"), 3)
        await store.write_caps([cap], now=START, audit=note("capped"))
        assert await noted(store) == ["capped"]

    async def test_tenants_and_queues(self, store: Store) -> None:
        await store.write_tenants([Tenant(name="acme", weight=2)], audit=note("tenant"))
        await store.write_queues([Queue(name="mail", max_queued=2)], audit=note("queue"))
        assert await noted(store) == ["tenant", "queue"]

    async def test_limits(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="api", max_running=1)], audit=note("set"))
        spec = make_spec(concurrency=(JobLimit(use="api"),))
        job = await add_job(store, spec)
        await store.delete_limit("default", "api", audit=note("used"))
        await store.delete_jobs([make_change(job)], now=at(1))
        for subject in ("deleted", "missing"):
            await store.delete_limit("default", "api", audit=note(subject))
        assert await noted(store) == ["set", "deleted"]

    async def test_priority_classes(self, store: Store) -> None:
        await store.write_priority_classes(
            [PriorityClass(name="batch", tier=Priority.LOW)], audit=note("set")
        )
        for subject in ("deleted", "missing"):
            await store.delete_priority_classes(["batch"], audit=note(subject))
        assert await noted(store) == ["set", "deleted"]

    async def test_calendars(self, store: Store) -> None:
        revision = await store.read_calendar_revision()
        await store.write_calendars([make_calendar()], revision=revision - 1, audit=note("moved"))
        await store.write_calendars([], revision=revision, audit=note("nothing new"))
        await store.write_calendars([make_calendar()], revision=revision, audit=note("written"))
        revision = await store.read_calendar_revision()
        for subject in ("deleted", "moved"):
            await store.delete_calendar("default", "holidays", revision=revision, audit=note(subject))
        assert await noted(store) == ["written", "deleted"]


class ChangesOfRunsAreAudited:
    """What is done to runs by hand has an entry."""

    __test__ = False

    async def test_cancelling_runs(self, store: Store) -> None:
        job = await add_job(store)
        running = await running_run(store, job)
        [waiting] = await submit(store, job)
        for subject, run_id in (
            ("asked to stop", running.run_id),
            ("asked already", running.run_id),
            ("cancelled", waiting),
            ("over", waiting),
            ("unknown", RunId(2**40)),
        ):
            await store.cancel_runs([run_id], reason="cancelled", now=at(2), audit=note(subject))
        assert await noted(store) == ["asked to stop", "cancelled"]

    async def test_redriving_a_run(self, store: Store) -> None:
        job = await add_job(store)
        run_id = await bury(store, job)
        for subject in ("redriven", "redriven already"):
            await store.submit_runs([redrive_of(job, run_id)], now=at(2), audit=note(subject))
        missing = replace(make_new_run(job), job_id=UNKNOWN)
        await store.submit_runs([missing], now=at(2), audit=note("missing"))
        assert await noted(store) == ["redriven"]

    async def test_discarding_dead_letters(self, store: Store) -> None:
        job = await add_job(store)
        dead = [await bury(store, job) for _ in range(3)]
        for limit in (2, 9, 9):
            audit = note("", after={"reason": "gone"})
            await store.discard_dead(
                "default", DeadFilter(), reason="gone", now=at(9), limit=limit, audit=audit
            )
        names = [format_run_id(run_id) for run_id in dead]
        assert [one.entry.after for one in await kept(store)] == [
            {"reason": "gone", "count": 2, "ids": names[:0:-1]},
            {"reason": "gone", "count": 1, "ids": names[:1]},
        ]

    async def test_redrives(self, store: Store) -> None:
        redrive_id = RedriveId(IdSequence().new_uuid())
        new = NewRedrive(
            id=redrive_id, tenant="default", wanted=DeadFilter(), is_newest=True, rate=10, total=3
        )
        await store.add_redrive(new, now=START, audit=note("made"))
        for subject, change in (
            ("paused", RedriveChange.PAUSE),
            ("paused already", RedriveChange.PAUSE),
            ("resumed", RedriveChange.RESUME),
            ("cancelled", RedriveChange.CANCEL),
            ("cancelled already", RedriveChange.CANCEL),
            ("over", RedriveChange.RESUME),
        ):
            await store.change_redrive(redrive_id, change, now=at(1), audit=note(subject))
        assert await noted(store) == ["made", "paused", "resumed", "cancelled"]

    async def test_backfills(self, store: Store) -> None:
        job = await add_job(store)
        new = make_backfill(job)
        missing = replace(make_backfill(job, 2), job_id=JobId(UNKNOWN))
        await store.add_backfill(missing, now=START, audit=note("missing"))
        await store.add_backfill(new, now=START, audit=note("made"))
        await store.add_backfill(make_backfill(job, 3), now=START, audit=note("in the way"))
        for subject, change in (
            ("paused", BackfillChange.PAUSE),
            ("paused already", BackfillChange.PAUSE),
            ("resumed", BackfillChange.RESUME),
            ("cancelled", BackfillChange.CANCEL),
            ("cancelled already", BackfillChange.CANCEL),
            ("over", BackfillChange.RESUME),
        ):
            await store.change_backfill(new.id, change, now=at(1), audit=note(subject))
        assert await noted(store) == ["made", "paused", "resumed", "cancelled"]


class EntriesAreListed:
    """Entries are found by whose they are, what they are about, who did what, and when; and kept as long as asked."""

    __test__ = False

    async def _fill(self, store: Store) -> None:
        bob = replace(ANN, name="bob", action="delete_it")
        for number, audit in enumerate(
            (
                note("a", kind="job", name="report"),
                note("b", kind="job", name="report", actor=bob, at=at(60)),
                note("a", kind="run", at=at(120)),
                note("a", kind="job", tenant="acme", at=at(180)),
                note("", kind="job", at=at(240), after={"count": 2, "ids": ["a", "c"]}),
                note("", kind="job", at=at(300), after={"count": 1, "ids": ["c"]}),
            )
        ):
            await store.write_queues([Queue(name=f"q{number}")], audit=audit)

    async def _find(self, store: Store, **wanted: Any) -> list[int]:
        """Return the numbers of the entries that are found, the first of all being 0."""
        first = (await kept(store))[0].id
        return [one.id - first for one in await store.list_audit(AuditFilter(**wanted), limit=1000)]

    async def test_filters(self, store: Store) -> None:
        await self._fill(store)
        for wanted, found in (
            ({}, [5, 4, 3, 2, 1, 0]),
            ({"tenant": "acme"}, [3]),
            ({"tenant": "default"}, [5, 4, 2, 1, 0]),
            ({"tenant": "default", "subject_kind": "run"}, [2]),
            ({"subject_kind": "job"}, [5, 4, 3, 1, 0]),
            ({"subject_kind": "job", "subject_id": "a"}, [4, 3, 0]),
            ({"subject_kind": "job", "subject_id": "c", "since": at(241)}, [5]),
            ({"subject_kind": "job", "subject_id": "a", "tenant": "default"}, [4, 0]),
            ({"subject_kind": "job", "subject_name": "report"}, [1, 0]),
            ({"subject_kind": "job", "subject_name": "report", "subject_id": "a"}, [4, 3, 1, 0]),
            ({"subject_kind": "run", "subject_name": "report"}, []),
            ({"actor": "bob"}, [1]),
            ({"action": "delete_it"}, [1]),
            ({"actor": "ann", "action": "delete_it"}, []),
            ({"since": at(60), "until": at(180)}, [2, 1]),
            ({"tenant": "default", "actor": "ann", "until": at(121)}, [2, 0]),
        ):
            assert await self._find(store, **wanted) == found, wanted

    async def test_pages(self, store: Store) -> None:
        await self._fill(store)
        for wanted, pages in (
            (AuditFilter(), [2, 2, 2]),
            (AuditFilter(tenant="default"), [2, 2, 1]),
            (AuditFilter(subject_kind="job", subject_id="a"), [2, 1]),
        ):
            everything = await store.list_audit(wanted, limit=1000)
            found: list[KeptEntry] = []
            sizes: list[int] = []
            while page := await store.list_audit(wanted, before=found[-1].id if found else None, limit=2):
                found += page
                sizes.append(len(page))
            assert (found, sizes) == (everything, pages)

    async def test_old_entries_go(self, store: Store) -> None:
        await self._fill(store)
        await store.prune_history(before=at(1000), limit=100)
        assert len(await kept(store)) == 6
        assert await store.prune_history(before=START, limit=2, audit_before=at(180)) == 2
        await store.prune_history(before=START, limit=100, audit_before=at(180))
        assert [one.entry.at for one in await kept(store)] == [at(180), at(240), at(300)]

    async def test_months_go(self, store: Store) -> None:
        day = timedelta(days=1)
        await store.prepare_history(now=START)
        for days in (0, 20, 40):
            await store.write_queues([Queue(name="mail")], audit=note(at=START + days * day))
        for days in (10, 20):
            await store.prune_history(before=START, limit=100, audit_before=START + days * day)
        left = [one.entry.at for one in await kept(store)]
        assert left[-2:] == [START + 20 * day, START + 40 * day]
        await store.prune_history(before=START, limit=100, audit_before=START + 30 * day)
        assert [one.entry.at for one in await kept(store)] == [START + 40 * day]
