"""`H` and `~`: values that a job's name chooses."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.cron import Cron, CronError
from mainspring.core.cron.slots import choose_slots, has_slots
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.triggers import AnyOf, tell_trigger
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
items = st.sampled_from(
    ["H", "H/2", "H(1-5)", "H(2-6)/2", "~", "1~6", "2~", "~6", "~/3", "1", "*", "H,7", "1-6/2"]
)


@settings(max_examples=40)
@given(st.lists(items, min_size=5, max_size=6), st.text(max_size=20))
def test_what_is_chosen_is_plain_cron_and_stays(fields: list[str], key: str) -> None:
    text = " ".join(fields)
    chosen = choose_slots(text, key)
    assert not has_slots(chosen)
    assert choose_slots(text, key) == chosen
    assert Cron(text).with_slots(key).effective == chosen
    Cron(chosen)


@pytest.mark.parametrize(
    ("text", "place", "low", "high"),
    [
        ("H * * * *", 0, 0, 59),
        ("* H(9-16) * * *", 1, 9, 16),
        ("0 0 H * *", 2, 1, 28),
        ("0 0 1~31 * *", 2, 1, 31),
        ("0 0 ~ * *", 2, 1, 28),
        ("0 0 * H *", 3, 1, 12),
        ("0 0 * * H", 4, 0, 6),
        ("0 0 * * MON~FRI", 4, 1, 5),
        ("0 20~ * * *", 1, 20, 23),
        ("H * * * * *", 0, 0, 59),
    ],
)
def test_many_names_are_spread_over_the_whole_range_and_no_further(
    text: str, place: int, low: int, high: int
) -> None:
    found = Counter(int(choose_slots(text, f"default\0job-{n}").split()[place]) for n in range(3000))
    assert set(found) == set(range(low, high + 1))
    assert max(found.values()) < 3 * min(found.values())


def test_a_step_begins_where_the_name_says_and_comes_out_even() -> None:
    starts = {choose_slots("H/15 * * * *", f"job-{n}").split()[0] for n in range(300)}
    assert starts == {f"{n}-59/15" for n in range(15)}


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("H(5-70) * * * *", "minute", "'70' is not between 0 and 59"),
        ("H(9-5) * * * *", "minute", "runs backwards"),
        ("H/0 * * * *", "minute", "the step must be 1 to 60"),
        ("H(0-4)/9 * * * *", "minute", "the step must be 1 to 5"),
        ("H(x-5) * * * *", "minute", "'x' is not between"),
        ("1~2~3 * * * *", "minute", "write a range like 0~29"),
        ("0 0 30~31 2 *", "day of month", "never fires"),
        ("HH * * * *", "minute", "not a number"),
        ("h * * * *", "minute", "not a number"),
        ("H(1-5 * * * *", "minute", "not a number"),
    ],
)
def test_refusals(text: str, field: str, said: str) -> None:
    with pytest.raises(CronError) as refused:
        Cron(text)
    assert refused.value.field == field
    assert said in refused.value.message


def test_names_of_days_with_an_h_are_no_slots() -> None:
    assert not has_slots("0 0 * * THU")
    assert Cron("0 0 * * THU").chosen is None


def test_a_job_keeps_what_its_name_chose_and_shows_it() -> None:
    body = {"name": "nightly", "function": "f", "cron": "H H(1-4) * * *", "tz": "Europe/Berlin"}
    spec = read_definition(body, now=NOW)
    plain = plain_from_spec(spec)
    chosen = choose_slots("H H(1-4) * * *", "default\0nightly")
    assert plain["trigger"]["chosen"] == chosen
    assert tell_trigger(plain["trigger"]) == f"H H(1-4) * * * = {chosen} (Europe/Berlin)"
    assert spec_from_plain(plain) == spec
    assert read_definition(plain, now=NOW) == spec
    assert pickle.loads(pickle.dumps(spec.trigger)) == spec.trigger
    assert read_definition({**body, "name": "other"}, now=NOW).trigger != spec.trigger
    assert read_definition(body, now=NOW, tenant="acme").trigger != spec.trigger
    assert edit_definition(spec, {"name": "renamed"}, now=NOW).trigger == spec.trigger
    assert Cron(chosen, tz="Europe/Berlin").next_after(NOW) == spec.trigger.next_after(NOW)  # type: ignore[union-attr]


def test_what_is_chosen_in_a_full_form_is_not_taken_over() -> None:
    full = {"type": "cron", "expression": "H 3 * * *", "chosen": "1 2 3 4 5"}
    spec = read_definition({"name": "nightly", "function": "f", "trigger": full}, now=NOW)
    assert plain_from_spec(spec)["trigger"]["chosen"] == choose_slots("H 3 * * *", "default\0nightly")


def test_parts_of_any_of_have_slots_too() -> None:
    spec = read_definition(
        {"name": "nightly", "function": "f", "any_of": ["H 3 * * *", "H 15 * * *"]}, now=NOW
    )
    assert isinstance(spec.trigger, AnyOf)
    minutes = {part.effective.split()[0] for part in spec.trigger.triggers if isinstance(part, Cron)}
    assert minutes == {choose_slots("H 3 * * *", "default\0nightly").split()[0]}


def test_days_that_a_name_could_choose_and_that_never_come_are_refused() -> None:
    refused = []
    for number in range(20):
        try:
            read_definition({"name": f"job-{number}", "function": "f", "cron": "0 0 28~31 2 *"}, now=NOW)
        except InvalidInput as error:
            refused.append((error.field, "never fires" in error.message))
    assert set(refused) == {("cron", True)}
    assert len(refused) < 20
