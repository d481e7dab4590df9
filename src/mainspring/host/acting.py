"""Who does what a process does by itself."""

from __future__ import annotations

import os
import pwd

from mainspring.core.actors import Actor, ActorKind


def acting_process(action: str) -> Actor:
    """Return this process's user, as the one who carries out an operation without a request.

    Args:
        action: the operation's id.
    """
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's user need have no name
        name = f"user {uid}"
    return Actor(name=name, kind=ActorKind.PROCESS, action=action)
