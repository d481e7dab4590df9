"""What about a schedule may surprise who wrote it, whatever other tools make of it."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.core.cron.fields import SIX, Field
from mainspring.core.cron.parse import Schedule

_EVERY_MONTH = 28


def find_surprises(schedule: Schedule) -> Iterator[str]:
    """Yield a sentence, without a full stop, for each field that is uneven or that names days not every month has."""
    masks = (
        schedule.seconds,
        schedule.minutes,
        schedule.hours,
        schedule.days,
        schedule.months,
        schedule.weekdays,
    )
    for field, text, mask in zip(SIX, schedule.texts, masks, strict=True):
        yield from _uneven(field, text, mask)
    days = schedule.days
    is_only_late = days and not days & ((2 << _EVERY_MONTH) - 2) and not schedule.month_ends
    if is_only_late and not schedule.nearest and not schedule.is_last_weekday:
        first = (days & -days).bit_length() - 1
        yield f"not every month has a day {first}, and those without it are left out; L is the last day of any month"


def _uneven(field: Field, text: str, mask: int) -> Iterator[str]:
    """Yield what is wrong with a step that runs to the field's end and does not come out even there."""
    body, slash, step_text = text.partition("/")
    runs_on = body == "*" or body.isdigit() or body.endswith(f"-{field.low + field.span - 1}")
    if not slash or not runs_on or not step_text.isdigit() or int(step_text) < 2:
        return
    step = int(step_text)
    values = [value for value in range(field.high + 1) if mask >> value & 1]
    if len(values) < 2:
        yield f"{text} in the {field.name} field is {values[0]} alone: the step is as long as the field"
        return
    if field.name == "day of month":
        yield f"{text} in the {field.name} field begins again with each month, so the last step of a month is shorter"
        return
    last = field.span - values[-1] + values[0]
    if last != step:
        yield (
            f"{text} in the {field.name} field does not come out even: "
            f"after {values[-1]} comes {values[0]}, which is {last} later instead of {step}"
        )
