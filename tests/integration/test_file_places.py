"""Large files get to a folder and to a real S3 server, whole or not at all, and are read, signed and deleted there."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.errors import InvalidInput
from mainspring.objects import ObjectMissing, ObjectStreams, ObjectsUnavailable, open_streams, read_place
from tests.support.buckets import bucket_server

BLOCK = bytes(range(256)) * 4096
PARTS = 20
"""Blocks of a file that takes several parts of a bucket."""
ATTACHED = "attachment; filename=\"a.bin\"; filename*=UTF-8''a.bin"
MINUTE = timedelta(minutes=1)
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with bucket_server("files", log=tmp_path_factory.mktemp("moto") / "log") as variables:
        yield variables


@pytest.fixture
def bucket(
    server: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> ObjectStreams:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    prefix = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return open_at(f"s3://files/{prefix}")


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStreams:
    if request.param == "folder":
        return open_at(str(tmp_path))
    found: ObjectStreams = request.getfixturevalue("bucket")
    return found


def open_at(url: str) -> ObjectStreams:
    return open_streams(
        read_place(url, "artifacts.url", in_clouds=True), feature="artifacts.url", extra="objects"
    )


async def blocks(count: int = PARTS, *, fails: bool = False) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield BLOCK
    if fails:
        raise InvalidInput("body", "is not what was announced")


async def write(
    place: ObjectStreams, name: str = "a/b.bin", count: int = PARTS, *, fails: bool = False
) -> None:
    content = blocks(count, fails=fails)
    await place.write(name, content, content_type="application/octet-stream", disposition=ATTACHED)


async def read(place: ObjectStreams, name: str, start: int, stop: int) -> bytes:
    return b"".join([piece async for piece in place.read(name, start, stop)])


async def test_a_file_of_many_parts_is_written_read_measured_and_deleted(place: ObjectStreams) -> None:
    await write(place)
    size = len(BLOCK) * PARTS
    assert (await place.measure("a/b.bin")).size == size
    digest = hashlib.sha256()
    async for piece in place.read("a/b.bin", 0, size):
        digest.update(piece)
    assert digest.digest() == hashlib.sha256(BLOCK * PARTS).digest()
    assert await read(place, "a/b.bin", len(BLOCK) - 2, len(BLOCK) + 3) == BLOCK[-2:] + BLOCK[:3]
    assert await read(place, "a/b.bin", 5, 5) == b""
    await place.delete("a/b.bin")
    await place.delete("a/b.bin")
    with pytest.raises(ObjectMissing):
        await place.measure("a/b.bin")


async def test_an_empty_file_is_one(place: ObjectStreams) -> None:
    await write(place, count=0)
    assert (await place.measure("a/b.bin")).size == 0


@pytest.mark.parametrize("count", [1, PARTS])
async def test_content_that_fails_leaves_nothing(place: ObjectStreams, count: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not what was announced"):
        await write(place, count=count, fails=True)
    with pytest.raises(ObjectMissing):
        await place.measure("a/b.bin")
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []  # noqa: ASYNC240 -- a test's own folder


async def test_content_that_fails_leaves_the_file_of_before(place: ObjectStreams) -> None:
    await write(place, count=1)
    with pytest.raises(InvalidInput):
        await write(place, count=PARTS, fails=True)
    assert (await place.measure("a/b.bin")).size == len(BLOCK)


async def test_a_folder_has_no_address_for_others(tmp_path: Path) -> None:
    folder = open_at(str(tmp_path))
    assert await folder.sign_get("a", MINUTE) is None
    assert await folder.sign_put("a", MINUTE, content_type="text/plain", disposition=ATTACHED) is None


async def test_a_folder_removes_what_a_killed_process_has_left(tmp_path: Path) -> None:
    folder = open_at(str(tmp_path))
    await write(folder, count=1)
    left = tmp_path / "a" / ".b.bin.x1.part"
    left.write_bytes(b"half")
    other = tmp_path / "a" / "c.bin"
    other.write_bytes(b"whole")
    await folder.delete("a/b.bin")
    assert not left.exists()
    assert other.exists()
    await folder.delete("a/c.bin")
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 -- a test's own folder


async def test_a_folder_that_is_not_mounted_is_no_empty_one(tmp_path: Path) -> None:
    folder = open_at(str(tmp_path / "missing"))
    with pytest.raises(ObjectsUnavailable, match="there is no folder"):
        await write(folder, count=1)
    with pytest.raises(ObjectsUnavailable):
        await folder.delete("a/b.bin")


def put(url: str, data: bytes, headers: dict[str, str]) -> int:
    request = urllib.request.Request(url, data=data, headers=headers, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


def get(url: str) -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read(), {name.lower(): value for name, value in answer.headers.items()}


async def test_a_bucket_lets_who_has_an_address_put_and_get_one_file(bucket: ObjectStreams) -> None:
    signed = await bucket.sign_put("a/b.bin", MINUTE, content_type="text/csv", disposition=ATTACHED)
    assert signed is not None
    good = b64encode(hashlib.md5(BLOCK, usedforsecurity=False).digest()).decode()
    headers = {**signed.headers, "Content-MD5": good}
    assert await asyncio.to_thread(put, signed.url, BLOCK, headers) == 200
    facts = await bucket.measure("a/b.bin")
    assert (facts.size, facts.disposition) == (len(BLOCK), ATTACHED)
    url = await bucket.sign_get("a/b.bin", MINUTE)
    assert url is not None
    data, headers = await asyncio.to_thread(get, url)
    assert data == BLOCK
    assert (headers["content-disposition"], headers["content-type"]) == (ATTACHED, "text/csv")


async def test_a_bucket_that_is_not_there_is_told_without_keys(
    server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    missing = open_at("s3://no-such-bucket/x")
    with pytest.raises(ObjectsUnavailable, match="s3://no-such-bucket"):
        await write(missing, count=1)


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("gs://files/of-runs", {"GOOGLE_SKIP_SIGNATURE": "true"}),
        ("az://files/of-runs", {"AZURE_STORAGE_ACCOUNT_NAME": "us", "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}),
    ],
)
def test_other_clouds_are_opened_by_their_variables(
    url: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    open_at(url)


async def test_azure_gets_its_own_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "us")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    signed = await open_at("az://files").sign_put("a", MINUTE, content_type="text/csv", disposition=ATTACHED)
    assert signed is not None
    assert signed.headers == {
        "Content-Type": "text/csv",
        "x-ms-blob-type": "BlockBlob",
        "x-ms-blob-content-disposition": ATTACHED,
    }
    assert signed.url.startswith("https://us.blob.core.windows.net/files/a?")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://x", "is no place for files of runs; give a folder"),
        ("gs://", "must name a bucket, like gs://my-bucket/mainspring"),
        ("az://files?x=1", "variables like AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3://files/../x", "has a part of its prefix that is empty, or dots"),
        ("file:/x", "a folder begins with /"),
    ],
)
def test_odd_addresses_are_refused(url: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_place(url, "artifacts.url", what="files of runs", in_clouds=True)
    assert words in str(caught.value)


def test_an_archive_is_in_no_other_cloud() -> None:
    with pytest.raises(InvalidInput, match="no place for an archive"):
        read_place("gs://files", "archive.url")
