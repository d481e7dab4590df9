"""Secrets by reference: what is stored names a secret, and the settings of the process that uses it say where it is.

A signing key is named whole, as `secret:NAME`. Within a text, such as the value of a header, `${secret:NAME}` stands
for a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, ClassVar

from mainspring.core.fields import MAX_WORD, kind, read_word
from mainspring.core.kinds import Kind, Schema
from mainspring.core.values import value
from mainspring.errors import InvalidInput

PREFIX = "secret:"
HIDDEN = "***"
"""Stands for a secret wherever a text is shown."""
SHORTEST = 6
"""Characters of the shortest secret that is blanked out of texts: a shorter one would blank what only looks alike."""
_LEAST_PART = 3
"""Characters of the shortest part of a secret that is blanked out at a cut: fewer stand there by chance."""
_MOST_HELD = 1 << 20
"""Characters of a text in pieces that are held back, at most."""
_BROKEN = "\ufffd"
"""What decoding makes of a character that a cut has divided."""
_OPEN = "${secret:"
_MARK = re.compile(rf"\$\{{secret:([A-Za-z0-9._-]{{1,{MAX_WORD}}})\}}", re.ASCII)
_RAW = re.compile(r"\$\{(env|file|vault):", re.IGNORECASE)


def read_reference(value: object, field: str) -> str:
    """Return the name in a reference like `secret:ops-hook`.

    Raises:
        InvalidInput: it is none. The message does not show the value, which may be a secret itself.
    """
    if not isinstance(value, str) or not value.startswith(PREFIX):
        given = "" if isinstance(value, str) else f", not {kind(value)}"
        message = f"must name a secret of the settings, like 'secret:ops-hook'{given}"
        raise InvalidInput(field, message)
    return read_word(value.removeprefix(PREFIX), field)


@value()
class SecretName(Kind):
    """A reference to a secret, kept as the secret's name."""

    metavar: ClassVar[str] = "secret:NAME"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a reference."""
        del old
        return read_reference(value, path)

    def store(self, value: str) -> str:
        """Return the reference."""
        return PREFIX + value

    def load(self, plain: str) -> str:
        """Return the name."""
        return plain.removeprefix(PREFIX)

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "pattern": f"^{PREFIX}"}

    def limits(self) -> str:
        """Say how it is written."""
        return f"`{PREFIX}NAME`"


def check_marks(text: str, field: str, *, is_strict: bool = False) -> None:
    """Refuse a text in which a `${secret:…}` has no right name.

    Args:
        is_strict: also refuse what would name a variable or a file of the server itself, such as `${env:…}`.

    Raises:
        InvalidInput: there is one.
    """
    if text.count(_OPEN) != len(_MARK.findall(text)):
        message = f"${{secret:NAME}} needs a name of 1 to {MAX_WORD} of A-Z a-z 0-9 . _ -"
        raise InvalidInput(field, message)
    found = _RAW.search(text) if is_strict else None
    if found is not None:
        message = f"${{{found[1]}:…}} is not read here; name a secret of the settings: ${{secret:NAME}}"
        raise InvalidInput(field, message)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the secrets that a text holds, each once."""
    return tuple(dict.fromkeys(_MARK.findall(text)))


def is_mark(text: str) -> bool:
    """Say whether a text is one `${secret:NAME}` and nothing else."""
    return _MARK.fullmatch(text) is not None


def fill(text: str, reveal: Callable[[str], str]) -> str:
    """Return a text with the secrets in their places. What a secret holds is not read again.

    Args:
        reveal: from a name to the secret.
    """
    return _MARK.sub(lambda found: reveal(found[1]), text)


def mask(
    text: str, secrets: Iterable[str], *, is_cut_before: bool = False, is_cut_after: bool = False
) -> str:
    """Return a text in which no secret of at least `SHORTEST` characters stands.

    Args:
        is_cut_before: the text begins where a longer one was cut, so the end of a secret may stand there.
        is_cut_after: it ends there, so the beginning of a secret may stand there.
    """
    first = len(text) - len(text.lstrip(_BROKEN)) if is_cut_before else 0
    last = len(text.rstrip(_BROKEN)) if is_cut_after else len(text)
    spans: list[tuple[int, int]] = []
    for secret in secrets:
        if len(secret) < SHORTEST:
            continue
        spans += _places_of(secret, text)
        if is_cut_before:
            spans.append((first, first + _overlap(secret[::-1], text[first : first + len(secret)][::-1])))
        if is_cut_after:
            spans.append((last - _overlap(secret, text[max(0, last - len(secret)) : last]), last))
    return _blank(text, spans)


class PieceMask:
    """Hides secrets in a text that comes in pieces, however small they are.

    What may be the beginning of a secret is held back until the next piece tells, or the end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_cut_before = False

    def add(self, piece: str, secrets: Collection[str]) -> str:
        """Return what can be shown by now."""
        text = self._held + piece
        stop = _stop_before(text, [secret for secret in secrets if len(secret) >= SHORTEST])
        self._held = text[stop:]
        if len(self._held) > _MOST_HELD:  # a secret that goes on with its own beginning, again and again
            return self.cut(secrets)
        return self._mask(text[:stop], secrets)

    def cut(self, secrets: Collection[str]) -> str:
        """Return what was held back. The next piece does not follow on this one."""
        text, self._held = self._held, ""
        shown = self._mask(text, secrets, is_cut_after=True)
        self._is_cut_before = True
        return shown

    def _mask(self, text: str, secrets: Collection[str], *, is_cut_after: bool = False) -> str:
        if not text:
            return ""
        is_cut_before, self._is_cut_before = self._is_cut_before, False
        return mask(text, secrets, is_cut_before=is_cut_before, is_cut_after=is_cut_after)


def _stop_before(text: str, secrets: Collection[str]) -> int:
    """Return where the last part of a text begins that may go on as a secret, and so may what stands before it."""
    stop = len(text)
    for secret in secrets:
        for size in range(min(len(secret) - 1, len(text)), 0, -1):
            if text[-1] == secret[size - 1] and text.endswith(secret[:size]):
                stop = min(stop, len(text) - size)
                break
    spans = [place for secret in secrets for place in _places_of(secret, text)]
    for start, end in sorted(spans, key=lambda span: span[1], reverse=True):
        if start < stop < end:
            stop = start
    return stop


def _places_of(secret: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + 1)


def _overlap(secret: str, end: str) -> int:
    """Return how many of a secret's first characters a text ends with, short of the whole; 0 if they say little."""
    for size in range(min(len(secret) - 1, len(end)), _LEAST_PART - 1, -1):
        if end[-1] == secret[size - 1] and end.endswith(secret[:size]):
            return size
    return 0


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text with a mark in the place of each span. Spans that overlap have one together."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start == end:
            continue
        if start >= done:
            pieces += (text[done:start], HIDDEN)
        done = max(done, end)
    return "".join([*pieces, text[done:]])
