"""The JSON forms of what stores keep as text: definitions (design 3.2, full forms), and outlines of runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

import msgspec

from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.calendars.spec import CalendarSpec, read_calendar
from mainspring.core.definition import plain_from_spec, spec_from_plain
from mainspring.core.definition.plain import options_from_plain, target_from_plain
from mainspring.core.fields import encode_payload
from mainspring.core.model import JobSpec, Target
from mainspring.core.outlines import RunOutline, has_outline
from mainspring.core.triggers import Trigger, load_trigger

T = TypeVar("T")

_WITH_CALENDARS = "with_calendars"
"""The type that the trigger of a job with calendars has in the kept text."""
_MICROSECOND = timedelta(microseconds=1)
_Outline = tuple[int, str, str, int, int, int, int | None]
"""As a clock's row holds it: version, queue, route, and timeout, grace, jitter, expires_after in microseconds."""
_outlines = msgspec.json.Decoder(_Outline)


def encode_spec(spec: JobSpec) -> bytes:
    """Return the definition as JSON text in UTF-8."""
    plain = plain_from_spec(spec, msgspec.Raw)
    if spec.calendars:
        # Under a type that earlier releases do not know: they would fire the job without a look at its calendars.
        plain["trigger"] = {"type": _WITH_CALENDARS, "trigger": plain["trigger"]}
    return msgspec.json.encode(plain)


def decode_spec(text: bytes | str) -> JobSpec:
    """Decode what `encode_spec` wrote.

    Of many jobs, most differ in little but their names. So what begins a definition is told apart from the options that
    end it, and each part is read once for all definitions that share its text. That takes a third less time.
    """
    text = text.encode() if isinstance(text, str) else text
    parts = _parts.decode(text)
    beginning = _BEGINNING % (parts.name, parts.target, parts.trigger, parts.payload)
    if not text.startswith(beginning):  # not in the order in which `encode_spec` writes
        plain = msgspec.json.decode(text)
        return spec_from_plain({**plain, "trigger": _own_trigger(plain["trigger"])})
    return JobSpec(
        name=_names.decode(parts.name),
        target=_read(parts.target, _decode_target),
        trigger=_read(parts.trigger, _decode_trigger),
        payload=None
        if bytes(parts.payload) == b"null"
        else encode_payload(msgspec.json.decode(parts.payload)),
        **_read(text[len(beginning) :], _decode_options),
    )


class _Parts(msgspec.Struct):
    name: msgspec.Raw
    target: msgspec.Raw
    trigger: msgspec.Raw
    payload: msgspec.Raw


_parts = msgspec.json.Decoder(_Parts)
_names = msgspec.json.Decoder(str)
_BEGINNING = b'{"name":%b,"target":%b,"trigger":%b,"payload":%b'
_LONGEST = 1024
"""Bytes of a part that is kept in memory, at most."""


def _read(part: msgspec.Raw | bytes, decode: _lru_cache_wrapper[T]) -> T:
    """Read a part, and remember it. A long one would take up too much memory."""
    text = bytes(part)
    return decode(text) if len(text) <= _LONGEST else decode.__wrapped__(text)


@lru_cache(maxsize=1024)
def _decode_target(text: bytes) -> Target:
    return target_from_plain(msgspec.json.decode(text))


@lru_cache(maxsize=1024)
def _decode_trigger(text: bytes) -> Trigger | None:
    return load_trigger(_own_trigger(msgspec.json.decode(text)))


def _own_trigger(plain: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a trigger as it was before `encode_spec` hid it from earlier releases."""
    return plain["trigger"] if plain is not None and plain["type"] == _WITH_CALENDARS else plain


@lru_cache(maxsize=1024)
def _decode_options(text: bytes) -> Mapping[str, Any]:
    """Read what follows the payload: a comma, and the rest of an object."""
    return options_from_plain(msgspec.json.decode(b"{" + text.removeprefix(b",")))


def encode_outline(spec: JobSpec, version: int) -> str | None:
    """Return the outline of a definition as JSON text; None if it has none."""
    if not has_outline(spec):
        return None
    # A bulk load adds many jobs whose outlines are the same, and these values are compared in less time than encoded.
    limits = (spec.timeout, spec.misfire.grace, spec.jitter, spec.expires_after)
    return _encode_outline(version, spec.queue, spec.route, *limits)


@lru_cache(maxsize=4096)
def _encode_outline(version: int, queue: str, route: str, *limits: timedelta | None) -> str:
    counts = [None if limit is None else limit // _MICROSECOND for limit in limits]
    return msgspec.json.encode([version, queue, route, *counts]).decode()


def decode_outline(text: str | None, version: int) -> RunOutline | None:
    """Decode what `encode_outline` wrote, if it was made from this version of the job.

    A program of an earlier release edits a job and leaves the outline as it was.
    """
    outline = None if text is None else _decode_outline(text)
    return outline if outline is not None and outline.version == version else None


@lru_cache(maxsize=4096)
def _decode_outline(text: str) -> RunOutline | None:
    """Decode an outline, once for all jobs that have the same. One of a later form, which this release cannot read, is
    none: the definition says all.
    """
    try:
        version, queue, route, timeout, grace, jitter, expires_after = _outlines.decode(text)
        return RunOutline(
            version=version,
            queue=queue,
            route=route,
            timeout=timeout * _MICROSECOND,
            grace=grace * _MICROSECOND,
            jitter=jitter * _MICROSECOND,
            expires_after=None if expires_after is None else expires_after * _MICROSECOND,
        )
    except (msgspec.DecodeError, OverflowError):
        return None


def encode_calendar(version: CalendarVersion) -> bytes:
    """Return a calendar's definition, and to which versions the names in it are bound, as JSON text in UTF-8."""
    return msgspec.json.encode({**version.spec.plain(), "resolved": dict(version.resolved)})


def decode_calendar(text: bytes) -> tuple[CalendarSpec, Mapping[str, int]]:
    """Decode what `encode_calendar` wrote."""
    plain = msgspec.json.decode(text)
    resolved = plain.pop("resolved")
    return read_calendar(plain), resolved
