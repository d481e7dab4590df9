"""The option `concurrency`: the limits under which a job's runs start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from mainspring.core.definition.once import KeyText
from mainspring.core.fields import check_known, kind
from mainspring.core.kinds import Kind, Schema, Word
from mainspring.core.limit_settings import BURST, HOLD, MAX_RUNNING, RATE
from mainspring.core.limits import MOST_LIMITS, JobLimit
from mainspring.core.model import JobSpec
from mainspring.core.once import OnConflict
from mainspring.core.options import Option, Options
from mainspring.core.values import value
from mainspring.errors import InvalidInput

CAP = replace(MAX_RUNNING, name="limit")
ENTRY = Options(
    CAP,
    Option(
        name="key",
        kind=KeyText(),
        default=None,
        is_nullable=True,
        summary="One line for each key.",
        detail="Without it, all runs stand in one line.",
        example="$.customer",
    ),
    RATE,
    BURST,
    HOLD,
    Option(
        name="use",
        kind=Word(),
        default=None,
        is_nullable=True,
        summary="The name of a limit that jobs share; it says all but the key.",
    ),
)
JOB_RATE = replace(
    RATE,
    summary="Short for a limit of the whole job that has only a rate.",
    detail="It counts among the three of `concurrency`, and is kept and shown as one of them.",
    example="100/m",
)
_OWN = ("limit", "rate", "burst", "hold")


@value()
class LimitList(Kind):
    """A list of limits; one alone may stand without a list, and a cap as a number."""

    is_nested: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[JobLimit, ...]:
        """Read limits. A patch replaces all of them."""
        del old
        if isinstance(value, int) and not isinstance(value, bool):
            return (JobLimit(limit=CAP.read(value, path)),)
        if isinstance(value, Mapping):
            return (self._read_entry(value, path),)
        if not isinstance(value, list | tuple) or len(value) > MOST_LIMITS:
            raise InvalidInput(
                path, f"must be a number, an object, or a list of at most {MOST_LIMITS} objects"
            )
        return tuple(self._read_entry(item, f"{path}[{place}]") for place, item in enumerate(value))

    def _read_entry(self, value: object, path: str) -> JobLimit:
        if not isinstance(value, Mapping):
            names = ", ".join(option.name for option in ENTRY)
            raise InvalidInput(path, f"must be an object of {names}, not {kind(value)}")
        check_known(value, ENTRY.by_form, prefix=f"{path}.")
        found = ENTRY.read_given(value, lambda name: f"{path}.{name}")
        given = {name: one for name, one in found.items() if one is not None}
        if "use" in given:
            for name in _OWN:
                if name in given:
                    raise InvalidInput(
                        f"{path}.{name}", f"is said by the limit {given['use']!r}; leave it out"
                    )
        elif "limit" not in given and "rate" not in given:
            raise InvalidInput(path, "must have a limit, a rate, or use: the name of a shared limit")
        if "burst" in given and "rate" not in given:
            raise InvalidInput(f"{path}.burst", "goes with a rate, which is not given")
        return replace(JobLimit(), **given)

    def store(self, value: tuple[JobLimit, ...]) -> list[dict[str, Any]]:
        """Return a list of objects, of what was given."""
        return [
            {
                option.key: option.store(getattr(limit, option.name))
                for option in ENTRY
                if getattr(limit, option.name) != option.default
            }
            for limit in value
        ]

    def load(self, plain: list[dict[str, Any]]) -> tuple[JobLimit, ...]:
        """Return the limits."""
        return tuple(JobLimit(**ENTRY.load(entry)) for entry in plain)

    def schema(self) -> Schema:
        """Return the schema of all three forms."""
        return {"anyOf": [CAP.kind.schema(), ENTRY.schema(), self.stored_schema()]}

    def stored_schema(self) -> Schema:
        """Return the schema of a list of objects."""
        properties = {option.key: option.stored_schema() for option in ENTRY}
        entry: Schema = {"type": "object", "properties": properties}
        return {"type": "array", "maxItems": MOST_LIMITS, "items": entry}

    def limits(self) -> str:
        """Say its forms."""
        return f"a number, an object, or a list of at most {MOST_LIMITS} objects"


def check_line(spec: JobSpec, body: Mapping[str, Any]) -> None:
    """Refuse more limits than a run has room for. The line of a job whose runs follow one another takes up one.

    Args:
        body: what the user wrote.

    Raises:
        InvalidInput: the field is one that the user wrote.
    """
    if not spec.overlap.lines_up or len(spec.concurrency) < MOST_LIMITS:
        return
    most, overlap = MOST_LIMITS - 1, spec.overlap.value
    if "concurrency" in body:
        raise InvalidInput(
            "concurrency", f"must have at most {most} limits beside overlap {overlap!r}, which takes up one"
        )
    message = (
        f"{overlap!r} takes up one of {MOST_LIMITS} limits, and the job has {MOST_LIMITS}; take one away"
    )
    raise InvalidInput("overlap", message)


def settle_rate(body: Mapping[str, Any], values: dict[str, Any], old: tuple[JobLimit, ...] = ()) -> None:
    """Put a job's rate in short form among its limits.

    Args:
        body: what the user wrote.
        values: the options that were read from it; `concurrency` is changed.
        old: the limits of the job that is changed. The short form changes that of them which it stands for.

    Raises:
        InvalidInput: the rate is wrong, is said twice, or is one limit too many.
    """
    if JOB_RATE.name not in body:
        return
    rate = JOB_RATE.read(body[JOB_RATE.name], JOB_RATE.name)
    limits: tuple[JobLimit, ...] = values.get("concurrency", old)
    places = [place for place, limit in enumerate(limits) if _is_rate_alone(limit)]
    if "concurrency" in values and places and rate is not None:
        message = f"says the same as 'concurrency[{places[0]}].rate'; give one of them"
        raise InvalidInput(JOB_RATE.name, message)
    if "concurrency" in values and rate is None:
        return
    if rate is None:
        values["concurrency"] = tuple(limit for limit in limits if not _is_rate_alone(limit))
    elif places:  # in its place, because the places of limits name their keys
        place = places[0]
        values["concurrency"] = (*limits[:place], replace(limits[place], rate=rate), *limits[place + 1 :])
    elif len(limits) == MOST_LIMITS:
        message = f"is a limit, too, and concurrency has {MOST_LIMITS} already, the most there can be"
        raise InvalidInput(JOB_RATE.name, message)
    else:
        values["concurrency"] = (*limits, JobLimit(rate=rate))


def _is_rate_alone(limit: JobLimit) -> bool:
    """Say whether a limit is what the short form stands for: a rate of the whole job."""
    return limit.rate is not None and limit.limit is None and limit.key is None and limit.use is None


def check_keys_stay(spec: JobSpec) -> None:
    """Refuse limits by parts of a payload that may change while a run waits: it would stand in the wrong line.

    Raises:
        InvalidInput: a limit's key is another part of the payload than that of the rule that replaces it.
    """
    if spec.debounce is not None:
        option, key = "debounce", spec.debounce.key
    elif spec.unique is not None and spec.unique.on_conflict is OnConflict.REPLACE:
        option, key = "unique", spec.unique.key
    else:
        return
    found = [(f"concurrency[{place}].key", limit.key) for place, limit in enumerate(spec.concurrency)]
    if spec.batch is not None:
        found.append(("batch.key", spec.batch.key))
    for field, own in found:
        if own is not None and own.startswith("$") and own != key:
            message = (
                f"may change while a run waits, because {option} replaces payloads; use the key of {option}"
            )
            raise InvalidInput(field, message)
