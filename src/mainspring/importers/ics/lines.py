"""Splits a file into the lines of its events. Each line keeps its number, so that an error can name it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from icalendar.parser import Contentline

from mainspring.core.values import value
from mainspring.errors import InvalidInput

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NAME = re.compile(rb"[A-Za-z0-9-]{1,100}(?=[:;])")
_OF_EVENT = frozenset({
    *("DTSTART", "DTEND", "DURATION", "RRULE", "EXRULE", "RDATE", "EXDATE", "RECURRENCE-ID"),
    *("UID", "SEQUENCE", "STATUS", "SUMMARY", "X-MICROSOFT-CDO-ALLDAYEVENT"),
})  # fmt: skip
_OF_CALENDAR = frozenset({"CALSCALE", "METHOD", "X-WR-TIMEZONE"})
_MAY_REPEAT = frozenset({"RRULE", "EXRULE", "RDATE", "EXDATE"})
_MOST_EVENTS = 10_000
_DEEPEST = 10
"""Components that may lie one in the other; calendars need three."""


@value()
class IcsLine:
    """A property.

    Attributes:
        number: the first of its lines in the file, from 1.
        name: in capitals.
        params: its parameters, names in capitals.
        value: as it is written.
    """

    number: int
    name: str
    params: Mapping[str, str]
    value: str

    def refuse(self, message: str) -> NoReturn:
        """Raise the error that names this line."""
        raise InvalidInput(f"line {self.number}: {self.name}", message)


@value()
class IcsEventLines:
    """The lines of one event that matter here, by name.

    Attributes:
        begin: its BEGIN.
    """

    begin: IcsLine
    lines: dict[str, list[IcsLine]] = field(default_factory=dict)

    def get(self, name: str) -> IcsLine | None:
        """Return a property that an event has once; None if it has none."""
        found = self.lines.get(name)
        return None if found is None else found[0]

    def every(self, name: str) -> list[IcsLine]:
        """Return a property that an event may have several times."""
        return self.lines.get(name, [])


@dataclass(slots=True)
class IcsLines:
    """The events of a file, and the properties of its calendar."""

    events: list[IcsEventLines] = field(default_factory=list)
    headers: dict[str, IcsLine] = field(default_factory=dict)


def read_lines(data: bytes) -> IcsLines:
    """Split a file.

    Raises:
        InvalidInput: it is not in iCalendar, not in UTF-8, or cut off.
    """
    found = IcsLines()
    open_ones: list[IcsLine] = []
    line: IcsLine | None = None
    for number, raw in _unfold(data.removeprefix(_BYTE_ORDER_MARK)):
        name = _name(number, raw, is_first=line is None)
        if name == "BEGIN":
            line = _parse(number, name, raw)
            _begin(line, open_ones, found)
        elif name == "END":
            line = _parse(number, name, raw)
            if not open_ones or open_ones.pop().value.upper() != line.value.upper():
                line.refuse("ends what did not begin; the file is damaged")
        elif not open_ones:
            _refuse_start(number)
        else:
            _keep(number, name, raw, open_ones[-1], found)
    if open_ones:
        open_ones[-1].refuse(f"{open_ones[-1].value[:60]} has no end; the file is cut off")
    if line is None:
        _refuse_start(1)
    return found


def _unfold(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each logical line, and its bytes: a fold may lie within a character."""
    parts: list[bytes] = []
    first = 1
    for number, raw in enumerate(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), start=1):
        if parts and raw[:1] in {b" ", b"\t"}:
            parts.append(raw[1:])
            continue
        if parts:
            yield first, b"".join(parts)
        parts, first = ([raw] if raw.strip() else []), number
    if parts:
        yield first, b"".join(parts)


def _name(number: int, raw: bytes, *, is_first: bool) -> str:
    match = _NAME.match(raw)
    if match is None:
        if is_first:
            _refuse_start(number)
        raise InvalidInput(f"line {number}", "must be a property like DTSTART:20261224")
    return match[0].decode().upper()


def _refuse_start(number: int) -> NoReturn:
    raise InvalidInput(
        f"line {number}: BEGIN", "an ICS file begins with BEGIN:VCALENDAR, in UTF-8; this is something else"
    )


def _parse(number: int, name: str, raw: bytes) -> IcsLine:
    field_name = f"line {number}: {name}"
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        message = f"is not UTF-8: byte {error.start + 1} of the line is 0x{raw[error.start]:02x}"
        raise InvalidInput(field_name, message) from None
    try:
        _, params, value = Contentline(text).raw_parts()  # type: ignore[no-untyped-call]  # it has no types
    except ValueError:
        raise InvalidInput(field_name, "cannot be read: its parameters are not NAME=VALUE") from None
    plain = {
        key.upper(): given if isinstance(given, str) else ",".join(given) for key, given in params.items()
    }
    return IcsLine(number, name, plain, value.strip())


def _begin(line: IcsLine, open_ones: list[IcsLine], found: IcsLines) -> None:
    if not open_ones and line.value.upper() != "VCALENDAR":
        _refuse_start(line.number)
    if len(open_ones) >= _DEEPEST:
        line.refuse(f"lies in {_DEEPEST} others; the file is damaged")
    if line.value.upper() == "VEVENT":
        if len(found.events) >= _MOST_EVENTS:
            line.refuse(f"the file has more than {_MOST_EVENTS:,} events; export fewer")
        found.events.append(IcsEventLines(line))
    open_ones.append(line)


def _keep(number: int, name: str, raw: bytes, within: IcsLine, found: IcsLines) -> None:
    kind = within.value.upper()
    if kind == "VEVENT" and name in _OF_EVENT:
        lines = found.events[-1].lines
        line = _parse(number, name, raw)
        if name in lines and name not in _MAY_REPEAT:
            line.refuse("is given twice in one event")
        lines.setdefault(name, []).append(line)
    elif kind == "VCALENDAR" and name in _OF_CALENDAR:
        found.headers.setdefault(name, _parse(number, name, raw))
