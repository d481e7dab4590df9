"""How the command line finds the job that is meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mainspring.cli.calling import find_job, read_file, read_json_text
from mainspring.cli.main import run_command
from mainspring.errors import InvalidInput, NotFound
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


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[-Infinity]", '{"a": 1e400}', "-1e999"])
def test_numbers_that_json_has_not_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^payload: is not JSON: .* is not a number that JSON can carry"):
        read_json_text(text, "payload")


def test_other_numbers_are_read_as_ever() -> None:
    assert read_json_text("[1e308, -0.5, 10000000000000000000000, 1e-400]", "payload") == [
        1e308,
        -0.5,
        10**22,
        0.0,
    ]


def test_a_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.cli.calling._MOST_BYTES", 1 << 20)
    with pytest.raises(InvalidInput, match=r"^file: /dev/zero has more than 1 MiB$"):
        read_file("/dev/zero", "file")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--function", "f", "--payload", "NaN"), "payload: is not JSON: NaN is not a number"),
        (("--function", "f", "--payload", "1e400"), "payload: is not JSON: 1e400 is not a number"),
        (("--function", "f", "--payload", '"\\ud800"'), "payload: holds a lone surrogate"),
        (("--function", "f\udcff"), "function: holds a lone surrogate"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["job", "add", "a", "--server", "http://127.0.0.1:9", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_a_name_that_is_not_utf_8_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["job", "show", "a\udcff", "--server", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.startswith("error: name: holds a lone surrogate")
