"""CronJobs of Kubernetes: the fires are those of the library that Kubernetes has, and what cannot be had is refused."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.core.triggers import next_fires
from mainspring.errors import InvalidInput
from mainspring.importers.found import Imported, ImportedJob
from mainspring.importers.kubernetes import read_cron_jobs
from mainspring.importers.kubernetes_schedule import read_schedule

# Made by robfig/main.go with the real library.
TABLE = json.loads((Path(__file__).parent / "robfig" / "robfig.json").read_text())
NOW = datetime(2026, 1, 14, 10, 7, tzinfo=UTC)


def fires(schedule: str, tz: str, after: datetime) -> list[datetime]:
    body = {"name": "x", "function": "x", **read_schedule(schedule, tz)}
    trigger = read_definition(body, now=after).trigger
    assert trigger is not None
    return next_fires(trigger, after, 20)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['schedule']}, {row['tz']}")
def test_the_first_twenty_fires_are_those_of_the_library(row: dict[str, Any]) -> None:
    after = datetime.fromisoformat(row["after"])
    if "error" in row or row["schedule"] == "0 0 30 2 *":  # the library never says that this one never fires
        with pytest.raises(InvalidInput):
            fires(row["schedule"], row["tz"], after)
    else:
        theirs = [datetime.fromisoformat(each) for each in row["fires"]]
        ours = fires(row["schedule"], row["tz"], after)
        assert ours[: len(theirs)] == theirs
        if len(theirs) < 20:  # it looks five years ahead, and there is no 29 February 2100
            assert (row["schedule"], ours[len(theirs)].year) == ("0 0 29 2 *", 2104)


def cron_job(**changes: Any) -> dict[str, Any]:
    container: Any = {
        "name": "c",
        "image": "shop:1",
        "command": ["report", "--at=$(AT)"],
        "args": ["a b", "$$(AT)"],
    }
    more: dict[str, Any] = {"env": [{"name": "AT", "value": "noon"}], "workingDir": "/srv"}
    container |= more | changes.pop("container", {})
    template: dict[str, Any] = {
        "spec": {"template": {"spec": {"containers": [container]}}, **changes.pop("job", {})}
    }
    spec = {"schedule": "0 6 * * *", "timeZone": "Europe/Berlin", "jobTemplate": template, **changes}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"}, "spec": spec}


def read(*documents: Any, commands: bool = True, tz: str = "UTC") -> Imported:
    return read_cron_jobs([("jobs.json", json.dumps(each)) for each in documents], tz=tz, commands=commands)


def only(document: Any, **options: Any) -> ImportedJob:
    found = read(document, **options)
    assert found.problems == ()
    (entry,) = found.entries
    return entry


def test_a_cron_job_is_a_job() -> None:
    document = cron_job(
        concurrencyPolicy="Forbid",
        startingDeadlineSeconds=200,
        job={"backoffLimit": 2, "activeDeadlineSeconds": 600},
    )
    assert only(document).body == {
        "name": "report",
        "cron": "0 6 * * *",
        "tz": "Europe/Berlin",
        "dst": "skip/both",
        "target": {
            "type": "shell",
            "command": ["report", "--at=noon", "a b", "$(AT)"],
            "env": {"AT": "noon"},
            "cwd": "/srv",
        },
        "retry": {"max_retries": 2, "backoff": "exponential", "delay": "10s", "cap": "6m"},
        "overlap": "skip",
        "expires_after": 200,
        "timeout": 600,
    }


@pytest.mark.parametrize(
    ("policy", "overlap"), [("Allow", "allow"), ("Forbid", "skip"), ("Replace", "cancel_running")]
)
def test_policies(policy: str, overlap: str) -> None:
    assert only(cron_job(concurrencyPolicy=policy)).body["overlap"] == overlap


def test_what_differs_is_noted() -> None:
    document = cron_job(
        timeZone=None, suspend=True, failedJobsHistoryLimit=1, job={"activeDeadlineSeconds": 5}
    )
    found = read(document, tz="Asia/Tokyo")
    assert found.entries[0].is_paused
    assert found.entries[0].body["tz"] == "Asia/Tokyo"
    words = [note.message for note in found.notes]
    assert len(words) == 4
    for word, text in zip(
        ("timeZone", "suspended", "each attempt", "failedJobsHistoryLimit"), words, strict=True
    ):
        assert word in text


def test_lists_and_other_kinds() -> None:
    other = cron_job()
    other["metadata"] = {"name": "report", "namespace": "shop"}
    both = {"kind": "CronJobList", "items": [cron_job(), {"kind": "ConfigMap"}, other]}
    assert [entry.name for entry in read(both).entries] == ["report", "shop.report"]
    assert read({"kind": "Deployment", "spec": {}}) == Imported(())


def test_two_of_one_name_are_one_too_many() -> None:
    found = read(cron_job(), cron_job())
    assert len(found.entries) == 1
    assert [problem.field for problem in found.problems] == ["name"]


def in_cluster(**changes: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "shop:1", **changes.pop("container", {})}], **changes}
    document = cron_job()
    document["spec"]["jobTemplate"]["spec"]["template"]["spec"] = pod
    return document


def test_a_container_stays_a_job_of_kubernetes() -> None:
    document = in_cluster(
        container={
            "command": ["report", "--at=$(AT)"],
            "args": ["$$(AT)"],
            "env": [{"name": "AT", "value": "noon"}],
            "resources": {
                "requests": {"memory": "1Gi", "cpu": 1},
                "limits": {"memory": "1500M", "cpu": "250m"},
            },
            "imagePullPolicy": "Always",
        },
        securityContext={},
        restartPolicy="OnFailure",
        serviceAccountName="reporter",
        nodeSelector={"pool": "batch"},
        tolerations=[{"key": "pool", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}],
    )
    document["metadata"]["namespace"] = "shop"
    assert only(document, commands=False).body["target"] == {
        "type": "kubernetes",
        "image": "shop:1",
        "command": ["report", "--at=noon"],
        "args": ["$(AT)"],
        "env": {"AT": "noon"},
        "memory": 1431,
        "cpus": 0.25,
        "namespace": "shop",
        "service_account": "reporter",
        "node_selector": {"pool": "batch"},
        "tolerations": [{"key": "pool", "operator": "Exists", "effect": "NoExecute", "seconds": 9}],
    }
    assert only(in_cluster(), commands=False).body["target"] == {"type": "kubernetes", "image": "shop:1"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"container": {"image": ""}}, "image"),
        ({"container": {"workingDir": "/srv"}}, "workingDir"),
        ({"container": {"args": "x"}}, "args"),
        ({"container": {"resources": 5}}, "resources"),
        ({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}, "resources.nvidia.com/gpu"),
        ({"container": {"resources": {"limits": {"memory": "much"}}}}, "resources.memory"),
        ({"volumes": [{"name": "data"}]}, "volumes"),
        ({"hostNetwork": True}, "hostNetwork"),
        ({"tolerations": [5]}, "target.tolerations[0]"),
        ({"serviceAccountName": "A"}, "target.service_account"),
    ],
)
def test_what_a_job_cannot_have_is_named(changes: dict[str, Any], field: str) -> None:
    (problem,) = read(in_cluster(**changes), commands=False).problems
    assert problem.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schedule": "0 6 * *"}, "spec.schedule"),
        ({"schedule": 5}, "spec.schedule"),
        ({"schedule": "@reboot"}, "spec.schedule"),
        ({"timeZone": "Mars/Base"}, "tz"),
        ({"timeZone": 5}, "spec.timeZone"),
        ({"concurrencyPolicy": "Maybe"}, "spec.concurrencyPolicy"),
        ({"startingDeadlineSeconds": "x"}, "startingDeadlineSeconds"),
        ({"startingDeadlineSeconds": 0}, "expires_after"),
        ({"jobTemplate": {}}, "jobTemplate.spec"),
        ({"job": {"parallelism": 2}}, "spec.jobTemplate.spec.parallelism"),
        ({"job": {"backoffLimit": -1}}, "backoffLimit"),
        ({"container": {"command": None}}, "command"),
        ({"container": {"command": "x"}}, "command"),
        ({"container": {"env": [{"name": "A", "valueFrom": {}}]}}, "env.A"),
        ({"container": {"envFrom": [{}]}}, "envFrom"),
        ({"job": {"template": {"spec": {"containers": []}}}}, "containers"),
        ({"job": {"template": {"spec": {"containers": [5]}}}}, "containers"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], field: str) -> None:
    (problem,) = read(cron_job(**changes)).problems
    assert (problem.place, problem.field) == ("jobs.json, CronJob default/report", field)


def test_yaml_is_read_where_its_reader_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    text = "kind: ConfigMap\n---\n" + yaml.safe_dump(cron_job()) + "---\n"
    found = read_cron_jobs([("jobs.yaml", text)], commands=True)
    assert found.entries[0].body == only(cron_job()).body
    (problem,) = read_cron_jobs([("jobs.yaml", "a: [1,\nb: }")]).problems
    assert "line 2" in problem.message
    text = """
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 6 * * *"
  timeZone: Europe/Berlin
  suspend: yes
  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: a, command: [say, no, on, 1:30]}]}}}}
"""
    (problem,) = read_cron_jobs([("jobs.yaml", text)], commands=True).problems
    assert (problem.field, problem.message) == ("spec.suspend", "must be true or false, not 'yes'")
    (entry,) = read_cron_jobs([("jobs.yaml", text.replace("yes", "true"))], commands=True).entries
    assert (entry.is_paused, entry.body["target"]["command"]) == (True, ["say", "no", "on", "1:30"])
    (problem,) = read_cron_jobs([("jobs.yaml", "a: &x [*x]")]).problems
    assert "too deep" in problem.message
    many = "kind: List\nitems:\n" + "- {kind: ConfigMap, data: [1, 2]}\n" * 25_000
    assert read_cron_jobs([("jobs.yaml", many)]) == Imported(())
    monkeypatch.setitem(sys.modules, "yaml", None)
    (problem,) = read_cron_jobs([("jobs.yaml", text)]).problems
    assert "mainspring[yaml]" in problem.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "kind",
                    "items",
                    "metadata",
                    "name",
                    "spec",
                    "schedule",
                    "jobTemplate",
                    "template",
                    "containers",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_gives_entries_or_problems(document: Any) -> None:
    read(
        document,
        {"kind": "CronJob", "metadata": document, "spec": document},
        cron_job(container={"command": document, "env": document}),
        cron_job(job={"template": document}),
    )
