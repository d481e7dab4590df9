"""`mainspring audit` on a real server: who changed what, all of it as lines, and whether that was tampered with."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Any

import apsw

from tests.processes.processes import await_that, run_here, server

_APP = """
from mainspring import App

app = App(name="shop")


@app.job(cron="0 9 * * *")
def report() -> None: ...
"""


def told(url: str, *options: str) -> list[dict[str, Any]]:
    answer = run_here("audit", "export", "--server", url, *options)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def check(url: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run_here("audit", "verify", "--json", "--server", url).stdout)
    return answer


def test_who_changed_what_is_told_and_what_was_tampered_with_is_found(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    me = getpass.getuser()
    with server("app:app", "--data", "data", cwd=tmp_path) as (_, url):
        run_here("job", "edit", "report", "--cron", "0 10 * * *", "--server", url)
        run_here("job", "rm", "report", "--server", url)
        for number in (1, 2, 2):
            run_here("queue", "set", "mail", "--max-queued", number, "--server", url)
        queue, *_ = told(url, "--kind", "queue", "--subject", "mail")
        assert queue["before"] == queue["after"]
        gone, edited, applied = told(url, "--job", "report")
        assert [gone["action"], edited["action"], applied["action"]] == [
            "delete_job",
            "edit_job",
            "apply_definitions",
        ]
        assert (applied["actor"], applied["actor_kind"], applied["address"]) == (me, "process", None)
        assert applied["after"] == {"version": 1, "owners": ["shop"]}
        assert (edited["actor"], edited["actor_kind"], edited["address"]) == (me, "local", "127.0.0.1")
        rows = run_here("audit", "list", "--server", url).stdout.splitlines()
        assert [row.split()[-1] for row in rows[:2]] == ["CHANGE", "was"]  # as it was
        assert "trigger.expression: 0 9 * * * → 0 10 * * *" in rows[5]
        page = json.loads(run_here("audit", "list", "--limit", 2, "--json", "--server", url).stdout)
        assert [page["items"][0]["id"], page["next"]] == [6, 5]
        assert "--before 5" in run_here("audit", "list", "--limit", 2, "--server", url).stderr
        await_that("all is sealed", lambda: check(url)["entries"] == 6)
        intact = run_here("audit", "verify", "--server", url)
        assert (intact.returncode, "over 6 entries" in intact.stdout) == (0, True)
        seal = check(url)
        for expect, code in ((f"{seal['last_seal']}={seal['digest']}", 0), (f"99={seal['digest']}", 3)):
            asked = run_here("audit", "verify", "--expect", expect, "--server", url)
            assert (asked.returncode, "there is no such seal" in asked.stdout) == (code, code == 3)
    with apsw.Connection(str(tmp_path / "data" / "mainspring.db")) as raw:
        raw.execute("DROP TRIGGER audit_guard_rows")
        raw.execute("UPDATE audit SET actor = 'bob' WHERE id = 3")
    with server("app:app", "--data", "data", cwd=tmp_path) as (_, url):
        broken = run_here("audit", "verify", "--server", url)
        assert broken.returncode == 3
        assert "an entry that it covers was changed" in broken.stdout
        assert check(url)["is_intact"] is False
