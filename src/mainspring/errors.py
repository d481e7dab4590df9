"""The exceptions that a user of Mainspring can get.

::

    MainspringError
    ├── InvalidInput          a field of a request or definition is wrong (also a ValueError)
    │   └── InvalidFields     several may be, and all are told at once
    ├── NotFound              no such job, run or session for this tenant
    ├── Conflict              what you edit has changed in the meantime, or a name or key is taken
    │   └── UnknownType       the job's trigger has a type that this process does not know
    ├── StaleLease            a job ends its run within its own transaction, but its attempt is over
    ├── TooMany               a queue or tenant is full, or a rate is used up; nothing was stored, try again later
    ├── PluginError           a package that extends Mainspring cannot be used
    ├── RunFailed             a run whose result is wanted did not succeed
    │   ├── RunCancelled      it was cancelled
    │   └── RunSkipped        it was skipped: expired, or kept out by a policy
    ├── ResultLeftOut         a run whose result is wanted succeeded, but its result could not be kept
    ├── MissingExtra          a feature needs packages that are not installed here
    ├── PayloadTooLarge       a payload or result is over the inline limit
    ├── StoreUnavailable      the store did not answer; nothing is known to be lost
    │   ├── StoreLocked       another process owns this data folder
    │   └── TookTooLong       a list or count was stopped at its limit, and would be again
    ├── SchemaMismatch        the store's schema is older or newer than this program
    ├── CannotDecrypt         what the store has is encrypted, and this process cannot read it
    ├── NotAuthenticated      the server does not know who calls: the access token is missing, wrong or over
    └── Unreachable           the server did not answer a worker or a client

Expected outcomes (stale, duplicate, missing on delete) are return values, not exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


class MainspringError(Exception):
    """Base class of every error that Mainspring raises on purpose."""


class InvalidInput(MainspringError, ValueError):
    """A field of a request or definition is wrong.

    Attributes:
        field: the path of the field that is wrong, as the user wrote it (`trigger.expression`).
        message: what is wrong and what would be right.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message

    def renamed(self, rename: Callable[[str], str]) -> InvalidInput:
        """Return the same error of a field that has another path for whom it is told.

        Args:
            rename: from the path that it has to the other one.
        """
        return type(self)(rename(self.field), self.message)


class InvalidFields(InvalidInput):
    """Fields of a definition are wrong, and all are told at once. `field` and `message` are those of the first.

    Attributes:
        errors: one for each field, at least one.
    """

    def __init__(self, errors: Sequence[InvalidInput]) -> None:
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(first.field, f"{first.message}{more}")
        self.errors: tuple[InvalidInput, ...] = tuple(errors)

    def renamed(self, rename: Callable[[str], str]) -> InvalidFields:
        """Return the same errors of fields that have other paths for whom they are told."""
        return InvalidFields([error.renamed(rename) for error in self.errors])


class NotFound(MainspringError, LookupError):
    """The caller has no job, run or session with that name or id.

    Attributes:
        kind: `job`, `run` or `session`.
        key: the id or name in the request.
    """

    def __init__(self, kind: str, key: str, *, remedy: str = "") -> None:
        super().__init__(f"no {kind} {key!r}{'; ' if remedy else ''}{remedy}")
        self.kind = kind
        self.key = key


class Conflict(MainspringError):
    """The request contradicts what the store holds.

    Attributes:
        field: the field in conflict (`name`, `idempotency_key`, `version`).
        message: what it conflicts with.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class UnknownType(Conflict):
    """A stored job's trigger has a type that this process does not know, and the request needs it.

    Attributes:
        name: the type's name.
    """

    def __init__(self, sort: str, name: str) -> None:
        super().__init__(
            f"{sort}.type", f"{name!r} is not known here; install the package that adds it and start again"
        )
        self.name = name


class StaleLease(MainspringError):
    """The attempt that ends its run is over: its lease was lost, or it has ended the run before.

    Its transaction has failed, so that none of its writes is kept. Do not try again within this attempt.
    """


class TooMany(MainspringError):
    """The request comes too soon: a queue or a tenant is full, or a rate is used up. Nothing was stored.

    Attributes:
        field: the setting that refuses it (`max_queued`, `submit_rate`, `why.rate`).
        message: what is full, and the numbers.
        retry_after: seconds after which to try again, 1 to 60.
    """

    def __init__(self, field: str, message: str, *, retry_after: int) -> None:
        super().__init__(f"{message}; try again in {retry_after} s")
        self.field = field
        self.message = message
        self.retry_after = retry_after


class PluginError(MainspringError):
    """A package that extends Mainspring cannot be used. The message names it and says what would be right."""


class MissingExtra(MainspringError):
    """A feature needs packages that are not installed here. The message says how to install them.

    Attributes:
        extra: the name of the extra that brings them.
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what}: the extra {extra!r} is not installed here; pip install 'mainspring[{extra}]', and start again"
        )
        self.extra = extra


class PayloadTooLarge(InvalidInput):
    """A payload or result is over the inline limit."""


class NeedsRight(InvalidInput):
    """The caller has not the right to do this, or to give a value that takes a further right. The message names it."""


class StoreUnavailable(MainspringError):
    """The store did not answer in time, or the connection to it broke."""


class StoreLocked(StoreUnavailable):
    """Another process owns this data folder."""


class TookTooLong(StoreUnavailable):
    """A list or count took longer than it may, and was stopped (setting `browse.timeout`)."""


class SchemaMismatch(MainspringError):
    """The store's schema does not fit this program. The message says which of the two is older, and what to do."""


class CannotDecrypt(MainspringError):
    """What the store has is encrypted, and this process cannot read it. The message says why, and what to do.

    Attributes:
        key_id: the key that is missing here; None if what is there was changed or moved.
    """

    def __init__(self, message: str, *, key_id: str | None = None) -> None:
        super().__init__(message)
        self.key_id = key_id


class NotAuthenticated(MainspringError):
    """The server does not know who calls: the access token is missing, misspelt, expired or revoked."""


class Unreachable(MainspringError):
    """The server did not answer. The caller may try again."""


class RunFailed(MainspringError):
    """A run whose result is wanted has ended otherwise than by success.

    Attributes:
        run_id: the run's id in its text form.
        status: FAILED, or what the subclasses say.
        error: the error of its last attempt; None if it has none.
        reason: why it is in this state; None if its state says all.
    """

    def __init__(self, run_id: str, status: str, error: str | None, reason: str | None) -> None:
        why = error or reason
        super().__init__(f"{run_id} is {status}: {why}" if why else f"{run_id} is {status}")
        self.run_id = run_id
        self.status = status
        self.error = error
        self.reason = reason


class RunCancelled(RunFailed):
    """A run whose result is wanted was cancelled."""


class RunSkipped(RunFailed):
    """A run whose result is wanted was skipped, because it expired or a policy kept it out."""


class ResultLeftOut(MainspringError):
    """A run whose result is wanted has succeeded, but its result could not be kept: it is too large, or no JSON.

    Attributes:
        run_id: the run's id in its text form.
        reason: `too_large`, `too_deep` or `not_json`.
        note: what was wrong with the result.
    """

    def __init__(self, run_id: str, reason: str, note: str) -> None:
        super().__init__(f"{run_id} succeeded without a result that can be read: {note or reason}")
        self.run_id = run_id
        self.reason = reason
        self.note = note
