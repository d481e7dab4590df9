"""The form in which stores keep the state of a flow: a byte that numbers the form, and MessagePack.

Form 1 has what every flow has. Form 2 adds a map of what only some have, by name, and only of what differs from its
default. So flows that do not use a feature do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from mainspring.core.ids import RunId
from mainspring.core.values import value
from mainspring.core.workflows.answers import WaitState
from mainspring.core.workflows.maps import MapState
from mainspring.core.workflows.state import FlowPhase, FlowState, Maps, UnreadableFlow, Waits
from mainspring.core.workflows.taken import Taken, TakenStep
from mainspring.core.workflows.timers import FlowTimer, TimerKind, Timers, sort_timers
from mainspring.core.workflows.waits import AnswerKind

_PLAIN, _MORE = 1, 2
"""The forms. What an older program cannot read, it must not decide about."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_encoder = msgspec.msgpack.Encoder()
_plain = msgspec.msgpack.Decoder(tuple[int, bytes, int, bytes])
_more = msgspec.msgpack.Decoder(tuple[int, bytes, int, bytes, dict[str, msgspec.Raw]])


def encode_flow_state(state: FlowState) -> bytes:
    """Return the state as it is kept: a byte for each step, and two for each whose run has ended."""
    parts = int(state.phase), state.steps, state.live, state.ends
    more = {
        name: part.write(given)
        for name, part in _PARTS.items()
        if (given := getattr(state, name)) != part.default
    }
    if not more:
        return bytes((_PLAIN,)) + _encoder.encode(parts)
    return bytes((_MORE,)) + _encoder.encode((*parts, more))


def holds_words(kept: bytes) -> bool:
    """Say whether a kept state may hold more than numbers: what users wrote, or what their steps returned."""
    return kept[:1] == bytes((_MORE,))


def decode_flow_state(kept: bytes) -> FlowState:
    """Decode what `encode_flow_state` wrote.

    Raises:
        UnreadableFlow: it is of a later form, or damaged.
    """
    form = kept[0] if kept else None
    try:
        if form == _PLAIN:
            return FlowState.restore(*_plain.decode(memoryview(kept)[1:]))
        if form == _MORE:
            phase, steps, live, ends, more = _more.decode(memoryview(kept)[1:])
            parts = {name: _read(name, raw) for name, raw in more.items()}
            return FlowState.restore(phase, steps, live, ends, **parts)
    except msgspec.DecodeError as error:
        raise UnreadableFlow(f"is damaged: {error}") from None
    raise UnreadableFlow(f"form {form or 'none'} is not known; this program knows {_MORE}")


@value()
class _Part:
    """A part of a state that only some flows have.

    Attributes:
        form: the type of what is kept.
        write, read: from the attribute of the state to what is kept, and back. A `ValueError` says that it is none.
        default: of the attribute. It is not kept.
    """

    form: Any
    write: Callable[[Any], object]
    read: Callable[[Any], Any]
    default: object


def _read(name: str, raw: msgspec.Raw) -> Any:
    part = _PARTS.get(name)
    if part is None:
        raise UnreadableFlow(f"part {name[:70]!r} is not known")
    try:
        return part.read(msgspec.msgpack.decode(raw, type=part.form))
    except (ValueError, OverflowError) as error:  # a DecodeError is a ValueError
        raise UnreadableFlow(f"part {name!r} is damaged: {error}") from None


_KeptMap = tuple[int, int, int, int, int, int, int, bytes]
"""The step, and the attributes of `MapState`."""


def _write_maps(maps: Maps) -> list[_KeptMap]:
    return [
        (step, one.count, one.started, one.succeeded, one.failed, one.skipped, one.floor, one.ended)
        for step, one in maps
    ]


def _read_maps(kept: list[_KeptMap]) -> Maps:
    return tuple([(one[0], MapState.restore(*one[1:])) for one in kept])


def _write_taken(taken: Taken) -> list[tuple[int, int, int, bytes]]:
    return [(one.step, one.flow_id, one.place, one.items) for one in taken]


def _read_taken(kept: list[tuple[int, int, int, bytes]]) -> Taken:
    return tuple([TakenStep(step, RunId(flow_id), place, items) for step, flow_id, place, items in kept])


def _write_timers(timers: Timers) -> list[tuple[int, int, int]]:
    return [(write_micros(timer.at), int(timer.kind), timer.step) for timer in timers]


def _read_timers(kept: list[tuple[int, int, int]]) -> Timers:
    return sort_timers([FlowTimer(read_micros(at), TimerKind(kind), step) for at, kind, step in kept])


_KeptWait = tuple[int, int | None, str | None, int | None, str | None, str | None, bool]
"""The attributes of `WaitState`, instants as microseconds."""


def _write_waits(waits: Waits) -> list[_KeptWait]:
    return [
        (
            one.step,
            None if one.since is None else write_micros(one.since),
            None if one.kind is None else one.kind.value,
            None if one.at is None else write_micros(one.at),
            one.by,
            one.comment,
            one.is_late,
        )
        for one in waits
    ]


def _read_waits(kept: list[_KeptWait]) -> Waits:
    return tuple(
        [
            WaitState(
                step,
                None if since is None else read_micros(since),
                None if kind is None else AnswerKind(kind),
                None if at is None else read_micros(at),
                by,
                comment,
                is_late,
            )
            for step, since, kind, at, by, comment, is_late in kept
        ]
    )


def write_micros(instant: datetime) -> int:
    """Return an instant as it is kept within a state: microseconds since 1970."""
    return (instant - _EPOCH) // _MICROSECOND


def read_micros(micros: int) -> datetime:
    """Return the instant that was kept.

    Raises:
        OverflowError: there is no such instant.
    """
    return _EPOCH + timedelta(microseconds=micros)


_PARTS: dict[str, _Part] = {
    "timers": _Part(list[tuple[int, int, int]], _write_timers, _read_timers, ()),
    "cause": _Part(int, int, FlowPhase, FlowPhase.OPEN),
    "is_paused": _Part(bool, bool, bool, False),
    "errors": _Part(tuple[tuple[int, str], ...], tuple, tuple, ()),
    "maps": _Part(list[_KeptMap], _write_maps, _read_maps, ()),
    "waits": _Part(list[_KeptWait], _write_waits, _read_waits, ()),
    "taken": _Part(list[tuple[int, int, int, bytes]], _write_taken, _read_taken, ()),
}
"""What only some flows have, by name: that of the attribute, too."""
