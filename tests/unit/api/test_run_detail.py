"""What is told of a run: the attempts that have ended, and of one under way the run's own fields."""

from __future__ import annotations

from typing import Any

from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime
from tests.unit.api.asgi import api_of, client_of


async def test_the_attempts_are_those_that_have_ended_also_while_one_is_under_way() -> None:
    """Clients of earlier releases cannot read an answer with an attempt that has no end."""
    seen: list[dict[str, Any]] = []
    registry = FunctionRegistry()
    async with ManualRuntime(registry) as runtime, client_of(api_of(runtime)) as http:

        async def work() -> None:
            seen.append((await http.get(seen[0]["path"])).json())
            if len(seen) == 2:
                raise ValueError("once more")

        registry.add("work", work)
        body = {"name": "pay", "function": "work", "retry": {"delay": "1s"}}
        job = (await http.post("/api/v1/jobs", json=body)).json()
        made = (await http.post(f"/api/v1/jobs/{job['job_id']}/runs")).json()
        seen.append({"path": f"/api/v1/runs/{made['run_id']}"})
        worker = await runtime.worker()
        while len(seen) < 3:
            await runtime.advance(1)
            await worker.work()
        ended = (await http.get(seen[0]["path"])).json()
    first, second = seen[1:]
    assert (first["status"], first["attempts"], first["attempt"]) == ("RUNNING", [], 1)
    assert (second["status"], second["attempt"]) == ("RUNNING", 2)
    assert [each["outcome"] for each in second["attempts"]] == ["failed"]
    assert first["worker"] is not None
    assert [each["outcome"] for each in ended["attempts"]] == ["failed", "succeeded"]
    assert all(each["finished_at"] is not None for each in ended["attempts"])
