"""A short campaign: nothing is lost or doubled, while the control without the transactions loses and doubles."""

from pathlib import Path

import pytest

from tests.chaos.transactions.campaign import run_campaign

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_orders_runs_and_effects_are_one_for_one_after_kills(postgres_database: str, tmp_path: Path) -> None:
    found = run_campaign(postgres_database, tmp_path, kills=8, seed=3, is_control=False, pace=0.2)
    assert found.is_good, found
