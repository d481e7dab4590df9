"""The zone that somebody probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.cron.fields import CronError
from mainspring.core.cron.zone_names import near_zone
from mainspring.core.cron.zones import load_zone


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("new york", "America/New_York"),
        ("Asia/Calcuta", "Asia/Calcutta"),
        ("CEST", None),
        ("Mars/Olympus", None),
        ("", None),
    ],
)
def test_a_near_zone(written: str, meant: str | None) -> None:
    assert near_zone(written) == meant


@given(st.text(max_size=80))
def test_what_is_suggested_exists(written: str) -> None:
    meant = near_zone(written)
    if meant is not None:
        load_zone(meant)


def test_the_refusal_names_it() -> None:
    with pytest.raises(
        CronError, match=r"'Europe/Berln' is not a time zone known here; did you mean Europe/Berlin\?"
    ):
        load_zone("Europe/Berln")
