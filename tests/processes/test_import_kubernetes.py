"""`mainspring import kubernetes`: from a manifest to commands that run."""

import json
from pathlib import Path

from tests.processes.processes import run, server

MANIFEST = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: hello}
spec:
  schedule: "0 6 * * *"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        spec:
          containers:
            - {name: c, image: "busybox:1", command: [echo, hello], env: [{name: A, value: b}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: asleep, namespace: shop}
spec:
  schedule: "@hourly"
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          containers:
            - {name: c, image: "busybox:1", command: ["true"]}
"""


def test_from_a_manifest_to_commands_that_run(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(MANIFEST)
    shown = run("import", "kubernetes", "jobs.yaml", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert '"image": "busybox:1"' in shown.stdout
    with server("--store", "memory://", "--allow-shell", cwd=tmp_path) as (_, url):
        command = ("import", "kubernetes", "jobs.yaml", "--commands", "--json", "--server", url)
        assert json.loads(run(*command, cwd=tmp_path).stdout)["results"] == []
        done = run(*command, "--yes", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [each["result"] for each in json.loads(done.stdout)["results"]] == ["created", "created"]
        listed = json.loads(run("job", "list", "--json", "--server", url).stdout)["items"]
        assert {job["name"]: job["is_paused"] for job in listed} == {"hello": False, "shop.asleep": True}
        ran = run("job", "run", "hello", "--wait", "30", "--server", url)
        assert ran.returncode == 0, ran.stdout + ran.stderr
