"""The page says how many rules, channels, silences and monitors there may be: what it says is what holds."""

from __future__ import annotations

import re
from pathlib import Path

from mainspring.core.alerting import MOST_SUBJECTS
from mainspring.core.alerts import (
    MOST_CHANNELS,
    MOST_CHANNELS_OF_TENANT,
    MOST_RULES_OF_TENANT,
    MOST_SILENCES_OF_TENANT,
)
from mainspring.core.channel_settings import MOST_RECIPIENTS
from mainspring.core.monitors import MOST_MONITORS_OF_TENANT
from mainspring.core.notifications import MOST_ALERTS
from mainspring.core.objectives import MOST_OBJECTIVES

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "be-told-when-something-fails.md"


def test_the_page_names_the_limits_that_hold() -> None:
    _, _, rest = PAGE.read_text().partition("## How many there may be")
    section = rest.partition("\n## ")[0]
    found = re.findall(r"^\| (.+) \| ([0-9,]+) \|$", section, re.MULTILINE)
    assert [int(number.replace(",", "")) for _, number in found] == [
        MOST_RULES_OF_TENANT,
        MOST_CHANNELS_OF_TENANT,
        MOST_SILENCES_OF_TENANT,
        MOST_MONITORS_OF_TENANT,
        MOST_OBJECTIVES,
        MOST_CHANNELS,
        MOST_RECIPIENTS,
        MOST_SUBJECTS,
        MOST_ALERTS,
    ]
    assert [what.split()[0].strip("[") for what, _ in found][:5] == [
        "rules",
        "channels",
        "silences",
        "monitors](watch-jobs-elsewhere.md)",
        "objectives](promise-how-soon-runs-start.md)",
    ]
