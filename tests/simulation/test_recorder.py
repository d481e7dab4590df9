"""What the recorder of a simulation knows of when changes took effect."""

from types import SimpleNamespace
from typing import Any

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.triggers import AtStart
from mainspring.ports.store.jobs import AddResult
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
