"""MAILTO of a crontab: the channel that it becomes is made once, and jobs tell nobody if the server sends no mail."""

from __future__ import annotations

import pytest

from mainspring.cli.imports import make_channels
from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.notifications import Message
from mainspring.errors import InvalidInput
from mainspring.importers.crontab import read_crontab
from mainspring.registry import FunctionRegistry
from mainspring.testing.in_process import InProcessClient
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of

CRONTAB = "MAILTO=ops@example.com\n0 0 * * * a\n0 1 * * * b\nMAILTO=\n0 2 * * * c"


class MailServer:
    """A sender that sends mail, or not."""

    def __init__(self, *, sends: bool) -> None:
        self.sends = sends

    async def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""

    async def send(self, config: ChannelConfig, message: Message) -> None:
        """Lose the message."""

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        if not self.sends:
            raise InvalidInput(path, "this server sends no mail")


@pytest.mark.parametrize("sends", [True, False])
async def test_channels_of_mail_are_made_with_the_jobs(
    sends: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_crontab(CRONTAB, system=False, seconds=False)
    async with ManualRuntime(FunctionRegistry(), sender=MailServer(sends=sends)) as runtime:
        client = InProcessClient(api_of(runtime), tenant="shop", on_change=lambda: None)
        await make_channels(client, found)
        ready = await make_channels(client, found)  # the second import finds what the first has made
        channels = (await client.list_channels()).items
    told = [entry.body.get("notify") for entry in ready.entries]
    if sends:
        assert [(one.name, one.config) for one in channels] == [
            ("mail-ops-example.com", {"to": ["ops@example.com"]})
        ]
        assert told == [{"to": ["mail-ops-example.com"]}] * 2 + [None]
    else:
        assert (channels, told) == ([], [None] * 3)
        assert "nobody is told by mail-ops-example.com: config: this server sends no mail" in (
            capsys.readouterr().err
        )
