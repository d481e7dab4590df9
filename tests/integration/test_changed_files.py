"""A worker may use the address of its file again for some minutes: whoever fetches the file then is not misled."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from io import BytesIO

import httpx
import pytest

from mainspring.core.ids import format_run_id
from mainspring.errors import MainspringError
from mainspring.objects import open_streams, read_place
from mainspring.registry import FunctionRegistry
from mainspring.sdk.client import AsyncClient
from mainspring.testing.manual import ManualRuntime
from mainspring.wire.protocol import show_session
from tests.support.buckets import bucket_server
from tests.unit.api.serving import make_api, serving

DATA = bytes(range(256)) * 64
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with bucket_server("files", log=tmp_path_factory.mktemp("moto") / "log") as variables:
        yield variables


class Kept:
    """A file in a bucket, and the address that its worker was given."""

    def __init__(self, client: AsyncClient, artifact_id: str, place: dict[str, object]) -> None:
        self.client = client
        self.artifact_id = artifact_id
        self._place = place

    def put(self, data: bytes) -> None:
        headers = self._place["headers"]
        assert isinstance(headers, dict)
        request = urllib.request.Request(str(self._place["url"]), data=data, method="PUT", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200


@pytest.fixture
async def kept(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    registry = FunctionRegistry()
    registry.add("work", lambda: None)
    place = read_place("s3://files/changed", "artifacts.url", in_clouds=True)
    files = open_streams(place, feature="artifacts.url", extra="objects")
    async with (
        ManualRuntime(registry, files=files) as runtime,
        serving(make_api(runtime)) as url,
        AsyncClient(url) as client,
        httpx.AsyncClient(base_url=url) as http,
    ):
        job = await client.create_job({"name": "report", "function": "work"})
        await client.submit_run(job.job_id)
        worker = await runtime.worker()
        [lease] = await worker.claim()
        session = show_session(worker.session_id)
        offer = {
            "session_id": session,
            "run_id": format_run_id(lease.run_id),
            "token": lease.token,
            "name": "report.bin",
            "content_type": "application/octet-stream",
            "size": len(DATA),
            "sha256": sha256(DATA).hexdigest(),
        }
        asked = await http.post("/api/v1/worker/artifacts", json=offer)
        assert asked.status_code == 201, asked.text
        found = Kept(client, asked.json()["artifact_id"], asked.json())
        found.put(DATA)
        confirmation = {"session_id": session, "artifact_id": found.artifact_id}
        done = await http.post("/api/v1/worker/artifacts/confirm", json=confirmation)
        assert done.status_code == 200, done.text
        yield found


async def test_what_was_put_is_fetched(kept: Kept) -> None:
    assert await kept.client.read_artifact(kept.artifact_id) == DATA


async def test_other_bytes_in_its_place_are_found_out(kept: Kept) -> None:
    kept.put(DATA[::-1])
    with pytest.raises(MainspringError, match="it was changed since, or cut off"):
        await kept.client.read_artifact(kept.artifact_id)


@pytest.mark.parametrize(
    ("digest", "size"), [(None, None), (None, len(DATA)), (sha256(DATA).hexdigest(), len(DATA))]
)
async def test_no_more_is_taken_than_was_put(kept: Kept, digest: str | None, size: int | None) -> None:
    """A result is held in memory: what stands in its place may be a thousand times as large."""
    kept.put(DATA * 1000)
    file = BytesIO()
    with pytest.raises(MainspringError, match="more has come than the 16,384 bytes that were put"):
        await kept.client.fetch_artifact(kept.artifact_id, file, sha256=digest, size=size)
    assert len(file.getvalue()) <= len(DATA)


async def test_fewer_bytes_in_its_place_are_found_out(kept: Kept) -> None:
    kept.put(DATA[:100])
    with pytest.raises(MainspringError, match="it was changed since, or cut off"):
        await kept.client.read_artifact(kept.artifact_id)
