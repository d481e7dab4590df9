"""What the handlers of login share: the use cases, and how often somebody may be wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import Scope

from mainspring.api.caller_rates import CallerRates
from mainspring.api.errors import Rejected
from mainspring.core.access import Identity
from mainspring.core.rates import Rate
from mainspring.engine.usecases.logins import Logins
from mainspring.errors import InvalidInput, TooMany
from mainspring.ports.identity_provider import IdentityProvider, ProviderFailed

WRONG_PASSWORDS = Rate(5, timedelta(minutes=1))
"""How often passwords of one account may be tried from one address."""
WRONG_OF_ADDRESS = Rate(20, timedelta(minutes=1))
"""How often passwords of any account may be tried from one address."""
LOGINS_OF_TOKEN = Rate(20, timedelta(minutes=1))
"""How many sessions may begin with one token. Each is stored, and has an entry in the audit."""
_WRONG = (Rejected, InvalidInput, ProviderFailed)
"""What a try ends with that counts. A code that a provider does not know does: each has it asked."""
_LONGEST = 100
_MOST_ATTEMPTS = 10_000

LookAt = Callable[[str, Scope], Awaitable[Identity]]
"""Returns whom a token stands for; raises `Rejected` if it stands for nobody, or not any more."""


class LoginDesk:
    """Lets people in.

    Args:
        look_at: finds whom a token stands for.
        is_open: says whether there is no account yet.
        provider: where people may sign in instead of with a password; None is nowhere.
    """

    def __init__(
        self,
        logins: Logins,
        look_at: LookAt,
        is_open: Callable[[], bool],
        provider: IdentityProvider | None = None,
    ) -> None:
        self.provider: IdentityProvider | None = provider
        self.logins: Logins = logins
        self.is_open: Callable[[], bool] = is_open
        self.look_at: LookAt = look_at
        self._used: dict[str, datetime] = {}
        self._pairs = CallerRates(WRONG_PASSWORDS, setting="password", burst=WRONG_PASSWORDS.count)
        self._addresses = CallerRates(WRONG_OF_ADDRESS, setting="password", burst=WRONG_OF_ADDRESS.count)
        self._tokens = CallerRates(LOGINS_OF_TOKEN, setting="token", burst=LOGINS_OF_TOKEN.count)

    def use_attempt(self, state: str, until: datetime, now: datetime) -> bool:
        """Return whether a login at the provider comes back for the first time, and remember that it did.

        This server remembers it as long as the browser may have its secret. At another one, the provider takes its code
        no second time.
        """
        self._used = {known: end for known, end in self._used.items() if end > now}
        if state in self._used:
            return False
        if (
            len(self._used) >= _MOST_ATTEMPTS
        ):  # the provider takes the oldest one's code no second time either
            del self._used[next(iter(self._used))]
        self._used[state] = until
        return True

    def take_login(self, prefix: str, now: datetime) -> None:
        """Count a login by a token.

        Raises:
            TooMany: there were too many.
        """
        try:
            self._tokens.take(prefix, now=now)
        except TooMany as error:
            raise TooMany(
                "token",
                f"too many logins by ms_{prefix}_…; use a session that it began, or wait",
                retry_after=error.retry_after,
            ) from None

    @contextmanager
    def trying(self, account: str, address: str | None, now: datetime) -> Iterator[Callable[[], None]]:
        """Count a try with a password; what this yields takes it back, once the password is right.

        It is also taken back if it fails for another reason.

        Raises:
            TooMany: there were too many.
        """
        where = network_of(address)
        pair = f"{account[:_LONGEST]} {where}"
        try:
            self._addresses.take(where, now=now)
            try:
                self._pairs.take(pair, now=now)
            except TooMany:
                self._addresses.give_back(where)  # others there may try theirs
                raise
        except TooMany as error:
            raise TooMany(
                "password",
                "too many wrong passwords from this address; wait, and try again",
                retry_after=error.retry_after,
            ) from None
        is_counted = True

        def take_back() -> None:
            nonlocal is_counted
            if is_counted:
                is_counted = False
                self._addresses.give_back(where)
                self._pairs.give_back(pair)

        try:
            yield take_back
        except _WRONG:
            raise
        except Exception:
            take_back()  # the store does not answer, for example
            raise


def network_of(address: str | None) -> str:
    """Return what stands for an address in counts: an IPv6 caller has a whole /64 to call from."""
    if address is None:
        return "somebody"
    try:
        read = ip_address(address)
    except ValueError:
        return address
    if isinstance(read, IPv6Address) and read.ipv4_mapped is None:
        return str(ip_network((int(read) >> 64 << 64, 64)))
    return address
