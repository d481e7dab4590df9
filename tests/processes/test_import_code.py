"""`mainspring import celery` and `apscheduler`: from the old tool's own objects to jobs that run."""

import json
from pathlib import Path

import pytest

from tests.processes.processes import run, server

CELERY = """
from celery import Celery, chain
from celery.schedules import crontab

app = Celery("shop")
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "nightly": {"task": "shop_jobs.add", "schedule": crontab(hour=3, minute=0), "args": (2, 3)},
}


@app.task(name="shop_jobs.add")
def add(a, b):
    return a + b


@app.task(name="shop_jobs.flaky", bind=True, max_retries=2, default_retry_delay=0)
def flaky(self):
    try:
        raise ValueError("try again")
    except ValueError as error:
        raise self.retry(exc=error)


app.add_periodic_task(crontab(hour=4, minute=0), chain(add.s(1, 2), add.s(4)), name="in-turn")
"""
SCHEDULER = """
import shop_work
from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler(timezone="Europe/Berlin")
scheduler.add_job(shop_work.add, "cron", hour=3, id="nightly", args=[2], kwargs={"b": 3})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop_jobs.py").write_text(CELERY)
    (tmp_path / "shop_sched.py").write_text(SCHEDULER)
    (tmp_path / "shop_work.py").write_text("def add(a, b):\n    return a + b\n")
    return tmp_path


@pytest.mark.parametrize(
    ("what", "reference", "jobs"),
    [
        ("celery", "shop_jobs", ["in-turn", "nightly", "shop_jobs.add", "shop_jobs.flaky"]),
        ("apscheduler", "shop_sched", ["nightly"]),
    ],
)
def test_what_is_written_runs(folder: Path, what: str, reference: str, jobs: list[str]) -> None:
    shown = run("import", what, reference, cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "same (20)" in shown.stdout
    assert "this is a preview; nothing was changed. Write it with --write jobs.py" in shown.stderr
    written = run("import", what, reference, "--write", "jobs.py", cwd=folder)
    assert written.returncode == 0, written.stderr
    assert f"wrote {len(jobs)} jobs to jobs.py; to run them: mainspring up jobs:app" in written.stderr
    again = run("import", what, reference, "--write", "jobs.py", cwd=folder)
    assert again.returncode == 2
    assert "write: jobs.py exists, and you may have edited it" in again.stderr
    with server("jobs:app", "--store", "memory://", cwd=folder) as (_, url):
        listed = json.loads(run("job", "list", "--json", "--server", url).stdout)
        assert sorted(job["name"] for job in listed["items"]) == jobs
        done = run("job", "run", "nightly", "--wait", "30", "--json", "--server", url)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["result"] == 5
        if what == "celery":
            done = run("job", "run", "in-turn", "--wait", "30", "--json", "--server", url)
            assert json.loads(done.stdout)["result"] == 7
        if (
            what == "celery"
        ):  # self.retry outside Celery raises what it was given, and the job's own rule retries
            failed = run("job", "run", "shop_jobs.flaky", "--wait", "30", "--json", "--server", url)
            assert failed.returncode == 3
            assert json.loads(failed.stdout)["attempt"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("celery", "gone"), "MODULE:APP: there is no module 'gone'"),
        (("celery", "shop_jobs:gone"), "MODULE:APP: module 'shop_jobs' has no 'gone'"),
        (("celery", "shop_jobs:add"), "not a Celery app"),
        (("celery", "shop_jobs.py"), "shop_jobs:app"),
        (
            ("celery", "shop_jobs", "--write", "a-b.py"),
            "write: a-b.py cannot be imported; give a name like jobs.py",
        ),
        (("celery", "shop_jobs", "--write", "no/folder/jobs.py"), "write: no/folder/jobs.py: "),
        (("apscheduler", "shop_sched:shop_work"), "not a scheduler"),
        (("apscheduler", "shop_jobs"), "MODULE:APP: module 'shop_jobs' has no 'scheduler'"),
    ],
)
def test_wrong_input_is_one_line(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run("import", *arguments, cwd=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("what", "name"), [("celery", "Celery"), ("apscheduler", "APScheduler 3")])
def test_a_library_that_is_not_here_is_named(
    folder: Path, what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from mainspring.cli.main import cli
    from mainspring.errors import InvalidInput

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    done = CliRunner().invoke(cli, ["import", what, "shop_jobs"])
    assert isinstance(done.exception, InvalidInput) or name in done.output
    assert f"{name} is not installed here" in f"{done.exception} {done.output}"
