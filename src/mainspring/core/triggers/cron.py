"""Cron: by an expression in a time zone. The engine is in `core.cron`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from mainspring.core.cron import Cron, CronError
from mainspring.core.kinds import Kind, Schema
from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.base import Trigger, TriggerType
from mainspring.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class _CronText(Kind):
    """Text of which the cron engine says what is wrong with it."""

    right: str
    metavar: ClassVar[str] = "TEXT"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read text."""
        del old
        if not isinstance(value, str):
            raise InvalidInput(path, f"must be {self.right}")
        return value

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string"}

    def limits(self) -> str:
        """Say what it is."""
        return self.right


class CronType(TriggerType):
    """`cron`, with `tz` and `dst`."""

    name = "cron"
    summary = "Fires by a cron expression, as Debian's cron reads it, without its traps."
    value = Cron
    options = Options(
        Option(
            name="expression",
            kind=_CronText("text like '*/5 * * * *'"),
            summary="Fire by a cron expression: five fields, or six with seconds first.",
            example="0 9 * * *",
        ),
        Option(
            name="tz",
            kind=_CronText("an IANA name like Europe/Berlin"),
            summary="The expression's time zone, like Europe/Berlin.",
            default="UTC",
            elsewhere="write an instant's offset in run_at",
            example="Europe/Berlin",
        ),
        Option(
            name="dst",
            kind=_CronText("'vixie' or GAP/OVERLAP"),
            summary="What becomes of fixed times when clocks change: vixie, or GAP/OVERLAP.",
            default="vixie",
            example="skip/both",
        ),
    )
    short: ClassVar = {"cron": "expression", "tz": "tz", "dst": "dst"}

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> Cron:
        """Make a trigger that fires within the next hundred years."""
        del old
        try:
            cron = Cron(**values)
        except CronError as error:
            if error.field in {"tz", "dst"}:
                raise InvalidInput(path(error.field), error.message) from error
            where = "" if error.field == "expression" else f"{error.field}: "
            raise InvalidInput(path("expression"), f"{where}{error.message}") from error
        if cron.next_after(now) is None:
            message = f"{cron.expression!r} does not fire within the next hundred years"
            raise InvalidInput(path("expression"), message)
        return cron

    def load(self, plain: Mapping[str, Any]) -> Cron:
        """Read the full form; the expression is read when its fires are asked for."""
        return Cron.kept(plain["expression"], plain["tz"], plain["dst"])

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Show the expression, and the zone where it is not UTC."""
        zone = "" if plain["tz"] == "UTC" else f" ({plain['tz']})"
        return f"{plain['expression']}{zone}"
