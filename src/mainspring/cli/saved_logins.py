"""The sessions that `mainspring login` keeps for commands: one for each server, in a file that only the user reads."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from mainspring.errors import InvalidInput

_FIELD = "login"


def logins_file() -> Path:
    """Return where the sessions are kept: below XDG_CONFIG_HOME, or ~/.config."""
    folder = os.environ.get("XDG_CONFIG_HOME") or ""
    # A relative one is to be ignored, says the specification.
    base = Path(folder) if Path(folder).is_absolute() else Path.home() / ".config"
    return base / "mainspring" / "logins.json"


def find_login(server: str) -> str | None:
    """Return the token of the session at a server; None if there is none.

    Args:
        server: its address, or those of several, separated by commas. A token is only shown to servers for which it was
            kept.

    Raises:
        InvalidInput: the file cannot be read, or others can read it.
    """
    kept = _read()
    found = {kept.get(address) for address in _addresses(server)}
    return found.pop() if len(found) == 1 else None


def keep_login(server: str, token: str) -> None:
    """Keep the token of a session at a server in place of the one before.

    Raises:
        InvalidInput: the file cannot be read or written.
    """
    _write(_read() | dict.fromkeys(_addresses(server), token))


def forget_login(server: str) -> None:
    """Keep no session at a server any more.

    Raises:
        InvalidInput: the file cannot be read or written.
    """
    token, kept = find_login(server), _read()
    gone = {*_addresses(server)} | {address for address, known in kept.items() if token == known}
    if gone & kept.keys():
        _write({address: known for address, known in kept.items() if address not in gone})


def _addresses(server: str) -> list[str]:
    return [address.strip().rstrip("/").lower() for address in server.split(",") if address.strip()]


def _read() -> dict[str, str]:
    path = logins_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(1 << 20)
    except FileNotFoundError:
        return {}
    except OSError as error:
        if not os.access(path.parent, os.X_OK):
            return {}  # another user's folder: the command runs with the environment of that user
        raise InvalidInput(_FIELD, f"{path} cannot be read ({error.strerror})") from None
    if mode & 0o077:
        raise InvalidInput(_FIELD, f"{path} can be read by others; make it yours alone: chmod 600 {path}")
    try:
        kept: Any = json.loads(data)
        servers = kept["servers"]
        return {address: token for address, token in servers.items() if isinstance(token, str)}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(_FIELD, f"{path} is damaged; delete it, and sign in again") from None


def _write(kept: dict[str, str]) -> None:
    path = logins_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes it for this user alone, and a command that reads meanwhile finds the old file or the new one.
        number, name = tempfile.mkstemp(dir=path.parent, prefix=".logins-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                json.dump({"servers": kept}, file, indent=2)
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise InvalidInput(_FIELD, f"{path} cannot be written ({error.strerror})") from None
