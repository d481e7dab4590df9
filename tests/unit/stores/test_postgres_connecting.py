"""What the driver raises before anything is sent is told as a wrong address, and never quoted."""

import ssl

import asyncpg
import pytest

from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.stores.postgres.connecting import ConnectionOptions, Dialer
from mainspring.stores.postgres.refusals import explain_connect


async def dial(dsn: str) -> Exception:
    """Return what dialling raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - what it is, is what is tested
        await Dialer(ConnectionOptions(dsn)).dial(settings={}, command_timeout=1)
    return raised.value


@pytest.mark.parametrize("dsn", ["postgresql://h:secret/db", f"postgresql://{'secret' * 20}/db"])
async def test_what_the_driver_cannot_read_is_a_wrong_address_that_is_not_quoted(dsn: str) -> None:
    told = explain_connect(await dial(dsn), ConnectionOptions(dsn))
    assert isinstance(told, InvalidInput)
    assert told.field == "store"
    assert "secret" not in str(told)


async def test_certificate_that_does_not_verify_is_not_a_wrong_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(*_: object, **__: object) -> None:
        raise ssl.SSLCertVerificationError(1, "certificate verify failed")

    monkeypatch.setattr(asyncpg, "connect", connect)
    told = explain_connect(await dial("postgresql://h/db"), ConnectionOptions("postgresql://h/db"))
    assert isinstance(told, StoreUnavailable)
    assert "certificate verify failed" in str(told)
