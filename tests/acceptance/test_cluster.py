"""A cluster of real processes on a real PostgreSQL: every kind of fault once, judged (see tests/chaos/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cluster.faults import FAULTS
from tests.chaos.cluster.trials import run_trials
from tests.chaos.report import is_good, stories

SETS = [("F1", "F5", "F6", "F11", "F8"), ("F3", "F9", "F7", "F14", "F10"), ("F2", "F4", "F13", "F21")]
"""Of about the same length; between them they have all faults. Those after which a stale write is due are in one."""

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("cluster"),
]


def test_sets_have_all_faults() -> None:
    assert sorted(code for codes in SETS for code in codes) == sorted(FAULTS)


@pytest.mark.parametrize("codes", SETS, ids="-".join)
async def test_faults_break_no_promise(tmp_path: Path, codes: tuple[str, ...]) -> None:
    outcome, _ = await run_trials([FAULTS[code] for code in codes], tmp_path, seed=7)
    assert is_good([outcome]), "\n".join(stories([outcome]))
    assert outcome.acknowledged > 0
    assert outcome.verdict.counts["fires_run"] > 0
    # Not for each of them: a server that is stopped while it does not fire writes nothing stale.
    assert outcome.stale or not any(FAULTS[code].owes_refusal for code in codes), "nothing was refused"
