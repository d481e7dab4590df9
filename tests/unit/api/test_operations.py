"""The table of operations is what server, client and description go by."""

from __future__ import annotations

import ast
import inspect
import io
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

import mainspring.api
from mainspring.api.app import ENDPOINTS
from mainspring.api.call import Answer, Endpoint, Streamed
from mainspring.api.routing import Routes
from mainspring.api.streaming import Stream
from mainspring.core.checkpoints import NewCheckpoint
from mainspring.core.ids import RunId, SessionId
from mainspring.core.rights import Right
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, LogReport, Registration, Report
from mainspring.sdk.access_calls import AccessCalls
from mainspring.sdk.alert_calls import AlertCalls
from mainspring.sdk.answer_calls import AnswerCalls
from mainspring.sdk.archive_calls import ArchiveCalls
from mainspring.sdk.artifact_calls import ArtifactCalls
from mainspring.sdk.audit_calls import AuditCalls
from mainspring.sdk.capacity_calls import CapacityCalls
from mainspring.sdk.checkpoint_calls import CheckpointCalls
from mainspring.sdk.client import AsyncClient
from mainspring.sdk.dead_calls import DeadCalls
from mainspring.sdk.definition_calls import DefinitionCalls
from mainspring.sdk.event_calls import EventCalls
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.sdk.log_calls import LogCalls
from mainspring.sdk.monitor_calls import MonitorCalls
from mainspring.sdk.objective_calls import ObjectiveCalls
from mainspring.sdk.owner_calls import OwnerCalls
from mainspring.sdk.run_log_calls import RunLogCalls
from mainspring.sdk.transport import Transport
from mainspring.sdk.usage_calls import UsageCalls
from mainspring.sdk.workflow_calls import WorkflowCalls
from mainspring.wire import operations
from mainspring.wire.operation import Operation, Parameter
from mainspring.wire.operations import OPERATIONS

SERVER = "http://127.0.0.1:9"
WITHOUT_CALL = {
    "get_openapi",  # for tools
    "list_job_runs",  # `list_runs` with a job
    "run_job_now",  # the same as `submit_run`
    *("get_login_page", "post_login_form", "post_logout_form", "login_oidc", "login_callback"),  # browsers
    *("get_ping", "get_ping_start", "get_ping_extend", "get_ping_fail"),  # the same as by POST
    *("get_artifact_content", "put_artifact_content"),  # piece by piece: `fetch_artifact`, `put_artifact`
    "worker_confirm",  # after `worker_artifact`, in the same call
}
UPLOAD = ArtifactUpload(
    run_id=RunId(1),
    token=1,
    name="a.txt",
    content_type="text/plain",
    size=0,
    sha256=bytes(32),
    md5=bytes(16),
    open=io.BytesIO,
)
ids = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)


class Asked(Exception):
    """A call was about to be sent."""

    def __init__(self, operation: Operation[Any], key: str | None, given: Mapping[str, Any]) -> None:
        super().__init__(operation.id)
        self.operation = operation
        self.key = key
        self.given = given


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(
        _: Transport, operation: Operation[Any], answer: object, key: str | None = None, **given: Any
    ) -> None:
        raise Asked(operation, key, given)

    monkeypatch.setattr(Transport, "call_as", ask)


async def what_asks(call: Callable[[], Awaitable[object]]) -> Asked:
    with pytest.raises(Asked) as caught:
        await call()
    return caught.value


def methods() -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in {
            **vars(DefinitionCalls),
            **vars(DeadCalls),
            **vars(OwnerCalls),
            **vars(AccessCalls),
            **vars(AuditCalls),
            **vars(MonitorCalls),
            **vars(ObjectiveCalls),
            **vars(CapacityCalls),
            **vars(UsageCalls),
            **vars(ArchiveCalls),
            **vars(ArtifactCalls),
            **vars(EventCalls),
            **vars(AlertCalls),
            **vars(LogCalls),
            **vars(WorkflowCalls),
            **vars(AnswerCalls),
            **vars(RunLogCalls),
            **vars(CheckpointCalls),
            **vars(AsyncClient),
        }.items()
        if inspect.iscoroutinefunction(method) and not name.startswith("_")
    }


async def call_client(name: str) -> Asked:
    method = methods()[name]
    arguments = {
        name: {} if name in {"owners", "grants", "events"} else "1"
        for name, parameter in inspect.signature(method).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return await what_asks(lambda: method(AsyncClient(SERVER), **arguments))


async def call_gateway() -> list[Asked]:
    gateway, session = HttpGateway(SERVER), SessionId(1)
    report = Report(run_id=RunId(1), token=1, ending=Success())
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: gateway.register(Registration(name="w", host="h", pid=1, slots=1)),
        lambda: gateway.claim(
            ClaimCall(session_id=session, number=1, limit=1, wait=timedelta(0), is_idle=True)
        ),
        lambda: gateway.beat(session, ()),
        lambda: gateway.report(session, (report,)),
        lambda: gateway.put_artifact(session, UPLOAD),
        lambda: gateway.log(session, (LogReport(RunId(1), 1),)),
        lambda: gateway.keep_checkpoints(session, [NewCheckpoint(RunId(1), 1, session, "charge", 0)]),
        lambda: gateway.list_checkpoints(session, RunId(1), 1),
        lambda: gateway.leave(session),
    ]
    return [await what_asks(call) for call in calls]


def test_every_operation_has_its_handler() -> None:
    assert {endpoint.operation for endpoint in ENDPOINTS} == set(OPERATIONS)
    assert len({operation.id for operation in OPERATIONS}) == len(OPERATIONS) == len(ENDPOINTS)


def test_two_handlers_of_one_operation_are_refused() -> None:
    with pytest.raises(ValueError, match="has two endpoints"):
        Routes([*ENDPOINTS, ENDPOINTS[0]])


@ids
def test_operation_is_found_by_its_path(operation: Operation[Any]) -> None:
    key = "some-id" if operation.variable else None
    found = Routes(ENDPOINTS).find(operation.url(key))
    assert found is not None
    assert found.key == (key or "")
    assert found.methods[operation.method].operation is operation


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.operation.id)
def test_handler_takes_and_answers_what_is_described(endpoint: Endpoint) -> None:
    hints = get_type_hints(endpoint.handle)
    answer = hints.pop("return")
    if endpoint.operation.is_followed:
        (answer,) = set(get_args(answer)) - {Stream}
    if get_origin(answer) is Answer:
        (answer,) = get_args(answer)
    body = endpoint.operation.body
    answers = get_args(answer) if isinstance(answer, UnionType) else (answer,)
    answers = tuple(one for one in answers if one is not Streamed)  # which is not JSON
    assert answers == (endpoint.operation.answer, *endpoint.operation.other_answers)
    assert list(hints.values())[1:] == ([] if body is None or body.is_streamed else [body.decoded_as])


def test_handlers_read_no_query_that_is_not_described() -> None:
    """They find it in `call.query`, which holds nothing else; Starlette's own view of it is not used."""
    folder = Path(inspect.getfile(mainspring.api)).parent
    readers = {
        f"{path.relative_to(folder)}: {node.attr}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"query_params", "url"}
    }
    assert readers == set()


@ids
def test_key_of_a_path_is_quoted(operation: Operation[Any]) -> None:
    if operation.variable is None:
        with pytest.raises(ValueError, match="takes no key"):
            operation.url("x")
    else:
        assert "/a%2Fb%3Fc" in operation.url("a/b?c")
        with pytest.raises(ValueError, match=f"takes a {operation.variable}"):
            operation.url()


async def test_client_has_a_call_for_each_operation(asking: None) -> None:
    asked = [await call_client(name) for name in methods()] + await call_gateway()
    found = [each.operation.id for each in asked]
    assert sorted(found) == sorted([*set(found), "list_runs"])  # also asked for in brief
    assert set(found) | WITHOUT_CALL == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("name", methods())
async def test_call_of_the_client_is_as_described(name: str, asking: None) -> None:
    asked = await call_client(name)
    operation = asked.operation
    assert (asked.key is None) == (operation.variable is None)
    assert ("body" in asked.given) == (operation.body is not None)
    assert set(asked.given.get("query", {})) == {parameter.name for parameter in operation.query}
    assert set(asked.given.get("headers", {})) == {parameter.name for parameter in operation.headers}
    assert get_type_hints(methods()[name])["return"] in {operation.answer, *operation.other_answers}


@pytest.mark.parametrize("name", methods())
def test_defaults_of_the_client_are_those_of_the_server(name: str) -> None:
    described: dict[str, Parameter] = {
        parameter.name: parameter
        for operation in OPERATIONS
        if operation.is_described
        for parameter in operation.query
    }
    for parameter in inspect.signature(methods()[name]).parameters.values():
        if parameter.name in described and parameter.kind is parameter.KEYWORD_ONLY:
            assert parameter.default == described[parameter.name].default


async def test_call_of_a_worker_is_as_described(asking: None) -> None:
    for asked in await call_gateway():
        assert asked.operation.right is Right.WORK
        body = asked.operation.body
        assert body is not None
        msgspec.json.decode(msgspec.json.encode(asked.given["body"]), type=body.shape)


def test_rights_are_those_of_the_design() -> None:
    by_right: dict[Right, set[str]] = {}
    for operation in OPERATIONS:
        by_right.setdefault(operation.right, set()).add(operation.id)
    assert by_right == {
        Right.PUBLIC: {
            *("get_health", "get_openapi"),
            *("login", "get_login_page", "post_login_form", "post_logout_form"),
            *("begin_login", "login_oidc", "login_callback"),
            *(
                f"{method}_ping{end}"
                for method in ("get", "post")
                for end in ("", "_start", "_extend", "_fail")
            ),
        },
        Right.SELF: {
            *("get_me", "make_token", "list_tokens", "rotate_token", "revoke_token"),
            *("logout", "set_password"),
        },
        Right.READ: {
            *(
                "list_dead_runs",
                "group_dead_runs",
                "list_jobs",
                "get_job",
                "get_job_status",
                "list_job_fire_ranges",
                "get_job_ledger",
                "list_ledgers",
                "list_job_runs",
            ),
            *(
                "list_runs",
                "get_run",
                "count_runs",
                "list_workers",
                "get_overview",
                "get_metrics",
                "preview_trigger",
                "list_job_fires",
                "list_job_versions",
                "diff_jobs",
            ),
            *("check_workflow", "get_job_graph", "list_run_steps", "list_run_items"),
            *("approve_run_step", "reject_run_step"),  # by those whom the step names, whatever their role
            *("list_calendars", "get_calendar", "list_calendar_versions", "list_calendar_days"),
            *("list_limits", "get_limit", "list_limit_keys", "get_run_why", "get_run_logs"),
            *("list_redrives", "get_redrive", "get_usage"),
            *(
                "list_run_artifacts",
                "get_artifact",
                "get_artifact_content",
                "list_run_checkpoints",
                "list_events",
            ),
            *("list_alerts", "list_alert_rules", "get_alert_rule", "list_channels", "get_channel"),
            *("list_silences", "list_monitors", "get_monitor", "list_slos", "get_slo", "get_capacity"),
            *("list_redrives", "get_redrive", "get_usage"),
            "list_silences",
            *("list_backfills", "get_backfill", "list_priority_classes", "get_priority_class"),
        },
        Right.SUBMIT: {
            *("submit_run", "submit_runs", "run_job_now", "cancel_run"),
            *("send_event", "send_events", "send_signal"),
        },
        Right.OPERATE: {
            *(
                "redrive_run",
                "discard_dead_runs",
                "pause_job",
                "resume_job",
                "list_pauses",
                "pause_queue",
                "resume_queue",
            ),
            *("list_queue_blackouts", "upsert_queue_blackouts"),
            *("start_redrive", "pause_redrive", "resume_redrive", "cancel_redrive"),
            *("acknowledge_alert", "add_silence", "end_silence"),
            *("pause_run", "resume_run", "skip_run_steps", "complete_run_step"),
            *("create_backfill", "pause_backfill", "resume_backfill", "cancel_backfill"),
        },
        Right.EDIT: {
            *(
                "create_job",
                "create_jobs",
                "upsert_job",
                "apply_jobs",
                "edit_job",
                "replace_job",
                "delete_job",
            ),
            *("upsert_calendar", "import_calendar", "delete_calendar", "upsert_limit", "delete_limit"),
            *("upsert_owner", "apply_definitions"),
            *("upsert_alert_rule", "delete_alert_rule", "upsert_channel", "delete_channel", "test_channel"),
            *("upsert_monitor", "delete_monitor", "upsert_slo", "delete_slo"),
        },
        Right.ADMIN: {
            *("list_accounts", "get_account", "upsert_account"),
            *("list_tenants", "get_tenant", "upsert_tenant"),
            *("list_queues", "get_queue", "upsert_queue"),
            *("upsert_priority_class", "delete_priority_class"),
            *("list_labels", "get_label", "upsert_label", "delete_label"),
            *("pause_all", "resume_all", "pause_tenant", "resume_tenant"),
            *("list_audit", "verify_audit", "get_logging", "set_logging"),
            "list_archive_days",
            *("list_tenant_blackouts", "upsert_tenant_blackouts", "list_blackouts", "upsert_blackouts"),
        },
        Right.WORK: {
            *(f"worker_{verb}" for verb in ("register", "claim", "beat", "log", "report", "leave")),
            *("worker_artifact", "worker_confirm", "put_artifact_content"),
            *("worker_keep_steps", "worker_list_steps"),
        },
    }


def test_table_names_no_operation_twice() -> None:
    names = [name for name, value in vars(operations).items() if isinstance(value, Operation)]
    assert sorted(map(str.lower, names)) == sorted(operation.id for operation in OPERATIONS)


def test_what_all_tenants_share_needs_the_right_for_all_of_them() -> None:
    """Whoever has a role in one tenant only does not see or stop what others use."""
    shared = {operation.id for operation in OPERATIONS if operation.is_shared}
    assert shared == {
        *("list_pauses", "pause_queue", "resume_queue"),
        *("list_queue_blackouts", "upsert_queue_blackouts"),
    }
    for operation in OPERATIONS:
        assert not (operation.is_shared and operation.right is Right.ADMIN), "says it twice"
