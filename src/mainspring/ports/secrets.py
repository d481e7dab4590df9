"""The port of secrets: what a name in a definition or in a channel's settings stands for."""

from __future__ import annotations

from typing import Protocol

from mainspring.errors import MainspringError


class SecretMissing(MainspringError):
    """This process has no such secret for this tenant, or cannot read it. The message says which of the two.

    It names neither the variable nor the file that should hold it: they are the operator's, who finds them in the log.
    """


class Secrets(Protocol):
    """The secrets of a process, by name."""

    def check(self, name: str, tenant: str | None) -> None:
        """Refuse a secret that is not defined for a tenant. It is not read.

        Args:
            tenant: None is the process itself, which may use all of them.

        Raises:
            SecretMissing: there is none, or it is one of other tenants; the message is the same for both.
        """
        ...

    def reveal(self, name: str, tenant: str | None) -> str:
        """Return a secret, without a line break at its end. It is read anew each time, so that it may change.

        Raises:
            SecretMissing: as with `check`; or it cannot be read now.
        """
        ...
