"""Secrets in HashiCorp Vault or OpenBao: where one is, how a process gets in, and how long what it read counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mainspring.core.values import value
from mainspring.errors import InvalidInput

EXAMPLE = "vault:secret/reports#token"
SCHEME = "vault"
_LONGEST_PATH = 1024
_LONGEST_FIELD = 200
_RENEW_SHARE = 2 / 3
_FIRST_PAUSE = 1.0

FailureKind = Literal["away", "login", "denied", "missing"]
"""Why a secret was not read: no answer, or one of no use; no token; no right to the path; nothing there."""

FAILURE_KINDS: tuple[FailureKind, ...] = ("away", "login", "denied", "missing")


class VaultFailed(Exception):
    """Vault gave no secret. The message is for the log, and holds nothing that Vault sent: neither secret nor token."""

    def __init__(self, kind: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.kind: FailureKind = kind
        self.problem = problem

    @property
    def is_final(self) -> bool:
        """Vault has said that there is no such secret for this process, so what it gave before does not count."""
        return self.kind in {"denied", "missing"}


@dataclass(frozen=True, slots=True, order=True)
class VaultPlace:
    """Where a secret is.

    Attributes:
        path: the mount and the path in it, as `vault kv get` takes them, without `data/`.
        field: the key in what lies there.
    """

    path: str
    field: str


@value()
class Mount:
    """A secrets engine of the kind KV.

    Attributes:
        path: where it is mounted, with a slash at its end.
        version: 1 or 2.
    """

    path: str
    version: int

    def place(self, path: str) -> str:
        """Return the path of the API under which it has what lies at `path`."""
        rest = path.removeprefix(self.path)
        return f"{self.path}data/{rest}" if self.version == 2 else f"{self.path}{rest}"


@value(kw_only=True)
class TokenLogin:
    """The way in is a token that was made elsewhere.

    Attributes:
        file: is read again each time; None if the token is in a variable.
        token: what the variable holds.
    """

    file: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"TokenLogin(file={self.file!r})"


@value(kw_only=True)
class AppRoleLogin:
    """The way in is a role of the method AppRole. The file with the secret id is read again each time, if any."""

    mount: str
    role_id: str
    secret_id_file: str | None


@value(kw_only=True)
class KubernetesLogin:
    """The way in is the account of this pod. The file with its token is read again each time."""

    mount: str
    role: str
    token_file: str


Login = TokenLogin | AppRoleLogin | KubernetesLogin


@value(kw_only=True)
class VaultRules:
    """How a process reaches Vault. Durations are in seconds.

    Attributes:
        address: `https://HOST:PORT`, without a slash at its end.
        ca, ca_folder: the authorities that its certificate may be of, in PEM; None and None are the system's.
        client_cert, client_key: what this process shows of itself.
        refresh: how often each secret is read again.
        keep: how long a secret counts that cannot be read again.
        timeout: how long one request may take.
    """

    address: str
    login: Login
    namespace: str | None = None
    ca: str | None = None
    ca_folder: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    refresh: float = 60.0
    keep: float = 3600.0
    timeout: float = 5.0


@value(kw_only=True)
class TokenLease:
    """A token of Vault, and how long it lives by the monotonic clock of this process, in seconds.

    Attributes:
        since: when it was given or renewed.
        lasts: from then on; None if it does not end.
        is_own: this process has logged in for it, so that it may revoke it.
        is_last: neither a renewal nor a login gave more, when it was tried last.
    """

    token: str
    since: float
    lasts: float | None
    is_renewable: bool
    is_own: bool
    is_last: bool = False

    def __repr__(self) -> str:
        return f"TokenLease(since={self.since!r}, lasts={self.lasts!r})"

    def is_due(self, at: float) -> bool:
        """Say whether it is time to renew it, or to log in again."""
        return self.lasts is not None and at >= self.since + self.lasts * _RENEW_SHARE

    def is_over(self, at: float) -> bool:
        """Say whether Vault does not take it any more."""
        return self.lasts is not None and at >= self.since + self.lasts

    def due_in(self, at: float) -> float | None:
        """Return the seconds until it is due; None if it does not end."""
        return None if self.lasts is None else max(0.0, self.since + self.lasts * _RENEW_SHARE - at)


def read_place(text: str, field: str) -> VaultPlace:
    """Read `MOUNT/PATH#FIELD`.

    Raises:
        InvalidInput: the form is wrong. The message does not show the text, which may be a secret itself.
    """
    form = f'a secret in Vault is "vault:MOUNT/PATH#FIELD", like "{EXAMPLE}"'
    path, mark, key = text.partition("#")
    steps = path.split("/")
    if not mark or not key:
        problem = "#FIELD is missing"
    elif not path.isprintable() or not key.isprintable() or key != key.strip() or path != path.strip():
        problem = "it has a blank at an end, or what cannot be printed"
    elif len(path) > _LONGEST_PATH or len(key) > _LONGEST_FIELD:
        problem = f"it is longer than {_LONGEST_PATH} with {_LONGEST_FIELD} characters"
    elif "" in steps or {".", ".."} & {*steps}:
        problem = "a part of the path is empty, or . or .. ; it neither begins nor ends with /"
    elif len(steps) < 2:
        problem = "the path in the mount is missing"
    else:
        return VaultPlace(path, key)
    raise InvalidInput(field, f"has a wrong from: {problem}; {form}")


def place_of(source: str) -> VaultPlace | None:
    """Return where a secret is, if its `from` says that it is in Vault. The text was read before."""
    scheme, _, rest = source.partition(":")
    if scheme != SCHEME:
        return None
    path, _, field = rest.partition("#")
    return VaultPlace(path, field)


def pause_after(failures: int, refresh: float) -> float:
    """Return the seconds until the next look, after so many in a row that failed."""
    if not failures:
        return refresh
    return min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 16), refresh)


def keep_problem(age: float, keep: float, problem: str) -> str | None:
    """Return why a secret does not count any more that was read so many seconds ago; None if it still does."""
    if age <= keep:
        return None
    return f"it was last read {age:.0f} s ago, over vault.keep; since then: {problem}"
