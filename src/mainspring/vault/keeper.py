"""Keeps the secrets of a process that are in Vault: reads them at its start, and again in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from mainspring.core.values import value
from mainspring.core.vault import (
    FAILURE_KINDS,
    FailureKind,
    Mount,
    VaultFailed,
    VaultPlace,
    VaultRules,
    keep_problem,
    pause_after,
)
from mainspring.ports.clock import RandomSource, Waiter
from mainspring.ports.telemetry import Measure, Telemetry
from mainspring.vault.client import VaultClient
from mainspring.vault.session import VaultSession

_log = structlog.get_logger(__name__)
START_PATIENCE = 10.0
"""Seconds that a start waits for the first reads. A process whose Vault is away starts without its secrets."""
_END_PATIENCE = 1.0
"""Seconds at the end for giving back the token."""
_AT_ONCE = 8
"""Paths that are read at a time."""
_SPREAD = 0.1
"""The share of a pause that is left to chance, so that processes do not all ask at the same instant."""
_SHORTEST = 0.5
LARGEST = 64 * 1024
"""Bytes of the largest secret."""


@value()
class _Kept:
    """What is known of a secret.

    Attributes:
        text: None if there is none that counts.
        read_at: when it was read, by the monotonic clock.
        failure: why the last read failed; None if it did not.
    """

    text: str | None = None
    read_at: float = 0.0
    failure: VaultFailed | None = None

    def __repr__(self) -> str:
        return f"_Kept(read_at={self.read_at!r})"


_UNREAD = _Kept(failure=VaultFailed("away", "it was not read yet"))


class VaultSecrets:
    """The secrets of a process that are in Vault.

    `reveal` only looks into memory. All requests are made by one task of the process's event loop, and wait for no
    thread but those that look up names.

    Args:
        places: where the secrets are.
        monotonic: the local monotonic clock, in seconds.
        waiter: what the task waits on between two rounds of reading. Signal it to read at once.
        is_quiet: write nothing into the log.

    Raises:
        InvalidInput: the address or a certificate of the settings is wrong.
    """

    def __init__(
        self,
        rules: VaultRules,
        places: Iterable[VaultPlace],
        *,
        monotonic: Callable[[], float],
        random: RandomSource,
        waiter: Waiter,
        is_quiet: bool = False,
    ) -> None:
        self._rules = rules
        self._places = tuple(sorted(set(places)))
        self._monotonic = monotonic
        self._random = random
        self.waiter: Waiter = waiter
        self._client = VaultClient(rules)
        self._session = VaultSession(self._client, rules.login, monotonic=monotonic, is_quiet=is_quiet)
        self._is_quiet = is_quiet
        self._mounts: dict[str, Mount] = {}
        self._kept: dict[VaultPlace, _Kept] = {}
        self._failures = dict.fromkeys(FAILURE_KINDS, 0)
        self._failed_rounds = 0
        self._hopeless: set[str] = (
            set()
        )  # paths that were refused to a fresh token: they are not worth another
        self.rounds: int = 0
        """How often all were read, or tried to be."""

    def reveal(self, place: VaultPlace) -> str:
        """Return a secret as it was last read.

        Raises:
            VaultFailed: there is none that counts.
        """
        kept = self._kept.get(place, _UNREAD)
        if kept.failure is None and kept.text is not None:
            return kept.text
        failure = kept.failure or VaultFailed("away", "it was not read")
        if kept.text is None:
            raise failure
        problem = keep_problem(self._monotonic() - kept.read_at, self._rules.keep, failure.problem)
        if problem is not None:
            raise VaultFailed(failure.kind, problem)
        return kept.text

    def measures(self) -> Iterator[Measure]:
        """Yield how often secrets could not be read."""
        for kind, count in self._failures.items():
            yield Measure("vault_failures_total", count, (kind,))

    @asynccontextmanager
    async def running(self, telemetry: Telemetry) -> AsyncIterator[None]:
        """Read all secrets, then go on with the block, and read them again until it ends.

        Args:
            telemetry: what the process counts.
        """
        await self._client.start()
        telemetry.watch(self)
        first = asyncio.Event()
        task = asyncio.create_task(self._run(first), name="vault")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(START_PATIENCE):
                    await first.wait()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._end()
            telemetry.forget(self)

    async def read_once(self) -> dict[VaultPlace, str]:
        """Read all secrets. Return why some cannot be read, by their places."""
        await self._client.start()
        try:
            await self.read_all()
        finally:
            await self._end()
        return {place: kept.failure.problem for place, kept in self._kept.items() if kept.failure is not None}

    async def read_all(self) -> float:
        """Read all secrets. Return the seconds after which to do so again."""
        found = await self._read_paths({place.path for place in self._places})
        now = self._monotonic()
        kinds: list[FailureKind] = []
        for place in self._places:
            kept = _judge(place, found[place.path], self._kept.get(place, _Kept()), now)
            self._note(place, kept)
            if kept.failure is not None:
                kinds.append(kept.failure.kind)
                self._failures[kept.failure.kind] += 1
        self._failed_rounds = self._failed_rounds + 1 if {"away", "login"} & {*kinds} else 0
        self.rounds += 1
        pause = pause_after(self._failed_rounds, self._rules.refresh)
        pause *= 1.0 - _SPREAD * self._random.random()
        due = None if self._failed_rounds else self._session.due_in()
        return pause if due is None else max(_SHORTEST, min(pause, due))

    async def _run(self, first: asyncio.Event) -> None:
        while True:
            try:
                pause = await self.read_all()
            except Exception:  # noqa: BLE001 - reading survives a bug in one round; the log has its trace
                _log.exception("vault_read_failed")
                pause = self._rules.refresh
            first.set()
            await self.waiter.wait(pause)

    async def _end(self) -> None:
        try:
            with suppress(VaultFailed, TimeoutError):
                async with asyncio.timeout(_END_PATIENCE):
                    await self._session.close()
        finally:
            await self._client.stop()

    async def _read_paths(self, paths: Iterable[str]) -> dict[str, Mapping[str, Any] | VaultFailed]:
        """Return what lies at each path, or why it cannot be read."""
        found = await self._try_paths(paths)
        refused = _refused(found)
        self._hopeless &= refused
        try:
            if refused - self._hopeless and await self._session.replace_refused():
                found |= await self._try_paths(refused)
                self._hopeless = _refused(found)
        except VaultFailed as failure:
            found |= dict.fromkeys(refused, failure)
        return found

    async def _try_paths(self, paths: Iterable[str]) -> dict[str, Mapping[str, Any] | VaultFailed]:
        wanted = list(paths)
        try:
            token = await self._session.get_token()
        except VaultFailed as failure:
            return dict.fromkeys(wanted, failure)
        room = asyncio.Semaphore(_AT_ONCE)

        async def read(path: str) -> Mapping[str, Any] | VaultFailed:
            async with room:
                try:
                    return await self._read_path(path, token)
                except VaultFailed as failure:
                    return failure

        return dict(zip(wanted, await asyncio.gather(*map(read, wanted)), strict=True))

    async def _read_path(self, path: str, token: str) -> Mapping[str, Any]:
        known = self._mounts.get(path)
        if known is not None:
            try:
                return await self._client.read(known, path, token)
            except VaultFailed as failure:
                if not failure.is_final:
                    raise
        # The engine may have been replaced since, or brought to version 2.
        mount = self._mounts[path] = await self._client.find_mount(path, token)
        return await self._client.read(mount, path, token)

    def _note(self, place: VaultPlace, kept: _Kept) -> None:
        """Keep what is known of a secret, and log what is new about it."""
        before = self._kept.get(place)
        self._kept[place] = kept
        if self._is_quiet:
            return
        old = None if before is None or before.failure is None else before.failure.problem
        new = None if kept.failure is None else kept.failure.problem
        if new is not None and new != old:
            _log.warning(
                "vault_secret_unread",
                path=place.path,
                field=place.field,
                problem=new,
                meaning="it has no value here"
                if kept.text is None
                else "the last value counts until vault.keep is over",
            )
        elif new is None and old is not None:
            _log.info("vault_secret_read_again", path=place.path, field=place.field)


def _refused(found: Mapping[str, Mapping[str, Any] | VaultFailed]) -> set[str]:
    return {path for path, got in found.items() if isinstance(got, VaultFailed) and got.kind == "denied"}


def _judge(place: VaultPlace, found: Mapping[str, Any] | VaultFailed, before: _Kept, now: float) -> _Kept:
    """Return what is known of a secret after a read."""
    if isinstance(found, VaultFailed):
        failure = found
    else:
        text = found.get(place.field)
        problem = _problem_of(text)
        if problem is None:
            return _Kept(str(text).rstrip("\r\n"), now)
        failure = VaultFailed("missing", f"the field {place.field} of {place.path} {problem}")
    return _Kept(failure=failure) if failure.is_final else _Kept(before.text, before.read_at, failure)


def _problem_of(text: Any) -> str | None:
    if text is None:
        return "is not there"
    if not isinstance(text, str):
        return "is not text; write it in quotes"
    if not text.rstrip("\r\n"):
        return "is empty"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not text that UTF-8 has"
    return f"has more than {LARGEST} bytes" if size > LARGEST else None
