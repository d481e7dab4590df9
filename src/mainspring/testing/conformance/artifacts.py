"""Artifacts are added and finished under the lease of their run alone, listed by token, and expire."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import Any

from mainspring.core.artifacts import Artifact, ArtifactVerdict
from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.ports.store import Store
from mainspring.ports.store.artifacts import ArtifactAdded, NewArtifact
from mainspring.ports.store.claims import HeldRun
from mainspring.testing.conformance.completion import give_back, take_again
from mainspring.testing.factories import at, running_run

DIGEST = sha256(b"bytes").digest()
NO_SESSION = SessionId(2**40)


def make_artifact(held: HeldRun, name: str = "report.pdf", **overrides: Any) -> NewArtifact:
    """Return an artifact of a held run that is not stored yet."""
    values: dict[str, Any] = {
        "tenant": "default",
        "run_id": held.run_id,
        "token": held.token,
        "session_id": held.session_id,
        "name": name,
        "location": f"default/{held.run_id}/{held.token}/{name}",
        "content_type": "application/pdf",
        "size": 5,
        "sha256": DIGEST,
        "is_result": False,
        "created_at": at(1),
        "expires_at": at(100),
    }
    return NewArtifact(**values | overrides)


async def add(store: Store, new: NewArtifact, *, most: int = 10) -> ArtifactId:
    """Add an artifact, and return its id."""
    added = await store.add_artifact(new, most=most)
    assert added.verdict is ArtifactVerdict.ADDED
    assert added.artifact_id is not None
    return added.artifact_id


async def finish(store: Store, artifact_id: ArtifactId, session_id: SessionId, seconds: float = 2) -> bool:
    """Finish an artifact, and return whether it is ready."""
    return await store.finish_artifact(
        artifact_id, session_id=session_id, now=at(seconds), expires_at=at(1000)
    )


async def names(store: Store, run_id: RunId, token: int, **page: Any) -> list[str]:
    """Return the names of what is listed."""
    return [one.name for one in await store.list_artifacts(run_id, token, **page)]


class ArtifactsAreFenced:
    """The index of artifacts."""

    __test__ = False

    async def test_an_artifact_is_shown_once_its_bytes_are_there(self, store: Store) -> None:
        held = await running_run(store)
        artifact_id = await add(store, make_artifact(held))
        assert await names(store, held.run_id, held.token) == []
        expected = Artifact(
            id=artifact_id,
            tenant="default",
            run_id=held.run_id,
            token=held.token,
            name="report.pdf",
            location=f"default/{held.run_id}/{held.token}/report.pdf",
            content_type="application/pdf",
            size=5,
            sha256=DIGEST,
            is_ready=False,
            created_at=at(1),
            expires_at=at(100),
        )
        assert await store.get_artifact(artifact_id) == expected
        assert await finish(store, artifact_id, held.session_id) is True
        assert await names(store, held.run_id, held.token) == ["report.pdf"]
        [ready] = await store.list_artifacts(held.run_id, held.token)
        assert (ready.is_ready, ready.expires_at) == (True, at(1000))

    async def test_an_artifact_that_is_finished_twice_is_ready(self, store: Store) -> None:
        held = await running_run(store)
        artifact_id = await add(store, make_artifact(held))
        assert await finish(store, artifact_id, held.session_id) is True
        assert await finish(store, artifact_id, held.session_id, 5) is True
        assert await finish(store, ArtifactId(2**40), held.session_id) is False

    async def test_an_upload_that_is_tried_again_is_the_same_artifact(self, store: Store) -> None:
        held = await running_run(store)
        artifact_id = await add(store, make_artifact(held))
        again = await add(store, make_artifact(held, size=6, expires_at=at(200)))
        assert again == artifact_id
        found = await store.get_artifact(artifact_id)
        assert found is not None
        assert (found.size, found.expires_at) == (6, at(200))

    async def test_a_name_is_taken_once_its_artifact_is_ready(self, store: Store) -> None:
        held = await running_run(store)
        await finish(store, await add(store, make_artifact(held)), held.session_id)
        assert await store.add_artifact(make_artifact(held), most=10) == ArtifactAdded(ArtifactVerdict.TAKEN)
        assert await add(store, make_artifact(held, "other.pdf"))

    async def test_an_attempt_has_only_so_many(self, store: Store) -> None:
        held = await running_run(store)
        for name in ("a", "b"):
            await add(store, make_artifact(held, name), most=2)
        assert await store.add_artifact(make_artifact(held, "c"), most=2) == ArtifactAdded(
            ArtifactVerdict.FULL
        )
        await add(store, make_artifact(held, "b"), most=2)

    async def test_another_lease_adds_and_finishes_nothing(self, store: Store) -> None:
        held = await running_run(store)
        stale = ArtifactAdded(ArtifactVerdict.STALE)
        for wrong in ({"token": held.token + 1}, {"session_id": NO_SESSION}, {"run_id": RunId(2**40)}):
            assert await store.add_artifact(make_artifact(held, **wrong), most=10) == stale
        artifact_id = await add(store, make_artifact(held))
        assert await finish(store, artifact_id, NO_SESSION) is False

    async def test_a_lost_lease_finishes_nothing(self, store: Store) -> None:
        held = await running_run(store)
        late = await add(store, make_artifact(held))
        early = await add(store, make_artifact(held, "early.pdf"))
        assert await finish(store, early, held.session_id)
        await store.apply([give_back(held, now=3)], now=at(3))
        assert await finish(store, late, held.session_id, 4) is False
        held = await take_again(store, held.run_id, now=4)
        assert await finish(store, late, held.session_id, 5) is False
        assert await names(store, held.run_id, held.token) == []
        newest = await add(store, make_artifact(held))
        assert newest != late
        assert await finish(store, newest, held.session_id, 5) is True
        assert [one.id for one in await store.list_artifacts(held.run_id, held.token)] == [newest]

    async def test_artifacts_are_listed_by_name_in_pages(self, store: Store) -> None:
        held = await running_run(store)
        for name in ("c", "a", "b"):
            await finish(store, await add(store, make_artifact(held, name)), held.session_id)
        assert await names(store, held.run_id, held.token, limit=2) == ["a", "b"]
        assert await names(store, held.run_id, held.token, after="b") == ["c"]

    async def test_what_has_expired_is_listed_and_deleted(self, store: Store) -> None:
        held = await running_run(store)
        first = await add(store, make_artifact(held, "a", expires_at=at(50)))
        second = await add(store, make_artifact(held, "b", expires_at=at(40)))
        ready = await add(store, make_artifact(held, "c", expires_at=at(30)))
        await finish(store, ready, held.session_id)
        expired = await store.list_expired_artifacts(before=at(51), limit=10)
        assert [one.id for one in expired] == [second, first]
        assert [one.id for one in await store.list_expired_artifacts(before=at(50), limit=10)] == [second]
        assert [one.id for one in await store.list_expired_artifacts(before=at(2000), limit=1)] == [second]
        assert await finish(store, second, held.session_id, 40) is False
        assert await store.delete_artifacts([second, ArtifactId(2**40)]) == 1
        assert await store.delete_artifacts([]) == 0
        assert await store.get_artifact(second) is None
        assert await store.get_artifact(first) is not None
        third = await add(store, make_artifact(held, "b", expires_at=at(1) + timedelta(hours=1)))
        assert third != second
