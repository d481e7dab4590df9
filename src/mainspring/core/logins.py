"""Rules of signing in: which passwords do, what a session may do, and which failures the audit tells of."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.access import Account
from mainspring.core.fields import kind
from mainspring.core.rights import RIGHTS_OF, AccessRole, Right
from mainspring.core.values import value
from mainspring.errors import InvalidInput

SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1024
KEPT_SESSIONS = timedelta(days=30)
"""How long a session that is over is still listed."""
FAILURES_PERIOD = timedelta(minutes=10)
"""The least time between two entries of the audit about failed logins to one account from one address."""
MOST_FAILURES = 100
"""Accounts and addresses that are told apart in that time."""


def read_new_password(text: object, field: str) -> str:
    """Return a password that is to be set, in the form in which it is compared.

    Raises:
        InvalidInput: it is too short or too long. The error does not show it.
    """
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be text, not {kind(text)}")
    password = read_password(text, field)
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(
            field, f"has {len(password)} characters; use {SHORTEST_PASSWORD} at least, some words for example"
        )
    return password


def read_password(text: str, field: str) -> str:
    """Return a password in the form in which it is compared: keyboards spell the same letter in several ways.

    Raises:
        InvalidInput: it is too long, or has a character that UTF-8 cannot write. The error does not show it.
    """
    if len(text) > LONGEST_PASSWORD:
        raise InvalidInput(field, f"has more than {LONGEST_PASSWORD} characters")
    password = unicodedata.normalize("NFC", text)
    if not password.isascii() and any(map(_is_surrogate, password)):
        raise InvalidInput(field, "has a character that cannot be written in UTF-8")
    return password


def session_role(account: Account) -> AccessRole:
    """Return the least role that lets a session do all that its account may."""
    needed = {Right.SELF}.union(*(RIGHTS_OF[role] for role in account.grants.values()))
    able = [role for role in AccessRole if RIGHTS_OF[role] >= needed]
    return min(able, key=lambda role: len(RIGHTS_OF[role]))


@value(kw_only=True)
class LoginFailures:
    """Failed logins that the audit is to tell of in one entry.

    Attributes:
        account: None if there is no such account, or if there are many. What was typed is not kept: it may be a
            password in the wrong field.
        address: None if it is not known, or if there are many.
        count: how many they were.
    """

    account: str | None
    address: str | None
    count: int


@dataclass(slots=True)
class _Count:
    told_at: datetime
    untold: int = 0


class FailureLog:
    """Counts failed logins, so that an attack fills neither the audit nor the memory.

    The first failure to an account from an address is told at once. Those of the next ten minutes are counted, and are
    due together.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str | None, str | None], _Count] = {}

    def note(self, account: str | None, address: str | None, *, now: datetime) -> list[LoginFailures]:
        """Count a failure. Return what is to be told now."""
        told = self.take_due(now)
        key = (account, address)
        if key not in self._counts and len(self._counts) >= MOST_FAILURES:
            key = (None, None)
        known = self._counts.get(key)
        if known is None:
            self._counts[key] = _Count(now)
            return [*told, LoginFailures(account=key[0], address=key[1], count=1)]
        known.untold += 1
        return told

    def take_due(self, now: datetime) -> list[LoginFailures]:
        """Return the failures whose ten minutes are over, and forget those of which none is left to tell."""
        due = {key: each for key, each in self._counts.items() if now - each.told_at >= FAILURES_PERIOD}
        for key, each in due.items():
            if each.untold:
                self._counts[key] = _Count(now)
            else:
                del self._counts[key]
        return [
            LoginFailures(account=account, address=address, count=each.untold)
            for (account, address), each in due.items()
            if each.untold
        ]

    def take_all(self, now: datetime) -> list[LoginFailures]:
        """Return all failures that were not told yet: there will be no later time for it."""
        told = [
            LoginFailures(account=account, address=address, count=each.untold)
            for (account, address), each in self._counts.items()
            if each.untold
        ]
        self._counts = {key: _Count(now) for key in self._counts}
        return told

    def give_back(self, failures: Iterable[LoginFailures]) -> None:
        """Count what was taken and could not be told. It is due at once."""
        for each in failures:
            known = self._counts[each.account, each.address]
            known.untold += each.count
            known.told_at -= FAILURES_PERIOD

    @property
    def untold(self) -> int:
        """How many failures have not been told yet."""
        return sum(each.untold for each in self._counts.values())


def _is_surrogate(letter: str) -> bool:
    return "\ud800" <= letter <= "\udfff"
