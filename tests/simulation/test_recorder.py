"""What the recorder of a simulation knows of when changes took effect."""

from types import SimpleNamespace
from typing import Any

from mainspring.core.blackouts import Blackout
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.pauses import PauseKey, PauseMode, PauseScope
from mainspring.core.triggers import AtStart
from mainspring.ports.store.jobs import AddResult
from mainspring.ports.store.restrictions import BlackoutsWritten
from mainspring.testing.factories import IdSequence, at, make_spec
from tools.simulator.recorder import Recorder


def test_a_start_that_is_committed_late_finds_the_job_paused() -> None:
    recorder = Recorder(lambda: at(5))
    job: Any = SimpleNamespace(
        id=IdSequence().new_job_id(), spec=make_spec(trigger=AtStart()), calendars=None
    )
    pause: Any = SimpleNamespace(job_id=job.id)
    recorder.note("add_jobs", "client", ([job],), {"now": at(1)}, [AddResult.ADDED])
    recorder.note("pause_jobs", "client", ([pause],), {"now": at(4)}, [ChangeVerdict.DONE])
    recorder.note("start_cluster", "server-0", ("server-0",), {"now": at(3)}, True)
    created, paused = recorder.changes
    assert (created.at, created.until) == (at(1), at(1))
    assert (paused.at, paused.until) == (at(3), at(5)), (
        "the start came after the pause, whatever its clock said"
    )


def test_a_blackout_that_is_written_twice_goes_on_since_the_earlier_time_whichever_write_comes_first() -> (
    None
):
    """The first of them was on its way for longer than the second (seed 8860)."""
    recorder = Recorder(lambda: at(5))
    rule = SimpleNamespace(plain={"from": "2026-01-05T12:01:00", "to": "2026-01-05T12:02:00"})
    spec: Any = SimpleNamespace(rules=[rule])
    version: Any = SimpleNamespace(name="still", version=1, tenant="default", label="still@1", spec=spec)
    recorder.note("write_calendars", "client", ([version],), {"now": at(0)}, True)
    key = PauseKey(PauseScope.ALL, "")
    for since in (at(3), at(2), at(4)):
        blackout = Blackout(
            scope=PauseScope.ALL,
            name="",
            tenant="default",
            calendar="still",
            version=1,
            mode=PauseMode.SKIP,
            made_by="ann",
            since=since,
        )
        recorder.note(
            "set_blackouts", "server-0", (key,), {"blackouts": [blackout], "now": since}, BlackoutsWritten()
        )
    assert [window.since for change in recorder.blackouts for window in change.windows] == [
        at(3),
        at(2),
        at(2),
    ]
