"""`make show-alerts`: makes faults by hand in a real cluster, and shows that each is told, once, and that it ended.

Two servers on PostgreSQL, workers over HTTP, and three receivers: a webhook that checks signatures, a mailbox, and a
real Alertmanager. All faults are under way together. Each receiver has to be told of each within 30 s of when it is so
by its rule, in one message, and of its end within 30 s of the mending; and of nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.alerting.faults import DISK, FAULTS, RULES
from tests.chaos.alerting.scene import CHANNELS, Scene, await_jobs, opened
from tests.chaos.alerting.small_disk import NoSmallDiskError, database_on_small_disk
from tests.chaos.alerting.told import MOST_SECONDS, Findings, Owed, Shown, are_told, judge, table
from tests.deployment.alertmanagers import NoAlertmanagerError
from tests.support.postgres import missing_reason, server_dsn, temporary_database

JOBS = 3
_LATEST = 60.0
"""Seconds after the limit for which a message is awaited, so that it counts as late and not as untold."""
_AFTERMATH = 15.0
"""Seconds for which nothing further may be told: more than the watchdog's period."""


def show(scene: Scene, names: Sequence[str]) -> Findings:
    """Make faults, wait until they are told, mend them, wait until that is told, and judge."""
    for name, queues in {
        "mailer": ("mail",),
        "office": ("billing", "office"),
        "narrow": ("reports",),
    }.items():
        scene.start_worker(name, *queues, slots=1 if name == "narrow" else 4)
    await_jobs(scene.app, JOBS)
    for rule, options in RULES.items():
        scene.set_rule(rule, *options)
    shown: list[Shown] = []
    with contextlib.ExitStack() as unmended:
        mending: list[contextlib.ExitStack] = []
        for name in names:
            mending.append(unmended.enter_context(contextlib.ExitStack()))
            shown.append(Shown(name, mending[-1].enter_context(FAULTS[name](scene))))
            say(f"{name}: made")
        everything = [one for fault in shown for one in fault.owed]
        until = max(one.since + one.after for one in everything) + MOST_SECONDS + _LATEST
        _wait(scene, everything, "firing", until)
        for fault, mend in zip(shown, mending, strict=True):
            mend.close()
            fault.mended_at = time.time()
            say(f"{fault.name}: mended")
    _wait(scene, everything, "resolved", time.time() + MOST_SECONDS + _LATEST)
    time.sleep(_AFTERMATH)
    return judge(shown, scene.told(), list(CHANNELS))


def _wait(scene: Scene, owed: Sequence[Owed], kind: str, until: float) -> None:
    receivers = list(CHANNELS)
    is_told = scene.await_that(lambda told: are_told(owed, told, receivers, kind), until - time.time())
    say(f"all of it {kind}: {'told' if is_told else 'not told'}")


def say(what: str) -> None:
    """Say how far it is."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


def main() -> int:
    """Show it; the exit status is 1 if anything is untold, late, doubled, unended, or told for nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as-shipped", action="store_true", help="wait for the periods that rules have")
    parser.add_argument("--fault", action="append", choices=[*FAULTS], help="only this one; repeat it")
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    given = parser.parse_args()
    server = server_dsn()
    if server is None:
        print(missing_reason())
        return 1
    faults = given.fault or list(FAULTS)
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        try:
            dsn, disk = stack.enter_context(database_on_small_disk(server))
        except NoSmallDiskError as error:
            print(f"left out: {DISK}: {error}")
            faults = [fault for fault in faults if fault != DISK]
            dsn, disk = stack.enter_context(temporary_database(server)), None
        try:
            with opened(folder, dsn, as_shipped=given.as_shipped, disk=disk) as scene:
                findings = show(scene, faults)
        except NoAlertmanagerError as error:
            print(f"no Alertmanager: {error}")
            return 1
    print(f"\n{table(findings.lines)}\n")
    for what in findings.surplus:
        print(f"SURPLUS: {what}")
    alerts = len({(line.fault, line.owed) for line in findings.lines})
    word = "each told and ended, once and in time" if findings.is_good else "NOT SO"
    print(f"verdict: {alerts} alerts, {len(CHANNELS)} receivers: {word}")
    return 0 if findings.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
