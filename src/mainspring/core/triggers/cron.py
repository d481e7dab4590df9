"""Cron: by an expression in a time zone. The engine is in `core.cron`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from mainspring.core.cron import Cron, CronError
from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.base import Trigger, TriggerType
from mainspring.core.triggers.wall_kinds import DST, TZ, CheckedText
from mainspring.errors import InvalidInput


class CronType(TriggerType):
    """`cron`, with `tz` and `dst`."""

    name = "cron"
    is_own = True
    summary = "Fires by a cron expression, as Debian's cron reads it, without its traps."
    value = Cron
    options: ClassVar[Options] = Options(
        Option(
            name="expression",
            kind=CheckedText("text like '*/5 * * * *'"),
            summary="Fire by a cron expression: five fields, or six with seconds first.",
            example="0 9 * * *",
        ),
        TZ,
        DST,
        Option(
            name="chosen",
            kind=CheckedText("what Mainspring answers"),
            summary="The expression with the values that the job's name chose for H and ~.",
            detail="Mainspring chooses it; what you write here is not used.",
            default=None,
            is_nullable=True,
        ),
    )
    short: ClassVar[Mapping[str, str]] = {"cron": "expression", "tz": "tz", "dst": "dst"}

    def make(self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None) -> Cron:
        """Make a trigger that fires within the next hundred years."""
        del old
        try:
            cron = Cron(values["expression"], values["tz"], values["dst"])
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
        return Cron.kept(plain["expression"], plain["tz"], plain["dst"], plain.get("chosen"))

    def store(self, trigger: Cron) -> dict[str, Any]:
        """Return the full form, with what was chosen if there was a choice."""
        plain = {"expression": trigger.expression, "tz": trigger.tz, "dst": trigger.dst}
        return plain if trigger.chosen is None else {**plain, "chosen": trigger.chosen}

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Show the expression, what was chosen, and the zone where it is not UTC."""
        chosen = "" if plain.get("chosen") is None else f" = {plain['chosen']}"
        zone = "" if plain["tz"] == "UTC" else f" ({plain['tz']})"
        return f"{plain['expression']}{chosen}{zone}"
