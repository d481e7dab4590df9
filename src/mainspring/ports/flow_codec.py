"""The form in which stores keep the state of a flow: a byte that numbers the form, and MessagePack.

Form 1 has what every flow has. Form 2 has besides a map by name of what else there is; it is kept only if there is
something, so that flows which use nothing of it cost no more than before.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from mainspring.core.workflows.state import FlowPhase, FlowState, UnreadableFlow

_PLAIN, _MORE = 1, 2
"""What an older program cannot read, it must not decide about. So each change of the form has a number of its own."""
_READERS: dict[str, Any] = {"errors": tuple[tuple[int, str], ...]}
"""What else there may be: fields of the state, and what is read of them. What is as its default is left out."""
_given = attrgetter(*_READERS)
_DEFAULT = FlowState(FlowPhase.OPEN, b"", 0, b"")
_NOTHING = _given(_DEFAULT)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[int, bytes, int, bytes])
_decoder_of_more = msgspec.msgpack.Decoder(tuple[int, bytes, int, bytes, dict[str, Any]])


def encode_flow_state(state: FlowState) -> bytes:
    """Return the state as it is kept: a byte for each step, and two for each whose run has ended."""
    parts = (int(state.phase), state.steps, state.live, state.ends)
    if _given(state) == _NOTHING:
        return bytes((_PLAIN,)) + _encoder.encode(parts)
    more = {name: given for name in _READERS if (given := getattr(state, name)) != getattr(_DEFAULT, name)}
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
            return FlowState.restore(*_decoder.decode(memoryview(kept)[1:]))
        if form == _MORE:
            phase, steps, live, ends, more = _decoder_of_more.decode(memoryview(kept)[1:])
            return FlowState.restore(phase, steps, live, ends, **_read(more))
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnreadableFlow(f"is damaged: {error}") from None
    raise UnreadableFlow(f"form {form or 'none'} is not known; this program knows {_PLAIN} and {_MORE}")


def _read(more: dict[str, Any]) -> dict[str, Any]:
    if unknown := more.keys() - _READERS.keys():
        raise UnreadableFlow(f"{min(unknown)!r} is not known; it is of a later release")
    return {name: msgspec.convert(given, _READERS[name]) for name, given in more.items()}
