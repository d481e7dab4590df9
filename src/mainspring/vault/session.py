"""The token of a process: it logs in for it, renews it before it ends, and gives it back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from mainspring.core.vault import AppRoleLogin, KubernetesLogin, Login, TokenLease, TokenLogin, VaultFailed
from mainspring.vault.client import VaultAnswer, VaultClient

_log = structlog.get_logger(__name__)
_LARGEST = 64 * 1024
_LONGEST_LEASE = 1e10
"""Seconds of a token's time that can be meant: some 300 years."""
_LOOK = "auth/token/lookup-self"


class VaultSession:
    """Has the token for the requests of one process.

    Args:
        monotonic: the local monotonic clock, in seconds.
        is_quiet: write nothing into the log.
    """

    def __init__(
        self, client: VaultClient, login: Login, *, monotonic: Callable[[], float], is_quiet: bool = False
    ) -> None:
        self._client = client
        self._login = login
        self._monotonic = monotonic
        self._is_quiet = is_quiet
        self._lease: TokenLease | None = None

    async def get_token(self) -> str:
        """Return a token that Vault takes, as far as is known here.

        Raises:
            VaultFailed: there is none.
        """
        lease, now = self._lease, self._monotonic()
        if lease is not None and isinstance(self._login, TokenLogin) and lease.token != self._read_own():
            lease = None  # whoever keeps the file has put another token there
        if lease is not None and lease.is_due(now):
            lease = await self._replace(lease)
        if lease is None:
            lease = await self._log_in()
        self._lease = lease
        return lease.token

    def due_in(self) -> float | None:
        """Return the seconds until the token should be renewed or replaced; None if that is not known, or never."""
        lease = self._lease
        if lease is None or lease.is_last or (isinstance(self._login, TokenLogin) and not lease.is_renewable):
            return None
        return lease.due_in(self._monotonic())

    async def replace_refused(self) -> bool:
        """After a refusal, log in again if the token may be the reason. Return whether there is another to try with.

        Raises:
            VaultFailed: the token is the reason, and there is no other.
        """
        if self._lease is None:
            return False
        if (await self._client.ask("GET", _LOOK, token=self._lease.token)).status == 200:
            return False
        self._lease = None
        await self.get_token()
        return True

    async def close(self) -> None:
        """Give back the token, if this process has logged in for it.

        Raises:
            VaultFailed: there was no answer. The token ends by itself.
        """
        lease, self._lease = self._lease, None
        if lease is not None and lease.is_own:
            await self._client.ask("POST", "auth/token/revoke-self", token=lease.token)

    async def _replace(self, lease: TokenLease) -> TokenLease:
        """Return a lease with more time. If there is none to be had, the old one is used to its end.

        Raises:
            VaultFailed: there is none, and the old one is over.
        """
        try:
            try:
                renewed = await self._renew(lease)
            except (
                VaultFailed
            ):  # Vault says so, too, when the role is gone, and in a token's very last moment
                if isinstance(self._login, TokenLogin):
                    raise
                renewed = None
            return await self._log_in() if renewed is None else renewed
        except VaultFailed as failure:
            if lease.is_over(self._monotonic()):
                raise
            if not (lease.is_last or self._is_quiet):
                _log.warning(
                    "vault_token_not_replaced", problem=failure.problem, meaning="it is used to its end"
                )
            return replace(lease, is_last=True)

    async def _renew(self, lease: TokenLease) -> TokenLease | None:
        """Return the token's lease with more time; None if it cannot have enough."""
        now = self._monotonic()
        if lease.is_renewable and not lease.is_over(now):
            answer = await self._client.ask("POST", "auth/token/renew-self", token=lease.token, body={})
            renewed = _lease_of(answer, since=now, token=lease.token, is_own=lease.is_own)
            left = lease.since + (lease.lasts or 0.0) - now
            # At its very last, a renewal gives no more time than there was.
            if (
                answer.status == 200
                and renewed is not None
                and (renewed.lasts is None or renewed.lasts > left + 1.0)
            ):
                return renewed
        if isinstance(self._login, TokenLogin) and not lease.is_over(now):
            return replace(lease, is_renewable=False)  # there is no other, so it is used to its end
        return None

    async def _log_in(self) -> TokenLease:
        now = self._monotonic()
        if isinstance(self._login, TokenLogin):
            return await self._look_up(self._read_own(), now)
        mount, body = _ask_for(self._login)
        answer = await self._client.ask("POST", f"auth/{mount}/login", body=body)
        lease = _lease_of(answer, since=now, token=None, is_own=True) if answer.status == 200 else None
        if lease is None:
            raise VaultFailed("login", f"the login at auth/{mount} is refused (status {answer.status})")
        if not self._is_quiet:
            _log.info("vault_logged_in", mount=mount, lasts=lease.lasts, renewable=lease.is_renewable)
        return lease

    async def _look_up(self, token: str, now: float) -> TokenLease:
        answer = await self._client.ask("GET", _LOOK, token=token)
        if answer.status != 200:
            raise VaultFailed(
                "login",
                f"Vault does not take the token (status {answer.status}): it has ended or was revoked, or has not the"
                f" policy default, which lets it read {_LOOK}",
            )
        said = answer.part("data")
        return TokenLease(
            token=token,
            since=now,
            lasts=_read_seconds(said.get("ttl")) or None,
            is_renewable=said.get("renewable") is True,
            is_own=False,
        )

    def _read_own(self) -> str:
        assert isinstance(self._login, TokenLogin)
        if self._login.file is not None:
            return _read_file(self._login.file, "vault.token_file")
        return check_token(self._login.token or "", "VAULT_TOKEN")


def check_token(text: str, source: str) -> str:
    """Return a text that can be sent in a header.

    Raises:
        VaultFailed: it is empty, or has characters that no token has.
    """
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise VaultFailed("login", f"{source} holds nothing that can be sent: it is empty, or not one word")
    return text


def _ask_for(login: AppRoleLogin | KubernetesLogin) -> tuple[str, Mapping[str, str]]:
    """Return the mount of a login and its body."""
    if isinstance(login, KubernetesLogin):
        token = _read_file(login.token_file, "vault.kubernetes_token_file")
        return login.mount, {"role": login.role, "jwt": token}
    if login.secret_id_file is None:
        return login.mount, {"role_id": login.role_id}
    secret_id = _read_file(login.secret_id_file, "vault.secret_id_file")
    return login.mount, {"role_id": login.role_id, "secret_id": secret_id}


def _lease_of(answer: VaultAnswer, *, since: float, token: str | None, is_own: bool) -> TokenLease | None:
    """Return what an answer gives; None if it gives no token. A time of 0 is one without an end."""
    auth = answer.part("auth")
    given, lasts = auth.get("client_token", token), _read_seconds(auth.get("lease_duration"))
    if not isinstance(given, str) or not given or lasts is None:
        return None
    return TokenLease(
        token=token or check_token(given, "what Vault gives as a token"),
        since=since,
        lasts=lasts or None,
        is_renewable=auth.get("renewable") is True,
        is_own=is_own,
    )


def _read_seconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _LONGEST_LEASE else None


def _read_file(path: str, setting: str) -> str:
    """Return the word in a file.

    Raises:
        VaultFailed: it cannot be read, or holds none.
    """
    try:
        # Without waiting for the other end if it is a pipe.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(None, "it is not a regular file")
            data = file.read(_LARGEST)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is wrong"
        raise VaultFailed("login", f"{setting}: {path} cannot be read ({why})") from None
    return check_token(data.decode(errors="replace").strip(), f"{setting}: {path}")
