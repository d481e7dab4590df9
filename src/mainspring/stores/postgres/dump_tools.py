"""Runs `pg_dump` and `pg_restore`: finds ones that are new enough, and hands them the address without showing it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from mainspring.errors import InvalidInput, StoreUnavailable

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_FOLDERS = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version."""
_SERVICE = "mainspring"
_KEYWORDS = frozenset(
    (
        *("dbname", "host", "hostaddr", "krbsrvname", "gsslib", "options", "passfile", "password", "port"),
        *("sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"),
        *("ssl_max_protocol_version", "ssl_min_protocol_version", "target_session_attrs", "user"),
    )
)
"""What libpq knows of what a DSN may have; `config.dsn` refuses or leaves out the rest."""
_SHOWN = 500
"""Characters of a program's complaint that an error repeats."""


async def find_tool(name: str, *, least: int) -> tuple[str, int]:
    """Return the path of `pg_dump` or `pg_restore`, and its major version.

    Args:
        least: the oldest version that will do: a program does not read from a server, or a file, that is newer.

    Raises:
        InvalidInput: there is none, or all are older.
    """
    found = []
    for path in _candidates(name):
        version = await _version_of(path)
        if version >= least:
            return path, version
        found.append(version)
    if not found:
        raise InvalidInput(
            "store",
            f"{name} is missing; install PostgreSQL's client programs, {least} or later"
            f" (Debian: apt-get install postgresql-client; the container image has none: build it with"
            " --build-arg PACKAGES=postgresql-client)",
        )
    raise InvalidInput(
        "store",
        f"{name} is of version {max(found)}; {least} or later is needed here, from postgresql-client-{least} or later",
    )


def _candidates(name: str) -> Iterator[str]:
    if (first := shutil.which(name)) is not None:
        yield first
    yield from (str(path) for path in sorted(_FOLDERS.glob(f"*/bin/{name}"), reverse=True))


async def _version_of(path: str) -> int:
    process = await asyncio.create_subprocess_exec(path, "--version", stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    match = _VERSION.search(said.decode(errors="replace"))
    return int(match[1]) if match else 0


async def run_tool(path: str, arguments: Sequence[str], *, dsn: str) -> None:
    """Run a program against a database until it ends.

    The address is in a file that only this user may read, which is gone afterwards: what is on a command line, everyone
    on the machine can see.

    Raises:
        StoreUnavailable: it failed.
    """
    with service_file(dsn) as file:
        process = await asyncio.create_subprocess_exec(
            path,
            f"--dbname=service={_SERVICE}",
            "--no-password",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PGSERVICEFILE": str(file), "LC_MESSAGES": "C"},
        )
        try:
            _, said = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
    if process.returncode:
        words = " ".join(said.decode(errors="replace").split())[:_SHOWN]
        raise StoreUnavailable(f"{Path(path).name} failed: {words or process.returncode}")


@contextmanager
def service_file(dsn: str) -> Iterator[Path]:
    """Make a file for libpq that names a database, readable for this user alone, while the block runs."""
    lines = [f"[{_SERVICE}]", *(f"{name}={value}" for name, value in keywords_of(dsn).items())]
    with tempfile.TemporaryDirectory(prefix="mainspring-") as folder:
        file = Path(folder) / "service"
        file.touch(0o600)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield file


def keywords_of(dsn: str) -> Mapping[str, str]:
    """Return a DSN as libpq's keywords.

    Raises:
        InvalidInput: a value cannot be written into a file of services.
    """
    parts = urlsplit(dsn)
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    ends = [host.rpartition(":") if _has_port(host) else (host, "", "") for host in hosts.split(",")]
    given = {
        "user": unquote(name),
        "password": unquote(password),
        "host": ",".join(unquote(host).strip("[]") for host, _, _ in ends),
        "port": ",".join(port for _, _, port in ends).strip(","),
        "dbname": unquote(parts.path.removeprefix("/")),
        **_parameters_of(parts.query),
    }
    for keyword, value in given.items():
        if value != value.strip() or "\n" in value:
            raise InvalidInput(
                "store", f"{keyword} begins or ends with a blank, which pg_dump cannot be told"
            )
    return {keyword: value for keyword, value in given.items() if value}


def _parameters_of(query: str) -> dict[str, str]:
    """Return a DSN's parameters as libpq's. What it does not know, is a setting of the server, as for our driver."""
    known: dict[str, str] = {}
    settings = []
    for name, value in parse_qsl(query):
        word = "dbname" if name == "database" else name
        if word in _KEYWORDS:
            known[word] = value
        else:
            escaped = re.sub(r"([\\\s])", r"\\\1", value)
            settings.append(f"-c {name}={escaped}")
    if settings:
        known["options"] = " ".join(filter(None, (known.get("options", "").strip(), *settings)))
    return known


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]
