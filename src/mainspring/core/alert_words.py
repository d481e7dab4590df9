"""How alerts say numbers and times."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.fields import show


def count(number: int, noun: str) -> str:
    """Return a number with what it counts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_roughly(duration: timedelta) -> str:
    """Return a duration as people tell it: whole seconds, and no seconds where they no longer matter.

    What happened on a server whose clock is ahead of this one's has happened just now.
    """
    duration = max(duration, timedelta(0))
    step = timedelta(minutes=1) if duration >= timedelta(hours=1) else timedelta(seconds=1)
    return show(duration - duration % step)


def show_percent(share: float) -> str:
    """Return a share as percent: with so many digits that it is not said to be all, or nothing, unless it is."""
    percent = 100 * share
    texts = [f"{percent:.{digits}f}" for digits in range(5)]
    fitting = (
        text
        for digits, text in enumerate(texts)
        if float(text) == percent or (digits and float(text) not in {0.0, 100.0})
    )
    text = next(fitting, texts[-1])
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"
