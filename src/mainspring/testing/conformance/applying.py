"""Applying definitions: adds, edits, pauses, deletes and owners in one transaction, all of it or nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mainspring.core.limits import JobLimit
from mainspring.core.model import FireRangeKind, Job
from mainspring.ports.store import Store
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.ports.store.calendars import CalendarUses
from mainspring.ports.store.jobs import JobEdit
from mainspring.testing.factories import (
    START,
    add_job,
    at,
    make_change,
    make_edit,
    make_fire_range,
    make_new_job,
    make_pause,
    make_spec,
    read_job,
)

TENANT = "default"


def _edit(job: Job, **overrides: object) -> JobEdit:
    return make_edit(job, replace(job.spec, queue="edited"), **overrides)


class Scene:
    """A tenant's jobs, of which `shop` owns all but one, and a change of all of them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def set(self) -> JobsChange:
        """Set the scene, and return a change that fits."""
        store = self.store
        for name in ("kept", "edited", "gone", "dropped", "stranger"):
            await add_job(store, make_spec(name=name), next_fire_at=at(60))
        await store.own_jobs(TENANT, "shop", ["kept", "edited", "gone", "dropped"], now=START)
        _, edited, gone = [job for job in await store.find_jobs(TENANT, ["kept", "edited", "gone"]) if job]
        new = [
            make_new_job(make_spec(name=name), next_fire_at=at(60)) for name in ("new", "paused", "foreign")
        ]
        gap = make_fire_range(edited, kind=FireRangeKind.GAP, from_at=at(60), to_at=None, reason="paused")
        pause = make_pause(replace(edited, id=new[1].id, revision=1, next_fire_at=at(60)))
        return JobsChange(
            tenant=TENANT,
            adds=new,
            edits=[_edit(edited)],
            pauses=[replace(pause, fire_ranges=(replace(gap, job_id=new[1].id),))],
            deletes=[make_change(gone)],
            owners=[
                OwnedNames("mail", ("foreign",)),
                OwnedNames("shop", ("kept", "edited", "new", "paused")),
            ],
        )

    async def see(self) -> dict[str, Job]:
        """Return the jobs by name."""
        return {job.spec.name: job for job in await self.store.list_jobs(TENANT, limit=100)}


class Applying:
    """All parts of a change are carried out, or none."""

    __test__ = False

    async def test_all_parts_are_carried_out(self, store: Store) -> None:
        scene = Scene(store)
        change = await scene.set()
        owned = await store.apply_jobs(change, now=at(1))
        assert owned is not None
        mail, shop = owned
        jobs = await scene.see()
        assert (mail.defined, mail.undefined) == ((jobs["foreign"].id,), ())
        assert shop.defined == tuple(sorted([jobs["new"].id, jobs["paused"].id]))
        assert shop.undefined == (jobs["dropped"].id,)
        assert (shop.taken, shop.missing) == ((), ())
        told = {name: (job.owner, job.version, job.is_paused) for name, job in jobs.items()}
        assert told == {
            "kept": ("shop", 1, False),
            "edited": ("shop", 2, False),
            "dropped": ("shop", 1, False),
            "stranger": (None, 1, False),
            "new": ("shop", 1, False),
            "paused": ("shop", 1, True),
            "foreign": ("mail", 1, False),
        }
        assert jobs["dropped"].undefined_since == at(1)
        assert (jobs["new"].next_fire_at, jobs["paused"].next_fire_at) == (at(60), None)
        [gap] = await store.list_fire_ranges(jobs["paused"].id)
        assert (gap.reason, gap.from_at) == ("paused", at(60))

    @pytest.mark.parametrize(
        "part", ["name", "add_calendar", "limit", "edit", "edit_gone", "pause", "delete", "owned", "calendar"]
    )
    async def test_one_part_that_does_not_fit_leaves_all_as_it_was(self, store: Store, part: str) -> None:
        scene = Scene(store)
        change = await scene.set()
        if part == "name":
            bad = make_new_job(make_spec(name="stranger"))
            change = replace(change, adds=[*change.adds, bad])
        elif part == "add_calendar":
            late = replace(make_new_job(make_spec()), calendars=CalendarUses(99, ()))
            change = replace(change, adds=[*change.adds, late])
        elif part == "limit":
            uses = make_new_job(make_spec(concurrency=(JobLimit(use="unset"),)))
            change = replace(change, adds=[*change.adds, uses])
        elif part == "edit":
            job = (await scene.see())["edited"]
            await store.edit_jobs([_edit(job)], now=at(1))
        elif part == "edit_gone":
            job = (await scene.see())["edited"]
            await store.delete_jobs([make_change(job)], now=at(1))
        elif part == "pause":
            job = (await scene.see())["stranger"]
            stale = make_pause(replace(job, revision=job.revision - 1))
            change = replace(change, pauses=[*change.pauses, stale])
        elif part == "delete":
            await store.own_jobs(TENANT, "mail", ["gone"], now=at(1))
        elif part == "owned":
            more = OwnedNames("shop", (*change.owners[1].names, "never"))
            change = replace(change, owners=[change.owners[0], more])
        else:
            [edit] = change.edits
            change = replace(change, edits=[replace(edit, calendars=CalendarUses(99, ()))])
        before = await scene.see()
        ranges = await store.list_fire_ranges(before["stranger"].id)
        assert await store.apply_jobs(change, now=at(2)) is None
        assert await scene.see() == before
        assert await store.list_fire_ranges(before["stranger"].id) == ranges
        kept = await store.read_versions([(job.id, job.version + 1) for job in before.values()])
        assert kept == [None] * len(before)
        assert await store.get_jobs([job.id for job in change.adds]) == [None] * len(change.adds)

    async def test_what_was_refused_fits_once_it_is_decided_again(self, store: Store) -> None:
        scene = Scene(store)
        change = await scene.set()
        await store.edit_jobs([_edit((await scene.see())["edited"])], now=at(1))
        assert await store.apply_jobs(change, now=at(2)) is None
        again = replace(change, edits=[_edit((await scene.see())["edited"])])
        assert await store.apply_jobs(again, now=at(3)) is not None
        assert (await scene.see())["edited"].version == 3

    async def test_a_name_of_a_deleted_job_is_not_owned(self, store: Store) -> None:
        job = await add_job(store, make_spec(name="a"))
        change = JobsChange(tenant=TENANT, deletes=[make_change(job)], owners=[OwnedNames("shop", ("a",))])
        assert await store.apply_jobs(change, now=at(1)) is None
        assert await read_job(store, job.id) == job

    async def test_nothing_to_change_changes_nothing(self, store: Store) -> None:
        assert await store.apply_jobs(JobsChange(tenant=TENANT), now=START) == []

    async def test_of_applies_at_once_all_end_and_each_is_whole(self, store: Store) -> None:
        """They cross: each owner takes what the other has, and edits what the other edits."""
        a = await add_job(store, make_spec(name="a"), next_fire_at=at(60))
        b = await add_job(store, make_spec(name="b"), next_fire_at=at(60))

        def change(owner: str, *jobs: Job) -> JobsChange:
            new = make_new_job(make_spec(name=f"of {owner}"))
            names = (*(job.spec.name for job in jobs), new.spec.name)
            return JobsChange(
                tenant=TENANT,
                adds=[new],
                edits=[make_edit(job, replace(job.spec, queue=owner)) for job in jobs],
                owners=[OwnedNames(owner, names)],
            )

        done = await asyncio.gather(
            store.apply_jobs(change("shop", a, b), now=at(1)),
            store.apply_jobs(change("mail", b, a), now=at(1)),
        )
        [winner] = [name for name, one in zip(("shop", "mail"), done, strict=True) if one is not None]
        jobs = await Scene(store).see()
        assert sorted(jobs) == ["a", "b", f"of {winner}"]
        assert {(job.owner, job.version) for job in jobs.values() if job.id in {a.id, b.id}} == {(winner, 2)}
        assert {jobs["a"].spec.queue, jobs["b"].spec.queue} == {winner}

    async def test_pages_of_an_owners_jobs_hold_defined_and_undefined_ones(self, store: Store) -> None:
        scene = Scene(store)
        await scene.set()
        await store.own_jobs(TENANT, "shop", ["kept", "edited"], now=at(1))
        jobs = await scene.see()
        ids = sorted(jobs[name].id for name in ("kept", "edited", "gone", "dropped"))
        page = await store.list_owned(TENANT, "shop", limit=3)
        rest = await store.list_owned(TENANT, "shop", after=page[-1].id, limit=3)
        assert [job.id for job in [*page, *rest]] == ids
        assert await store.list_owned(TENANT, "mail") == []
        assert await store.list_owned("another", "shop") == []
