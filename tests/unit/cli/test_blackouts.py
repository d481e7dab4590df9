"""Blackouts on the command line: which options go together, and how tables show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner

from mainspring.cli.commands.blackout import blackouts_command, with_blackouts
from mainspring.cli.commands.queue import queue_group
from mainspring.wire.blackouts import BlackoutView


def view(**facts: Any) -> BlackoutView:
    values: dict[str, Any] = {
        "scope": "queue",
        "name": "mail",
        "tenant": "default",
        "calendar": "nights",
        "version": 2,
        "mode": "hold",
        "note": "",
        "made_by": "local",
        "since": datetime(2026, 1, 5, tzinfo=UTC),
        "is_on": False,
        "until": None,
        "next_at": None,
    }
    return BlackoutView(**values | facts)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "--note", "b"], "--note needs --hold or --skip"),
        (["a", "--none", "--skip", "nights"], "--none removes all blackouts"),
        (["a", "--note", "x" * 201, "--hold", "nights"], "at most 200"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], said: str) -> None:
    result = CliRunner().invoke(queue_group, ["blackouts", *words])
    assert result.exit_code != 0
    assert said in str(result.exception) + result.output


def test_everything_stands_still_only_with_all() -> None:
    result = CliRunner().invoke(blackouts_command, ["--hold", "nights"])
    assert result.exit_code == 2
    assert "need --all" in result.output


def test_a_table_has_a_column_for_them_if_there_are_any() -> None:
    at = datetime(2026, 1, 6, tzinfo=UTC)
    rows = [("mail", 1), ("bulk", 2)]
    assert with_blackouts(("QUEUE", "N"), rows, {"other": [view()]}) == (("QUEUE", "N"), rows)
    blackouts = {"mail": [view(next_at=at), view(calendar="days@1", is_on=True, until=at), view()]}
    titles, shown = with_blackouts(("QUEUE", "N"), rows, blackouts)
    assert titles == ("QUEUE", "N", "BLACKOUTS")
    assert shown == [
        (
            "mail",
            1,
            "nights: off until 2026-01-06 00:00:00+00:00, days@1: on until 2026-01-06 00:00:00+00:00, nights: over",
        ),
        ("bulk", 2, ""),
    ]
