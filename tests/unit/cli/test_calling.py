"""How the command line finds the job that is meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mainspring.cli.calling import find_job
from mainspring.errors import NotFound
from mainspring.sdk.client import AsyncClient

ID = "job_01kxj0000000000000000000ab"
OTHER = "job_01kxj0000000000000000000cd"


class Client:
    """Answers for two jobs, one of which bears the other's id as its name (as older versions allowed)."""

    def __init__(self) -> None:
        self.jobs = {
            ID: SimpleNamespace(job_id=ID, name="good"),
            OTHER: SimpleNamespace(job_id=OTHER, name=ID),
        }

    async def list_jobs(self, *, name: str) -> Any:
        return SimpleNamespace(items=[job for job in self.jobs.values() if job.name == name])

    async def get_job(self, job_id: str) -> Any:
        if job_id not in self.jobs:
            raise NotFound("job", job_id)
        return self.jobs[job_id]


async def find(key: str) -> str:
    return (await find_job(cast("AsyncClient", Client()), key)).job_id


async def test_an_id_is_an_id_even_where_a_job_has_it_as_its_name() -> None:
    assert await find(ID) == ID


async def test_a_name_is_found() -> None:
    assert await find("good") == ID


@pytest.mark.parametrize("key", ["nobody", "job_1", "run_0000000000100", "job_01kxj0000000000000000000ef"])
async def test_what_there_is_not(key: str) -> None:
    with pytest.raises(NotFound):
        await find(key)
