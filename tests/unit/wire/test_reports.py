"""Reports on the wire: what is refused, what is put right, and how many go in one request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.core.model import INLINE_LIMIT
from mainspring.core.outcomes import MAX_SNOOZE, Failure
from mainspring.core.results import LeftOut, keep, leave_out, read_mark
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import Ending, Report, ReportResult, Stopped
from mainspring.sdk.http_gateway import HttpGateway
from mainspring.wire import protocol
from mainspring.wire.operation import Operation

FULL = b'"' + b"x" * (INLINE_LIMIT - 2) + b'"'


def item(result: bytes, outcome: str = "success") -> protocol.ReportItem:
    run_id = format_run_id(RunId(1))
    return protocol.ReportItem(run_id=run_id, token=1, outcome=outcome, result=msgspec.Raw(result))


@pytest.mark.parametrize("outcome", ["success", "failure"])
@pytest.mark.parametrize(
    "result",
    [b'"\xff"', b"{", b"", b"1e400", b"NaN", FULL + b" ", b"[" * 5000 + b"]" * 5000, b"[" * 65 + b"]" * 65],
)
def test_result_that_no_reader_could_show_is_left_out(result: bytes, outcome: str) -> None:
    ending = protocol.to_report(item(result, outcome), 3).ending
    assert isinstance(ending, Success if outcome == "success" else Failure)
    mark = read_mark(ending.result)
    assert mark is not None
    assert (mark.size is None) == (mark.reason is LeftOut.NOT_JSON)


@pytest.mark.parametrize("ending", [Success, lambda result: Failure(error="x", result=result)])
def test_result_that_was_left_out_by_the_worker_arrives_as_such(ending: Callable[..., Ending]) -> None:
    for result in (keep(FULL + b"1"), leave_out("no \ud800"), b'{"result_left_out": 1}'):
        said = protocol.from_report(Report(run_id=RunId(1), token=1, ending=ending(result=result)))
        heard = msgspec.json.decode(msgspec.json.encode(said), type=protocol.ReportItem)
        assert protocol.to_report(heard, 0).ending == ending(result=result)


@pytest.mark.parametrize("result", [b' {"result_left_out": {}}', b" 1 ", b"\n[]"])
def test_result_cannot_look_like_a_mark(result: bytes) -> None:
    ending = protocol.to_report(item(result), 0).ending
    assert ending == Success(result=result.strip())


def test_reason_for_leaving_out_a_result_is_checked() -> None:
    wrong = item(b"null")
    wrong.result_left_out = protocol.LeftOutResult(reason="boring")
    with pytest.raises(InvalidInput, match="one of too_large, too_deep, not_json") as refused:
        protocol.to_report(wrong, 3)
    assert refused.value.field == "reports[3].result_left_out.reason"


@pytest.mark.parametrize(
    "result", [FULL, b"[1.5, null]", '"Grüße"'.encode(), b"[" * 64 + b"]" * 64, b"[" + b"{}," * 70 + b"1]"]
)
def test_result_within_the_limit_is_kept_exactly(result: bytes) -> None:
    assert protocol.to_report(item(result), 0).ending == Success(result=result)


def test_text_is_made_fit_for_every_store() -> None:
    endings: list[tuple[Ending, Ending]] = [
        (Success(output="a\0b"), Success(output="a\ufffdb")),
        (Failure(error="\ud800", output="\0"), Failure(error="?", output="\ufffd")),
        (Stopped(error="\0", output="\0"), Stopped(error="\ufffd", output="\ufffd")),
        (Snooze(timedelta(days=365 * 9000)), Snooze(MAX_SNOOZE)),
        (Snooze(timedelta(days=-1)), Snooze(timedelta(0))),
    ]
    for given, expected in endings:
        said = protocol.from_report(Report(run_id=RunId(1), token=1, ending=given))
        heard = msgspec.json.decode(msgspec.json.encode(said), type=protocol.ReportItem)
        assert protocol.to_report(heard, 0).ending == expected
    raw = protocol.ReportItem(
        run_id=format_run_id(RunId(1)), token=1, outcome="failure", error="a\0b", output="\0"
    )
    assert protocol.to_report(raw, 0).ending == Failure(error="a\ufffdb", output="\ufffd")


class Recorder:
    """Stands for a server that applies everything, and measures."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def call(
        self, operation: Operation[protocol.ReportView], *, body: Any, **options: object
    ) -> protocol.ReportView:
        self.sizes.append(len(msgspec.json.encode(body)))
        return protocol.ReportView(results=["applied"] * len(body["reports"]))


async def test_many_full_results_go_in_requests_that_a_server_reads() -> None:
    gateway = HttpGateway("http://127.0.0.1:1")
    recorder = Recorder()
    gateway._transport = recorder  # type: ignore[assignment]
    reports = tuple(
        Report(run_id=RunId(number), token=1, ending=Success(result=FULL)) for number in range(1000)
    )
    results = await gateway.report(SessionId(1), reports)
    assert results == (ReportResult.APPLIED,) * 1000
    assert max(recorder.sizes) < 1024 * 1024
    assert len(recorder.sizes) < 100


async def test_small_reports_go_in_one_request() -> None:
    gateway = HttpGateway("http://127.0.0.1:1")
    recorder = Recorder()
    gateway._transport = recorder  # type: ignore[assignment]
    await gateway.report(
        SessionId(1), tuple(Report(run_id=RunId(number), token=1, ending=Success()) for number in range(1000))
    )
    assert len(recorder.sizes) == 1
