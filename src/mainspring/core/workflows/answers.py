"""Answers to steps that wait, as mail carries them and as a flow keeps them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mainspring.core.fields import decode_payload, encode_payload
from mainspring.core.values import value
from mainspring.core.workflows.waits import AnswerKind

_DECISIONS = {AnswerKind.APPROVE: "approved", AnswerKind.REJECT: "rejected"}


@value()
class Said:
    """What somebody says with an answer.

    Attributes:
        by: who it is; None if nobody was told apart.
        comment: why, in words.
        data: JSON text in UTF-8 for the steps that follow; None if there is none.
    """

    by: str | None = None
    comment: str | None = None
    data: bytes | None = None


@value()
class StepAnswer:
    """Mail: somebody has answered a step that waits, or will wait.

    Attributes:
        step: its place in the workflow.
        words: as `encode_words` makes them, or `pack_event`; None if nothing is said.
    """

    step: int
    kind: AnswerKind
    words: bytes | None = None


@value()
class WaitState:
    """How far the wait of a step has come, from when it starts or is answered.

    Attributes:
        since: when it started; None: it has not, and was answered already.
        kind: how it was answered; None: it was not, or not in time.
        at: when the flow took the answer.
        by, comment: as of `Said`.
        is_late: it took too long.
    """

    step: int
    since: datetime | None = None
    kind: AnswerKind | None = None
    at: datetime | None = None
    by: str | None = None
    comment: str | None = None
    is_late: bool = False


def encode_words(words: Said) -> bytes | None:
    """Return words as JSON text; None if there are none."""
    plain: dict[str, Any] = {"by": words.by, "comment": words.comment}
    plain = {name: given for name, given in plain.items() if given is not None}
    if words.data is not None:
        plain["data"] = decode_payload(words.data)
    return encode_payload(plain) if plain else None


def decode_words(kept: bytes | None) -> Said:
    """Return the words that `encode_words` wrote.

    Raises:
        ValueError: they are none.
    """
    if kept is None:
        return Said()
    plain = decode_payload(kept)
    if isinstance(plain, dict):
        data = encode_payload(plain["data"]) if "data" in plain else None
        return Said(plain.get("by"), plain.get("comment"), data)
    raise ValueError("the words of an answer are no object")


def pack_event(topic: str, data: bytes | None) -> bytes:
    """Return an event as the words of an answer: its topic, which has no NUL, a NUL, and its data."""
    return topic.encode() + b"\0" + (data or b"")


def unpack_event(words: bytes) -> tuple[str, bytes | None]:
    """Return the topic and the data of an event from what `pack_event` made."""
    topic, _, data = words.partition(b"\0")
    return topic.decode(), data or None


def payload_of(answer: StepAnswer) -> bytes | None:
    """Return what is said with an answer, which may be encrypted."""
    if answer.kind is AnswerKind.EVENT and answer.words is not None:
        return unpack_event(answer.words)[1]
    return answer.words


def said_with(answer: StepAnswer) -> Said:
    """Return what is said with an answer. Of an event, nobody says anything but its data."""
    if answer.kind is AnswerKind.EVENT:
        return Said(data=payload_of(answer))
    return decode_words(answer.words)


def result_of(answer: StepAnswer) -> bytes | None:
    """Return what a step has returned that ends with an answer, as JSON text."""
    words = said_with(answer)
    decision = _DECISIONS.get(answer.kind)
    if decision is None:
        return words.data
    return encode_payload({"decision": decision, "by": words.by, "comment": words.comment})


def tell_rejection(by: str | None, comment: str | None) -> str:
    """Return in words that somebody has rejected."""
    return _tell("rejected", by, comment)


def tell_answer(state: WaitState) -> str | None:
    """Return in words how a step was answered that has succeeded; None if it was not."""
    return None if state.kind is None else _tell(_DONE[state.kind], state.by, state.comment)


_DONE = {
    AnswerKind.SIGNAL: "signal sent",
    AnswerKind.APPROVE: "approved",
    AnswerKind.REJECT: "rejected",
    AnswerKind.COMPLETE: "ended by hand",
    AnswerKind.EVENT: "the event came",
}


def _tell(done: str, by: str | None, comment: str | None) -> str:
    who = done if by is None else f"{done} by {by}"
    return who if comment is None else f"{who}: {comment}"
