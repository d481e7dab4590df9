"""Certificates are read at the start and again when their files have changed; what is wrong with them is named."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mainspring.errors import InvalidInput
from mainspring.host.certificates import Certificates
from mainspring.testing.clock import ManualWaiter
from mainspring.testing.factories import at
from tests.support.certificates import Pair, make_authority, make_certificate

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Pair:
    return make_authority(folder)


@pytest.fixture
def pair(tmp_path: Path, authority: Pair) -> Pair:
    return make_certificate(tmp_path, authority)


def read(cert: Path, key: Path | None, client_ca: Path | None = None) -> Certificates:
    files = [None if file is None else str(file) for file in (key, client_ca)]
    return Certificates(str(cert), *files, waiter=ManualWaiter())


async def shown_by(certificates: Certificates, authority: Pair) -> bytes | None:
    """Return the certificate that a client of a new connection is shown."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=certificates.context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        context = ssl.create_default_context(cafile=str(authority.cert))
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        shown = found.getpeercert(binary_form=True)
        writer.close()
        return shown


def replace(pair: Pair, other: Pair) -> None:
    """Put another pair in the place of one, as something new."""
    for old, new in zip(pair, other, strict=True):
        shutil.copy(new, old)
        os.utime(old, (2e9, 2e9))


async def test_new_connections_get_the_new_certificate(tmp_path: Path, pair: Pair, authority: Pair) -> None:
    certificates = read(*pair)
    first = await shown_by(certificates, authority)
    await certificates.tick(at(0))
    assert await shown_by(certificates, authority) == first
    replace(pair, make_certificate(tmp_path, authority, "other"))
    with capture_logs() as logs:
        await certificates.tick(at(60))
    assert [entry["event"] for entry in logs] == ["certificate_renewed"]
    second = await shown_by(certificates, authority)
    assert second not in {first, None}


@pytest.mark.parametrize("half", ["cert", "key", "gone", "text"])
async def test_what_is_wrong_later_leaves_the_one_before(
    tmp_path: Path, pair: Pair, authority: Pair, half: str
) -> None:
    certificates = read(*pair)
    first = await shown_by(certificates, authority)
    other = make_certificate(tmp_path, authority, "other")
    if half == "gone":
        pair.cert.unlink()
    elif half == "text":
        pair.cert.write_text("no certificate")
        os.utime(pair.cert, (2e9, 2e9))
    else:
        old = getattr(pair, half)
        shutil.copy(getattr(other, half), old)
        os.utime(old, (2e9, 2e9))
    with capture_logs() as logs:
        await certificates.tick(at(60))
        await certificates.tick(at(120))
    assert [entry["event"] for entry in logs] == ["certificate_refused"]
    assert await shown_by(certificates, authority) == first
    if half != "gone":
        replace(pair, other)
        os.utime(pair.cert, (3e9, 3e9))
        await certificates.tick(at(180))
        assert await shown_by(certificates, authority) != first


def test_one_file_may_have_both(tmp_path: Path, pair: Pair) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    assert read(both, None).context.verify_mode is ssl.CERT_NONE


def test_files_that_do_not_fit_are_named(tmp_path: Path, pair: Pair, authority: Pair) -> None:
    other = make_certificate(tmp_path, authority, "other")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    locked = tmp_path / "locked.key"
    os.system(f"openssl ec -in {pair.key} -out {locked} -aes256 -passout pass:secret 2>/dev/null")
    for cert, key, client_ca, field, why in (
        (
            tmp_path / "none.pem",
            pair.key,
            None,
            "tls.cert",
            "none.pem cannot be read (No such file or directory)",
        ),
        (
            pair.cert,
            tmp_path / "none.key",
            None,
            "tls.key",
            "none.key cannot be read (No such file or directory)",
        ),
        (pair.cert, other.key, None, "tls.key", "is not the key of the certificate in"),
        (text, pair.key, None, "tls.key", "have not what is wanted, as PEM"),
        (pair.cert, None, None, "tls.cert", "have not what is wanted, as PEM"),
        (pair.cert, locked, None, "tls.key", "the key has a password; write it without one"),
        (*pair, tmp_path / "none.pem", "tls.client_ca", "none.pem cannot be read"),
        (*pair, text, "tls.client_ca", "have not what is wanted, as PEM"),
    ):
        with pytest.raises(InvalidInput) as refused:
            read(cert, key, client_ca)
        assert refused.value.field == field, why
        assert why in refused.value.message
