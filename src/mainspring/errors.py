"""The exceptions that a user of Mainspring can meet.

::

    MainspringError
    ├── InvalidInput          a field of a request or definition is wrong (also a ValueError)
    ├── NotFound              no such job, run or session for this tenant
    ├── Conflict              the thing changed meanwhile, or a name or key is taken
    ├── PayloadTooLarge       a payload or result is over the inline limit
    ├── StoreUnavailable      the store did not answer; nothing is known to be lost
    │   └── StoreLocked       another process owns this data folder
    ├── SchemaMismatch        the store's schema is older or newer than this program
    └── Unreachable           the server did not answer a worker or a client

Expected outcomes (stale, duplicate, missing on delete) are return values, not exceptions.
"""

from __future__ import annotations


class MainspringError(Exception):
    """Base of every error that Mainspring raises on purpose."""


class InvalidInput(MainspringError, ValueError):
    """A value is refused.

    Attributes:
        field: the path of the field that is wrong, as the user wrote it (`trigger.expression`).
        message: what is wrong and what would be right.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class NotFound(MainspringError, LookupError):
    """Nothing of that kind and id exists for the caller.

    Attributes:
        kind: `job`, `run` or `session`.
        key: the id or name that was asked for.
    """

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"no {kind} {key!r}")
        self.kind = kind
        self.key = key


class Conflict(MainspringError):
    """The request contradicts what the store holds.

    Attributes:
        field: the field in conflict (`name`, `idempotency_key`, `version`).
        message: what stands in the way.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class PayloadTooLarge(InvalidInput):
    """A payload or result is over the inline limit."""


class StoreUnavailable(MainspringError):
    """The store did not answer in time, or the connection to it broke."""


class StoreLocked(StoreUnavailable):
    """Another process owns this data folder."""


class SchemaMismatch(MainspringError):
    """The store's schema does not fit this program; the message says which way and what to do."""


class Unreachable(MainspringError):
    """The server could not be reached; the caller may try again."""
