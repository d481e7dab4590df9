"""Links in messages: they lead to the run, or else to the job or monitor, and nowhere else."""

from __future__ import annotations

from typing import Any

from mainspring.core.ids import RunId, format_run_id
from mainspring.core.links import link_message
from tests.unit.channels.messages import make_alert, make_message

HERE = "https://jobs.example.org"


def links(**alert: Any) -> list[str | None]:
    message = make_message(make_alert(**{"url": None, **alert}))
    return [one.url for one in link_message(message, HERE).alerts]


def test_an_alert_of_a_run_links_to_it() -> None:
    run_id = RunId(256)
    expected = [f"{HERE}/api/v1/runs/{format_run_id(run_id)}"]
    assert links(subject="job:report", run_id=run_id) == expected
    assert links(subject=f"run:{format_run_id(run_id)}", run_id=run_id) == expected


def test_others_link_to_their_job_or_monitor() -> None:
    assert links(subject="job:report") == [f"{HERE}/api/v1/jobs?name=report"]
    assert links(subject="monitor:dump") == [f"{HERE}/api/v1/monitors/dump"]
    assert links(subject="job:a/b?c&d ü") == [f"{HERE}/api/v1/jobs?name=a%2Fb%3Fc%26d%20%C3%BC"]


def test_what_has_no_page_has_no_link() -> None:
    for subject in ("queue:mail", "clocks", "worker:w", "token:k3v9", "disk", "shards", "job:", "job"):
        assert links(subject=subject) == [None], subject


def test_without_an_address_nothing_is_linked() -> None:
    message = make_message(make_alert(subject="job:report", url=None))
    assert link_message(message, None) == message
