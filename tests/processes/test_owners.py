"""A job that is deleted from the code is named at the next start, and deleted with --prune; others stay."""

from pathlib import Path

import httpx

from tests.processes.processes import run, server

TWO = """
from mainspring import App
app = App()
@app.job(every="1h")
def kept(): print("kept says so")
@app.job(every="1h")
def dropped(): ...
"""
ONE = TWO.partition('@app.job(every="1h")\ndef dropped')[0]


def names(url: str) -> dict[str, list[str]]:
    jobs = httpx.get(f"{url}/api/v1/jobs").json()["items"]
    return {job["name"]: [one["code"] for one in job["warnings"]] for job in jobs}


def test_deleted_function_is_named_then_pruned_and_what_a_user_made_stays(tmp_path: Path) -> None:
    code, log = tmp_path / "shop.py", tmp_path / "stderr.log"
    code.write_text(TWO)
    with server("shop:app", cwd=tmp_path) as (process, url):
        made = run(
            *(
                "job",
                "add",
                "by hand",
                "--every",
                "1h",
                "--callback-url",
                "https://example.com/",
                "--server",
                url,
            )
        )
        assert made.returncode == 0, made.stderr
        assert names(url) == {"kept": [], "dropped": [], "by hand": []}
        run_id = httpx.post(f"{url}/api/v1/jobs/{job_id(url, 'kept')}/run").json()["run_id"]
        (attempt,) = finished(url, run_id)["attempts"]
        assert (attempt["outcome"], attempt["number"]) == ("succeeded", 1)
        assert attempt["worker"].startswith("embedded-")
        assert attempt["host"]
        process.stop()
    code.write_text(ONE)
    with server("shop:app", cwd=tmp_path) as (process, url):
        assert names(url) == {"kept": [], "dropped": ["undefined", "target_unserved"], "by hand": []}
        assert "event=job_undefined job=dropped" in log.read_text()
        listed = run("job", "list", "--server", url)
        assert "warning: dropped: The code of shop:app does not define it any more" in listed.stderr
        assert "warning: kept" not in listed.stderr
        process.stop()
    with server("shop:app", "--prune", cwd=tmp_path) as (process, url):
        assert names(url) == {"kept": [], "by hand": []}
        assert "event=job_pruned job=dropped" in log.read_text()
        process.stop()


def job_id(url: str, name: str) -> str:
    (job,) = httpx.get(f"{url}/api/v1/jobs", params={"name": name}).json()["items"]
    return str(job["job_id"])


def finished(url: str, run_id: str) -> dict:  # type: ignore[type-arg]
    while True:
        run = httpx.get(f"{url}/api/v1/runs/{run_id}").json()
        if run["finished_at"] is not None:
            return dict(run)


def test_prune_without_an_app_is_refused(tmp_path: Path) -> None:
    refused = run("up", "--prune", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert (
        refused.stderr
        == "error: prune: goes with MODULE:APP, whose jobs it is about; give one, or leave it out\n"
    )
