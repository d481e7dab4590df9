"""What docs/reference/cron.md says is so."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.core.cron import Cron, CronError

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "cron.md").read_text()
SPRING, AUTUMN = datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "tz", "dst"),
    [
        ("0 22-2 * * *", "UTC", "vixie"),
        ("0 0 31 2 *", "UTC", "vixie"),
        ("@every 5m", "UTC", "vixie"),
        ("@daily", "Mars/Base", "vixie"),
        ("@daily", "UTC", "skip"),
    ],
)
def test_error_reads_as_in_the_docs(text: str, tz: str, dst: str) -> None:
    with pytest.raises(CronError) as caught:
        Cron(text, tz, dst)
    assert f"`{caught.value}`" in PAGE


@pytest.mark.parametrize(
    ("dst", "spring", "autumn"),
    [("vixie", [1], [0]), ("skip/second", [], [1]), ("after/both", [1], [0, 1])],
)
def test_berlin_example_is_right(dst: str, spring: list[int], autumn: list[int]) -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin", dst)
    gap = list(cron.fires_between(SPRING, SPRING.replace(hour=12)))
    overlap = list(cron.fires_between(AUTUMN, AUTUMN.replace(hour=12)))
    assert gap == [SPRING.replace(hour=hour) for hour in spring]
    assert overlap == [AUTUMN.replace(hour=hour, minute=30) for hour in autumn]


def test_python_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    cron = names["cron"]
    assert isinstance(cron, Cron)
    assert cron.next_after(datetime(2026, 3, 28, 12, tzinfo=UTC)) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert repr(cron.explain()) in code
