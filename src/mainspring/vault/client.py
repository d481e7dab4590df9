"""The little of Vault's HTTP API that reading secrets takes: mounts, KV, logins and tokens.

It is over the client that connects only where it may. So a token goes to the address of the settings and nowhere else:
not to a proxy, and not where a redirect leads.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from mainspring.core.allow_list import AllowEntry
from mainspring.core.values import value
from mainspring.core.vault import Mount, VaultFailed, VaultRules
from mainspring.egress import Blocked, EgressPolicy, parse_url
from mainspring.egress.client import GuardedClient, NoAnswer, read_start
from mainspring.errors import InvalidInput

_MOST_BYTES = 1024 * 1024
_ANSWERS = frozenset({200, 204, 400, 403, 404})


@value()
class VaultAnswer:
    """What Vault says.

    Attributes:
        status: 200, 204, 400, 403 or 404.
        said: its JSON object; empty if there is none.
    """

    status: int
    said: Mapping[str, Any]

    def part(self, *names: str) -> Mapping[str, Any]:
        """Return an object within the answer; empty if there is none."""
        found: Any = self.said
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def __repr__(self) -> str:
        return f"VaultAnswer({self.status})"


class VaultClient:
    """Asks one Vault.

    Raises:
        InvalidInput: the address or a certificate of the settings is wrong.
    """

    def __init__(self, rules: VaultRules) -> None:
        home = parse_url(rules.address, "vault.address")
        # The operator has named it, so it may be an internal one.
        policy = EgressPolicy(allow=(AllowEntry(None, home.host, home.port),))
        self._limit = timedelta(seconds=rules.timeout)
        tls = _read_tls(rules) if home.scheme == "https" else None
        self._client = GuardedClient(policy, connect_timeout=self._limit, tls=tls)
        self._home = home
        self._address = rules.address
        self._headers = {"X-Vault-Request": "true", "Accept": "application/json"}
        if rules.namespace is not None:
            self._headers["X-Vault-Namespace"] = rules.namespace

    async def start(self) -> None:
        """Make ready for requests, on this event loop."""
        await self._client.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._client.stop()

    async def ask(
        self, method: str, path: str, *, token: str | None = None, body: Mapping[str, str] | None = None
    ) -> VaultAnswer:
        """Make a request.

        Args:
            path: after `/v1/`, not encoded.

        Raises:
            VaultFailed: there is no answer, or one that says nothing about the request; always `away`.
        """
        headers = dict(self._headers) if token is None else {**self._headers, "X-Vault-Token": token}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        url = f"{self._address}/v1/{quote(path, safe='/')}"
        try:
            async with self._client.request(
                method, url, self._home, body=data, headers=headers, limit=self._limit
            ) as response:
                text, is_cut = await read_start(response, _MOST_BYTES)
                status = response.status
        except TimeoutError:
            problem = f"Vault gave no answer within {self._limit.total_seconds():g} s"
            raise VaultFailed("away", problem) from None
        except (Blocked, NoAnswer) as error:
            raise VaultFailed("away", f"Vault cannot be asked: {error}") from None
        if is_cut or status not in _ANSWERS:
            raise VaultFailed("away", _explain(status, is_cut=is_cut))
        return VaultAnswer(status, _read_object(text, status))

    async def find_mount(self, path: str, token: str) -> Mount:
        """Return the KV engine in which a path lies, as `vault kv` finds it.

        Raises:
            VaultFailed: there is none that this token may see, or no answer.
        """
        answer = await self.ask("GET", f"sys/internal/ui/mounts/{path}", token=token)
        if answer.status == 404:  # servers that are too old to tell have version 1 only
            return Mount(f"{path.partition('/')[0]}/", 1)
        if answer.status != 200:
            raise VaultFailed(
                "denied",
                f"Vault refuses {path} (status {answer.status}): there is no such mount, or no policy of the token"
                " has this path",
            )
        data = answer.part("data")
        mount, kind = data.get("path"), data.get("type")
        if kind not in ("kv", "generic") or not isinstance(mount, str) or not f"{path}/".startswith(mount):
            raise VaultFailed("missing", f"{path} is in a secrets engine that is not KV")
        version = answer.part("data", "options").get("version")
        return Mount(mount, 2 if str(version) == "2" else 1)

    async def read(self, mount: Mount, path: str, token: str) -> Mapping[str, Any]:
        """Return the newest version of what lies at a path.

        Raises:
            VaultFailed: there is nothing, or the token may not read it, or no answer, or the engine has no time.
        """
        answer = await self.ask("GET", mount.place(path), token=token)
        if answer.status == 403:
            raise VaultFailed(
                "denied", f"Vault refuses {path} (status 403): no policy of the token lets it read this path"
            )
        if answer.status == 400:  # a value that was read before is still there
            raise VaultFailed(
                "away",
                f"Vault does not read {path} for now (status 400): its engine may be on its way to version 2",
            )
        found = answer.part("data", "data") if mount.version == 2 else answer.part("data")
        if answer.status != 200 or not found:
            hint = "; leave out data/" if path.startswith(f"{mount.path}data/") else ""
            raise VaultFailed("missing", f"there is nothing at {path}, or it was deleted{hint}")
        return found


def _read_tls(rules: VaultRules) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=rules.ca, capath=rules.ca_folder)
    except (OSError, ValueError) as error:
        message = f"{rules.ca or rules.ca_folder} has no certificates that can be read ({_why(error)})"
        raise InvalidInput("vault.ca", message) from None
    if rules.client_cert is not None:
        try:
            context.load_cert_chain(rules.client_cert, rules.client_key, password=_refuse_password)
        except (OSError, ValueError) as error:
            message = f"{rules.client_cert} and its key cannot be used ({_why(error)})"
            raise InvalidInput("vault.client_cert", message) from None
    return context


def _refuse_password() -> str:
    raise ValueError("the key has a password; write it without one")


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


def _explain(status: int, *, is_cut: bool) -> str:
    if is_cut:
        return f"Vault's answer has more than {_MOST_BYTES} bytes"
    known = {
        429: "too many requests, or a standby that answers nothing",
        501: "it is not initialised",
        503: "it is sealed, or in maintenance",
    }
    if 300 <= status < 400:
        known[status] = "it leads elsewhere; let vault.address name the active server"
    return f"Vault answers with status {status}" + (f": {known[status]}" if status in known else "")


def _read_object(text: bytes, status: int) -> Mapping[str, Any]:
    """Return the JSON object of an answer. Vault sends one with every status but 204."""
    if status == 204:
        return {}
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise VaultFailed("away", f"what answers is not Vault: status {status} without a JSON object")
    return said
