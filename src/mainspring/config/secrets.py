"""Reads the secrets that the settings name, from the environment, from files, and from what is known of Vault."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from mainspring.config.secret_settings import SecretPlace
from mainspring.core.allow_list import EVERY_TENANT
from mainspring.core.vault import VaultFailed, VaultPlace, place_of
from mainspring.ports.secrets import SecretMissing

LARGEST = 64 * 1024

_log = structlog.get_logger(__name__)


class KeptSecrets(Protocol):
    """The secrets that were read from Vault."""

    def reveal(self, place: VaultPlace) -> str:
        """Return a secret. Do not wait.

        Raises:
            VaultFailed: there is none that counts.
        """
        ...


class ConfiguredSecrets:
    """The secrets of this process; see `ports.secrets.Secrets`.

    Args:
        places: the value of the setting `secrets`.
        environment: the variables; by default those of this process.
        vault: the secrets in Vault; None if this process reads none.
    """

    def __init__(
        self,
        places: Iterable[SecretPlace],
        environment: Mapping[str, str] | None = None,
        *,
        vault: KeptSecrets | None = None,
    ) -> None:
        self._places = {place.name: place for place in places}
        self._environment = os.environ if environment is None else environment
        self._vault = vault

    def check(self, name: str, tenant: str | None) -> None:
        self._find(name, tenant)

    def reveal(self, name: str, tenant: str | None) -> str:
        place = self._find(name, tenant)
        where = place.source.partition(":")[2]
        try:
            text = self._read(place)
        except VaultFailed as failure:
            problem = failure.problem
        except KeyError:
            problem = f"the variable {where} is not set"
        except UnicodeDecodeError:
            problem = f"the file {where} is not UTF-8"
        except OSError as error:
            problem = f"the file {where} cannot be read ({error.strerror})"
        else:
            secret = text.rstrip("\r\n")
            if secret:
                return secret
            problem = f"{place.source} is empty"
        _log.warning("secret_unread", secret=name, problem=problem)
        raise SecretMissing(f"the secret {name!r} cannot be read on this host; its log says why")

    def _read(self, place: SecretPlace) -> str:
        in_vault = place_of(place.source)
        if in_vault is not None:
            if self._vault is None:
                raise VaultFailed("away", "this process reads nothing from Vault")
            return self._vault.reveal(in_vault)
        scheme, _, where = place.source.partition(":")
        return self._environment[where] if scheme == "env" else _read_file(where)

    def _find(self, name: str, tenant: str | None) -> SecretPlace:
        place = self._places.get(name)
        if place is None or not (tenant is None or {tenant, EVERY_TENANT} & {*place.tenants}):
            whose = "" if tenant is None else f" for tenant {tenant!r}"
            raise SecretMissing(f"there is no secret {name!r}{whose} in the settings of this process")
        return place


def _read_file(path: str) -> str:
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "it is not a regular file")
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(None, f"it has more than {LARGEST} bytes")
    return data.decode()


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end if it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
