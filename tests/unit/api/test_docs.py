"""The pages of the HTTP API and the worker protocol name all there is, and what they show happens."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from httpx import AsyncClient

from mainspring.core.results import LeftOut
from mainspring.wire import protocol, views
from mainspring.wire.bodies import BulkSubmitItem, SubmitBody
from mainspring.wire.operation import BODY_LIMIT
from mainspring.wire.operations import BEAT_LIMIT
from tests.processes.processes import SECONDS, environment, server
from tests.support.asking import ask, wait_until

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
API = (REFERENCE / "http-api.md").read_text()
PROTOCOL = (REFERENCE / "worker-protocol.md").read_text()
ROUTE = re.compile(r"^\| `([A-Z]+) (/\S*)` \|.*\| ([0-9, ]+) \|$", re.MULTILINE)
EXAMPLE = re.compile(r"```console\n(curl .*?)\n```\n\n`(\d{3})`\n\n```json\n(.*?)```", re.DOTALL)
ID = re.compile(r"(?:job_[0-9a-z]{26}|run_[0-9a-z]{13}|ses_[0-9]+)")
VARYING_TEXT = [
    ID,
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"),
    re.compile(r"embedded-\d+"),
    re.compile(r"req_[0-9a-f]{12}-[0-9a-f]+"),
    re.compile(r"\d+\.\d+\.\d+"),
]
VARYING_FIELDS = {"lag_ms", "pid", "host", "clock_skew", "tzdata", "recorded_tzdata"}
LEFT_OUT = "…"
CALLS: dict[str, list[type[msgspec.Struct]]] = {
    "register": [protocol.RegisterBody, protocol.SessionGranted],
    "claim": [protocol.ClaimBody, protocol.ClaimAnswerView],
    "beat": [protocol.BeatBody, protocol.BeatView],
    "report": [protocol.ReportBody, protocol.ReportView],
    "leave": [protocol.SessionBody],
}
PARTS: dict[str, list[type[msgspec.Struct]]] = {
    "claim": [protocol.LeaseView, protocol.DefinitionView],
    "beat": [protocol.LeaseKey],
    "report": [protocol.ReportItem, protocol.LeftOutResult, protocol.CauseItem],
}
VIEWS = [
    kind
    for kind in vars(views).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not msgspec.Struct
]


def section(page: str, title: str) -> str:
    """Return what stands below a heading, up to the next one of its `ready_at`."""
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> dict[str, str]:
    """Return the rows of all tables by each of the names in their first cell."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`(\w+)`", line.split(" | ")[0]):
                found[name] = f"{found.get(name, '')}{line}\n"
    return found


def fields(*kinds: type[msgspec.Struct]) -> set[str]:
    return {name for kind in kinds for name in kind.__struct_fields__}


@pytest.fixture
async def description(http: AsyncClient) -> dict[str, Any]:
    answer = await http.get("/openapi.json")
    body: dict[str, Any] = answer.json()
    return body


# -- what there is is named -------------------------------------------------------------------------------------------


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in description["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "operationId" in operation:
                yield method.upper(), path, operation


def test_routes_are_those_of_the_description(description: dict[str, Any]) -> None:
    listed = {(method, path): codes.split(", ") for method, path, codes in ROUTE.findall(API)}
    described = {
        (method, path): sorted(code for code in operation["responses"] if code.startswith("2"))
        for method, path, operation in operations(description)
    }
    assert {
        key: sorted(code for code in codes if code[0] == "2") for key, codes in listed.items()
    } == described
    worker = {(method, path): codes for method, path, codes in ROUTE.findall(PROTOCOL)}
    assert worker == {key: ", ".join(codes) for key, codes in listed.items() if "/worker/" in key[1]}


def test_no_route_is_listed_twice() -> None:
    assert len(ROUTE.findall(API)) == len({(method, path) for method, path, _ in ROUTE.findall(API)})


def test_query_parameters_are_those_of_the_description(description: dict[str, Any]) -> None:
    table = rows(section(API, "Queries"))
    described: dict[str, list[dict[str, Any]]] = {}
    for _, _, operation in operations(description):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query":
                described.setdefault(parameter["name"], []).append(parameter["schema"])
    assert table.keys() == described.keys()
    for name, schemas in described.items():
        for schema in schemas:
            for limit in ("minimum", "maximum", "default"):
                if limit in schema:
                    assert shown(schema[limit]) in table[name], (name, limit)


def test_headers_of_the_description_are_named(description: dict[str, Any]) -> None:
    names = {
        parameter["name"]
        for _, _, operation in operations(description)
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "header"
    }
    assert names
    assert [name for name in names if f"**{name}**" not in API] == []


def test_every_field_of_a_submission_is_named() -> None:
    text = section(API, "Bodies").split("**PATCH**")[0]
    table = rows(text)
    assert table.keys() == fields(SubmitBody)
    assert [name for name in fields(BulkSubmitItem) if name not in table and f"`{name}`" not in text] == []


async def test_patch_does_what_the_page_says(http: AsyncClient, job: dict[str, Any]) -> None:
    async def patch(**given: object) -> dict[str, Any]:
        answer = await http.patch(f"/api/v1/jobs/{job['job_id']}", json=given)
        assert answer.status_code in {200, 422}, answer.text
        body: dict[str, Any] = answer.json()
        return body

    assert (await patch())["version"] == 1
    assert (await patch(tz="Asia/Tokyo"))["trigger"]["expression"] == "0 9 * * *"
    assert (await patch(cron="0 8 * * *"))["trigger"]["tz"] == "Asia/Tokyo"
    retry = (await patch(retry={"max_retries": 1}))["retry"]
    assert retry == {**job["retry"], "max_retries": 1}
    assert (await patch(payload={"a": 1, "b": 2}))["payload"] == {"a": 1, "b": 2}
    assert (await patch(payload={"b": None}))["payload"] == {"b": None}
    assert (await patch(payload=None))["payload"] is None
    assert (await patch(soft_timeout="1m"))["soft_timeout_seconds"] == 60
    assert (await patch(soft_timeout=None, expires_after=None))["soft_timeout_seconds"] is None
    for name in ("trigger", "cron", "every", "run_at"):
        assert (await patch(cron="0 9 * * *"))["trigger"] is not None
        assert (await patch(**{name: None}))["trigger"] is None
    for name in (
        "name",
        "priority",
        "queue",
        "labels",
        "retry",
        "misfire",
        "timeout",
        "jitter",
        "target",
        "tz",
    ):
        assert (await patch(**{name: None}))["errors"][0]["field"] == name


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: kind.__name__)
def test_every_field_of_an_answer_is_shown(kind: type[msgspec.Struct]) -> None:
    assert [name for name in fields(kind) if f"`{name}`" not in API and f'"{name}": ' not in API] == []


def test_limits_of_bodies_are_named() -> None:
    for page in (API, PROTOCOL):
        assert f"{BODY_LIMIT // 1024**2} MiB" in page
        assert f"{BEAT_LIMIT // 1024**2} MiB" in page


# -- the worker protocol ----------------------------------------------------------------------------------------------


def shown(number: object) -> str:
    """Write a number as the pages do."""
    powers = {2**31 - 1: "2^31-1", 2**62: "2^62"}
    return powers.get(number, f"{number:,}") if isinstance(number, int) else str(number)


@pytest.mark.parametrize("call", CALLS)
def test_fields_of_a_call_are_named_where_it_is_described(call: str) -> None:
    text = section(PROTOCOL, call)
    named = {name for name in re.findall(r"`(\w+)`", text) if "_" in name or name in rows(text)}
    known = fields(*CALLS[call], *PARTS.get(call, []))
    assert {name for name in known if f"`{name}`" not in text} == set()
    everything = fields(*(kind for kinds in (*CALLS.values(), *PARTS.values()) for kind in kinds))
    outcomes = {"success", "failure", "snooze", "handed_back", "stopped", "applied", "stale", "missing"}
    outcomes |= set(LeftOut)
    of_definitions = {"timeout_seconds", "soft_timeout_seconds", "at_most_once"}
    assert named - everything - outcomes - of_definitions == {"ses_"} & named


@pytest.mark.parametrize("call", CALLS)
def test_limits_and_defaults_of_a_call_are_those_of_its_body(call: str) -> None:
    table = rows(section(PROTOCOL, call))
    kinds: list[type[msgspec.Struct]] = [] if call == "leave" else [CALLS[call][0]]
    kinds += [kind for kind in PARTS.get(call, []) if kind is protocol.ReportItem]
    for kind in kinds:
        schema = msgspec.json.schema_components([kind])[1][kind.__name__]
        required = schema.get("required", [])
        for name, shape in schema["properties"].items():
            assert ("required" in table[name]) == (name in required), name
            if "default" in shape and shape["default"] is not None:
                assert f"| {json.dumps(shape['default'])} |" in table[name].replace("`", ""), name
            for part in (shape, *shape.get("anyOf", [])):
                for limit in ("minimum", "maximum", "maxLength"):
                    if limit in part:
                        assert shown(part[limit]) in table[name], (name, limit)


@pytest.mark.parametrize("call", CALLS)
def test_bodies_and_answers_of_the_protocol_are_real(call: str) -> None:
    texts = re.findall(r"```json\n(.*?)```", section(PROTOCOL, call), re.DOTALL)
    assert len(texts) == len(CALLS[call])
    for text, kind in zip(texts, CALLS[call], strict=True):
        assert json.loads(text).keys() == fields(kind)
        msgspec.json.decode(text, type=kind)
    for kind in PARTS.get(call, []):
        inner = set() if call == "report" else fields(kind)  # a report has what goes with its outcome
        assert [name for name in inner if not any(f'"{name}": ' in text for text in texts)] == []


# -- the examples are carried out -------------------------------------------------------------------------------------


class Examples:
    """Carries out the page's commands on a server and compares answers with the page's."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ids: dict[str, str] = {}  # the page's -> this server's

    def carry_out(self, command: str, status: str, answer: str) -> None:
        words = shlex.split(ID.sub(lambda match: self.ids[match[0]], command))
        words = [word.replace("localhost:8620", self.address.removeprefix("http://")) for word in words]
        done = subprocess.run(
            [*words, "--noproxy", "*", "--write-out", "\n%{http_code}"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        text, _, code = done.stdout.rpartition("\n")
        assert code == status, (command, text)
        self.compare(json.loads(answer), json.loads(text), command)

    def compare(self, page: Any, real: Any, where: str) -> None:
        if isinstance(page, dict) and isinstance(real, dict):
            given = {name: value for name, value in page.items() if name != LEFT_OUT}
            is_whole = LEFT_OUT not in page
            assert given.keys() == real.keys() if is_whole else given.keys() < real.keys(), where
            for name, value in given.items():
                if name not in VARYING_FIELDS or type(value) is not type(real[name]):
                    self.compare(value, real[name], f"{where}: {name}")
        elif isinstance(page, list) and isinstance(real, list):
            assert len(page) == len(real), where
            for index, (mine, its) in enumerate(zip(page, real, strict=True)):
                self.compare(mine, its, f"{where}[{index}]")
        elif isinstance(page, str) and isinstance(real, str):
            self.compare_text(page, real, where)
        else:
            assert page == real, where

    def compare_text(self, page: str, real: str, where: str) -> None:
        if ID.fullmatch(page) and ID.fullmatch(real):
            assert self.ids.setdefault(page, real) == real, where
        elif not any(form.fullmatch(page) and form.fullmatch(real) for form in VARYING_TEXT):
            assert ID.sub(lambda match: self.ids[match[0]], page) == real, where


def is_quiet(address: str) -> bool:
    """Say whether all that is due has ended; what the page puts off to 2040 is not."""
    runs = ask(address, "GET", "runs?limit=1000")["items"]
    return all(run["finished_at"] is not None or run["due_at"] >= "2040" for run in runs)


def test_no_example_is_overlooked() -> None:
    assert len(EXAMPLE.findall(API)) == API.count("```console\ncurl ") == API.count("\ncurl ") >= 20
    assert API.count("```json") == len(EXAMPLE.findall(API))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_examples_with_curl_answer_what_the_page_shows(tmp_path: Path) -> None:
    with server("--data", tmp_path / "data", "--allow-shell", cwd=tmp_path) as (_, address):
        examples = Examples(address)
        for command, status, answer in EXAMPLE.findall(API):
            examples.carry_out(command, status, answer)
            wait_until(lambda: is_quiet(address))


def test_examples_cover_every_kind_of_call() -> None:
    commands = "\n".join(command for command, _, _ in EXAMPLE.findall(API))
    for part in ("/health", "/pause", "/resume", "/run\n", "/runs/bulk", "/cancel", "/status", "-X PATCH"):
        assert part in commands
    statuses = {status for _, status, _ in EXAMPLE.findall(API)}
    assert {"200", "201", "404", "422"} <= statuses
