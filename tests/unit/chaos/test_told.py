"""What the proofs of alerts make of what receivers took: what is untold, doubled, late or unended is found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.chaos.alerting.receivers import Receivers
from tests.chaos.alerting.told import Owed, Shown, Told, are_told, judge, read_told, table
from tests.chaos.alerting.watchdog_kills import AlertRow, FailedRun
from tests.chaos.alerting.watchdog_kills import judge as judge_kills

BY = ("webhook", "mail")
OWED = Owed(rule="dead_letters", subject="queue:mail", since=100.0, after=10.0)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def tell(
    at: float, kind: str, by: str = "webhook", subject: str = "queue:mail", message: str = "1", more: int = 0
) -> Told:
    alerts = (("default", "dead_letters", subject, "7"),)
    return Told(at=at, by=by, kind=kind, id=message, alerts=alerts, more=more)


def told_well(by: str) -> list[Told]:
    return [tell(115.0, "firing", by), tell(205.0, "resolved", by)]


def find(told: Sequence[Told]) -> tuple[list[str], list[str]]:
    findings = judge([Shown("fault", (OWED,), mended_at=200.0)], told, BY)
    wrong = [f"{line.by}: {what}" for line in findings.lines for what in line.wrong]
    assert findings.is_good == (not wrong and not findings.surplus)
    return wrong, findings.surplus


def test_what_is_told_once_in_time_and_ended_once_is_good() -> None:
    assert find([*told_well("webhook"), *told_well("mail"), tell(0, "test", subject="x")]) == ([], [])


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ([], ["mail: untold", "mail: unended"]),
        ([tell(115.0, "firing", "mail")], ["mail: unended"]),
        ([tell(141.0, "firing", "mail"), tell(205.0, "resolved", "mail")], ["mail: told late"]),
        ([tell(115.0, "firing", "mail"), tell(231.0, "resolved", "mail")], ["mail: ended late"]),
        ([*told_well("mail"), tell(116.0, "firing", "mail")], ["mail: doubled"]),
        ([*told_well("mail"), tell(116.0, "repeat", "mail")], ["mail: doubled"]),
        ([*told_well("mail"), tell(206.0, "resolved", "mail")], ["mail: ended twice"]),
    ],
)
def test_what_is_wrong_is_named(more: list[Told], wrong: list[str]) -> None:
    assert find([*told_well("webhook"), *more]) == (wrong, [])


@pytest.mark.parametrize(
    "surplus",
    [
        tell(1, "firing", subject="queue:x"),
        tell(1, "refused: wrong"),
        tell(1, "other"),
        tell(1, "test", more=3),
    ],
)
def test_what_no_fault_was_made_for_is_surplus(surplus: Told) -> None:
    wrong, found = find([*told_well("webhook"), *told_well("mail"), surplus])
    assert (wrong, len(found)) == ([], 1)


def test_no_fault_proves_nothing() -> None:
    assert not judge([], [], BY).is_good


def test_each_receiver_has_to_be_told() -> None:
    assert not are_told([OWED], told_well("webhook"), BY, "firing")
    assert are_told([OWED], [*told_well("webhook"), *told_well("mail")], BY, "resolved")


def test_table_names_a_fault_and_its_alert_once() -> None:
    findings = judge([Shown("fault", (OWED,), mended_at=200.0)], told_well("webhook"), BY)
    assert table(findings.lines).splitlines() == [
        "fault  alert                    true after  receiver  told after  times  ended after  times",
        "fault  dead_letters queue:mail  10 s        webhook   5.0 s       1      5.0 s        1      ok",
        "                                            mail      never       0      never        0      UNTOLD, UNENDED",
    ]


def test_what_a_receiver_notes_is_read(tmp_path: Path) -> None:
    file = tmp_path / "told.jsonl"
    assert read_told(file) == []
    receivers = Receivers(file, key="whsec_AAAA")
    receivers.note("mail", "firing", "ntf_1", [["default", "dead_letters", "queue:mail", "7"]], more=2)
    [told] = read_told(file)
    assert told == tell(told.at, "firing", "mail", message="ntf_1", more=2)


ALERT = AlertRow(7, "job:a", NOON, NOON + timedelta(minutes=1))
FAILED = FailedRun(1, "a", NOON - timedelta(seconds=5))


def told_of(alert: AlertRow) -> list[Told]:
    about = (("default", "job_failed", alert.subject, str(alert.id)),)
    return [
        Told(at=1.0, by="webhook", kind="firing", id=f"ntf_{alert.id}", alerts=about),
        Told(at=2.0, by="webhook", kind="resolved", id=f"ntf_{alert.id}_end", alerts=about),
    ]


def test_a_failure_that_was_told_though_a_message_came_twice_is_good() -> None:
    verdict = judge_kills([FAILED], [ALERT], [*told_of(ALERT), *told_of(ALERT)])
    assert (verdict.wrong, verdict.twice) == ([], 2)


def test_what_went_wrong_amid_kills_is_named() -> None:
    def wrong(failed: Sequence[FailedRun], alerts: Sequence[AlertRow], told: Sequence[Told]) -> str:
        return "; ".join(judge_kills(failed, alerts, told).wrong)

    begun, ended = told_of(ALERT)
    again = Told(at=3.0, by="webhook", kind="firing", id="ntf_9", alerts=begun.alerts)
    later = FailedRun(2, "a", NOON + timedelta(minutes=2))
    open_ = AlertRow(7, "job:a", NOON, None)
    early = Told(at=0.5, by="webhook", kind="resolved", id="ntf_9", alerts=begun.alerts)
    assert "was told by 0 messages" in wrong([FAILED], [ALERT], [ended])
    assert "was told by 2 messages" in wrong([FAILED], [ALERT], [begun, again, ended])
    assert "the end of alert 7 of job:a was told by 0" in wrong([FAILED], [ALERT], [begun])
    assert "has not ended" in wrong([FAILED], [open_], [begun])
    assert "told before it" in wrong([FAILED], [ALERT], [begun, early])
    assert "untold" in wrong([FAILED, later], [ALERT], [begun, ended])
    assert "untold" in wrong([FailedRun(1, "b", NOON)], [ALERT], [begun, ended])
    assert "did not happen" in wrong([later], [ALERT], [begun, ended])
    assert "is not there" in wrong([], [], [begun])
