"""Derives from the sources what each kind of process needs: its store, its server, and its own `Settings`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol

from mainspring.config.dsn import hide_password
from mainspring.config.setting import SERVER, WORKER, Setting
from mainspring.config.settings import Settings, StoreLocation
from mainspring.config.sources import Choices, ChosenValue, Level
from mainspring.config.table import SETTINGS
from mainspring.errors import InvalidInput

_SHARED = ("postgresql://", "postgres://")
_ADDRESS = ("host", "port", "trusted_network", "allow_host", "tls.cert", "behind_proxy")


class AddedStores(Protocol):
    """The stores that packages add."""

    @property
    def schemes(self) -> Collection[str]:
        """The schemes of their URLs."""
        ...

    def is_shared(self, scheme: str, url: str) -> bool:
        """Say whether several processes may have a store at once.

        Raises:
            PluginError: the package's store cannot be loaded.
        """
        ...


def settings_of(process: str, choices: Choices, *, stores: AddedStores | None = None) -> Settings:
    """Return the settings of a process. Settings that it does not use keep their default, whatever the sources say.

    Args:
        process: `up`, `server` or `worker`.
        stores: those that packages add; one is asked only by a server that leaves the API or the scheduler out.

    Raises:
        InvalidInput: a source is wrong, or what they give together is.
        PluginError: a package's store cannot be loaded.
    """
    choices.require()
    chosen: dict[str, Any] = {
        setting.field: choices[setting.name].value
        for setting in SETTINGS.values()
        if setting.field is not None and process in setting.used_by
    }
    try:
        if process == WORKER:
            if not chosen["slots"]:
                raise InvalidInput("worker.slots", "a worker needs at least one")
            location = read_direct_store(choices)
            return Settings(**chosen) if location is None else Settings(**chosen, store=location)
        if process == SERVER:
            chosen["slots"] = 0
            _refuse_address(choices)
        location = read_location(choices, schemes=stores.schemes if stores is not None else ())
        is_split = process == SERVER and not (chosen["has_api"] and chosen["has_scheduler"])
        if is_split and stores is not None and location.scheme in stores.schemes:
            location = replace(location, is_shared=stores.is_shared(location.scheme, location.target))
        return Settings(**chosen, store=location)
    except InvalidInput as error:
        raise choices.tell(error) from None


def store_option(choices: Choices) -> str:
    """Return the name by which errors refer to the setting that gave the store."""
    name = "store" if choices["store"].level > choices["data"].level else "data"
    return choices.tell(InvalidInput(name, "")).field


def read_location(choices: Choices, *, schemes: Collection[str] = ()) -> StoreLocation:
    """Return the store that `store` (with `listen_store`) or `data` names, whichever was given later.

    Args:
        schemes: the schemes of stores that packages add.

    Raises:
        InvalidInput: one source gave both, or the value cannot be read.
    """
    store, data, listen = (choices[name] for name in ("store", "data", "listen_store"))
    if data.level is not Level.DEFAULT and store.level is data.level:
        raise InvalidInput("store", f"says the same as {_written('data', data)}; give one of them")
    if store.level > data.level:
        return StoreLocation.parse(store.value, listen=listen.value, others=schemes)
    if listen.value is not None and listen.level >= data.level:
        raise InvalidInput("listen_store", "goes with --store postgresql://…")
    return StoreLocation("sqlite", data.value)


def read_direct_store(choices: Choices) -> StoreLocation | None:
    """Return the store that a worker uses directly; None if it works through a server.

    An option wins over a variable, and a variable over the file. If variables give both, the store wins. If the file
    gives both, the server wins, and a store that cannot be shared is ignored: such a file is for all processes of a
    site.

    Raises:
        InvalidInput: options contradict each other, or the store cannot be read or shared.
    """
    store, server, listen = (choices[name] for name in ("store", "server", "listen_store"))
    beat = choices["worker.beat_period"]
    if store.level is server.level is Level.FLAG:
        raise InvalidInput("store", "works without a server; leave out --server, or this")
    is_direct = store.level > server.level or store.level is server.level is Level.ENVIRONMENT
    if store.level is Level.FILE and not store.value.startswith(_SHARED):
        is_direct = False
    if not is_direct:
        if beat.level is Level.FLAG:
            raise InvalidInput("worker.beat_period", "is set by the server; leave it out, or give --store")
        if listen.value is not None and listen.level > max(server.level, Level.FILE):
            raise InvalidInput("listen_store", "goes with --store")
        return None
    location = StoreLocation.parse(store.value, listen=listen.value)
    if location.scheme != "postgresql":
        raise InvalidInput(
            "store", "a worker can use only PostgreSQL directly; for other stores give --server"
        )
    return location


def check(process: str, choices: Choices, *, stores: AddedStores | None = None) -> list[InvalidInput]:
    """Return what is wrong with the settings of a process, beyond the problems of the sources themselves.

    Args:
        stores: those that packages add.

    Raises:
        PluginError: as with `settings_of`.
    """
    store = choices["store"].value
    if process == WORKER and isinstance(store, str) and not store.startswith(_SHARED):
        choices = choices.with_defaults("store", "listen_store")  # that store is meant for servers
    try:
        settings_of(process, replace(choices, problems=()), stores=stores)
    except InvalidInput as error:
        return [error]
    return []


def shown(setting: Setting, choice: ChosenValue) -> object:
    """Return a value as JSON that may be shown: without passwords."""
    if choice.value is None:
        return None
    plain = setting.kind.show(choice.value)
    if not setting.is_url:
        return plain
    return [hide_password(url) for url in plain] if isinstance(plain, list) else hide_password(str(plain))


def _refuse_address(choices: Choices) -> None:
    """Refuse options for the API's address if no API is served. In a file they may be meant for other processes."""
    if choices["api.enabled"].value:
        return
    for name in _ADDRESS:
        if choices[name].level is Level.FLAG:
            message = "with --no-api nothing is served; leave it out, or leave --no-api out"
            raise InvalidInput(name, message)


def _written(name: str, choice: ChosenValue) -> str:
    if choice.level is Level.FLAG:
        return SETTINGS[name].flag or name
    return SETTINGS[name].variable if choice.level is Level.ENVIRONMENT else name
