"""From the options of `up` and `server` to the settings of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mainspring.cli.options import seconds
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.config.settings import Settings, StoreLocation


def read_location(data: str | None, store: str | None, listen: str | None = None) -> StoreLocation:
    """Return the store that --data or --store (with --listen-store) names; by default SQLite in the usual folder.

    Raises:
        InvalidInput: both are given, or it cannot be read.
    """
    from mainspring.config.settings import DEFAULT_DATA, StoreLocation

    if data is not None and store is not None:
        raise InvalidInput("store", "says the same as --data; give one of them")
    if store is not None:
        return StoreLocation.parse(store, listen=listen)
    if listen is not None:
        raise InvalidInput("listen_store", "goes with --store postgresql://…")
    return StoreLocation("sqlite", data if data is not None else str(DEFAULT_DATA))


def read_settings(data: str | None, store: str | None, given: Mapping[str, Any], **others: Any) -> Settings:
    """Return what the options that `up` and `server` share ask for.

    Args:
        given: the values of those options, by name.
        others: further fields, of the one command alone.

    Raises:
        InvalidInput: an option cannot be read, or contradicts another one.
    """
    from mainspring.config.settings import Settings

    return Settings(
        store=read_location(data, store, given["listen_store"]),
        host=given["host"],
        port=given["port"],
        trusted_network=given["trusted_network"],
        allow_hosts=given["allow_hosts"],
        allow_shell=given["allow_shell"],
        callback_allow=given["callback_allow"],
        beat_period=seconds(given["beat_period"], "beat_period"),
        node_period=seconds(given["node_period"], "node_period"),
        clock_limit=seconds(given["clock_limit"], "clock_limit"),
        drain=seconds(given["drain"], "drain"),
        **others,
    )
