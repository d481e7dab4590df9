"""`mainspring keys`: makes the keys that encrypt what the store holds."""

from __future__ import annotations

import click


@click.group("keys")
def keys_group() -> None:
    """Make keys that encrypt what jobs and runs carry in the store.

    They stand in the file that the setting keys_file names; `mainspring doctor` compares it with the store.
    """


@keys_group.command("new")
@click.argument("key_id", metavar="[ID]", required=False)
def new_command(key_id: str | None) -> None:
    """Make a key, and print its line for the file of keys.

    ID is a name of your choice, up to 32 letters, digits, `-` and `_`; by default the day. The first key of the file
    encrypts, and all of them decrypt. So a new key goes on top, and the old ones stay.
    """
    from mainspring.clock import host_time
    from mainspring.encryption.keys import make_key

    click.echo(make_key(f"{host_time():%Y-%m-%d}" if key_id is None else key_id))
