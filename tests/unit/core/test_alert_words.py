from datetime import timedelta

import pytest

from mainspring.core.alert_words import show_roughly


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.9, "0s"), (61.5, "1m1s"), (3600, "1h"), (3659, "1h"), (7384, "2h3m"), (-0.2, "0s"), (-90, "0s")],
)
def test_duration_is_told_roughly_and_never_below_zero(seconds: float, text: str) -> None:
    assert show_roughly(timedelta(seconds=seconds)) == text
