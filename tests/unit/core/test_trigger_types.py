"""Triggers of packages: what their instants must be, checked when a job is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.definition import read_definition
from mainspring.core.options import Option, Options
from mainspring.core.times import Duration
from mainspring.core.triggers import TRIGGERS, TriggerType
from mainspring.errors import InvalidInput
from mainspring.testing.factories import START, at

INSTANTS: list[Callable[[datetime], Any]] = []


@dataclass(frozen=True, slots=True)
class Toy:
    step: timedelta

    def next_after(self, instant: datetime) -> Any:
        return INSTANTS[0](instant)

    def previous_before(self, instant: datetime) -> Any:
        return None


class ToyType(TriggerType):
    name = "toy-of-a-test"
    summary = "Fires as the test says."
    value = Toy
    options = Options(Option(name="step", kind=Duration(), summary="A step."))


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    TRIGGERS.add(ToyType())
    yield
    del TRIGGERS.by_name["toy-of-a-test"]
    INSTANTS.clear()


def read(answer: Callable[[datetime], Any]) -> None:
    INSTANTS[:] = [answer]
    body = {"name": "a", "function": "f", "trigger": {"type": "toy-of-a-test", "step": "1s"}}
    read_definition(body, now=START)


def test_trigger_that_advances_is_taken() -> None:
    read(lambda instant: instant + timedelta(seconds=1))
    read(lambda instant: at(5) if instant < at(5) else None)


def fail(instant: datetime) -> None:
    raise ZeroDivisionError(f"at {instant}")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda instant: instant, "must return a later instant"),
        (lambda _: at(5), "must return a later instant"),
        (lambda instant: instant - timedelta(seconds=1), "must return a later instant"),
        (lambda instant: instant.replace(tzinfo=None) + timedelta(1), "must return an aware datetime"),
        (lambda _: "soon", "must return an aware datetime"),
        (lambda _: None, "it never fires"),
        (fail, "its next_after raised ZeroDivisionError: at 2026"),
    ],
)
def test_trigger_whose_instants_cannot_be_planned_is_refused(
    answer: Callable[[datetime], Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        read(answer)
    assert refused.value.field == "trigger"
    assert "'toy-of-a-test'" in str(refused.value)
