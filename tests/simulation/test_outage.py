"""An outage of all processes: nothing is missed or doubled, whatever the policy, and catch-up keeps its pace."""

from __future__ import annotations

from mainspring.core.model import Misfire
from tools.simulator.outage import replay_outage


def test_each_policy_accounts_for_every_fire() -> None:
    replays = {replay.policy: replay for replay in replay_outage(3 * 3600, jobs=4)}
    for replay in replays.values():
        told = [*map(str, replay.result.verdict.violations[:2]), *replay.result.errors[:1]]
        assert replay.is_good, told
        assert replay.expected == replays[Misfire.SKIP].expected
    assert replays[Misfire.SKIP].run == 0
    assert replays[Misfire.FIRE_LATEST].run == 4 - 1  # one of them has no fire in that time
    assert replays[Misfire.FIRE_ALL].run == replays[Misfire.FIRE_ALL].expected
    assert replays[Misfire.FIRE_ALL].result.verdict.counts["catch_ups_ended"] == 3
