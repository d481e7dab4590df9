"""The form in which stores keep the state of a flow: a byte that numbers the form, and MessagePack."""

from __future__ import annotations

import msgspec

from mainspring.core.workflows.state import FlowState, UnreadableFlow

_FORM = 1
"""Grows with each change of the form. What an older program cannot read, it must not decide about."""
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[int, bytes, int, bytes])


def encode_flow_state(state: FlowState) -> bytes:
    """Return the state as it is kept: a byte for each step, and two for each whose run has ended."""
    return bytes((_FORM,)) + _encoder.encode((int(state.phase), state.steps, state.live, state.ends))


def decode_flow_state(kept: bytes) -> FlowState:
    """Decode what `encode_flow_state` wrote.

    Raises:
        UnreadableFlow: it is of a later form, or damaged.
    """
    if not kept or kept[0] != _FORM:
        raise UnreadableFlow(f"form {kept[0] if kept else 'none'} is not known; this program knows {_FORM}")
    try:
        parts = _decoder.decode(memoryview(kept)[1:])
    except msgspec.DecodeError as error:
        raise UnreadableFlow(f"is damaged: {error}") from None
    return FlowState.restore(*parts)
