from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ids import (
    JobId,
    RunId,
    format_job_id,
    format_run_id,
    job_shard,
    key_for_target,
    looks_like_job_id,
    looks_like_run_id,
    make_run_id,
    parse_job_id,
    parse_run_id,
    run_shard,
)

job_ids = st.uuids().map(JobId)
run_ids = st.integers(0, 2**63 - 1).map(RunId)


@given(job_ids)
def test_job_id_survives_its_text_form(job_id: JobId) -> None:
    text = format_job_id(job_id)
    assert len(text) == 30
    assert parse_job_id(text) == job_id


@given(run_ids)
def test_run_id_survives_its_text_form(run_id: RunId) -> None:
    text = format_run_id(run_id)
    assert len(text) == 17
    assert parse_run_id(text) == run_id


@given(run_ids, run_ids)
def test_text_forms_sort_as_the_ids_do(one: RunId, other: RunId) -> None:
    assert (format_run_id(one) < format_run_id(other)) == (one < other)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "run_0000000000000"), (31, "run_000000000000z"), (2**63 - 1, "run_7zzzzzzzzzzzz")],
)
def test_run_id_known_forms(value: int, text: str) -> None:
    assert format_run_id(RunId(value)) == text


def test_job_id_known_form() -> None:
    assert format_job_id(JobId(UUID(int=2**128 - 1))) == "job_7" + "z" * 25


@given(st.integers(0, 2**55 - 1), st.integers(0, 255))
def test_run_id_tells_its_shard(sequence: int, shard: int) -> None:
    run_id = make_run_id(sequence, shard)
    assert run_shard(run_id) == shard
    assert run_id >> 8 == sequence


def test_targets_key_is_the_submitters_or_else_the_runs_id() -> None:
    assert key_for_target(RunId(31), "order-7") == "order-7"
    assert key_for_target(RunId(31), "") == ""
    assert key_for_target(RunId(31), None) == "run_000000000000z"


def test_job_shard_is_the_last_byte() -> None:
    assert job_shard(JobId(UUID("018cd000-0000-7000-8000-0000000001a7"))) == 0xA7


@given(run_ids)
def test_parse_reads_capitals_and_look_alikes(run_id: RunId) -> None:
    body = format_run_id(run_id).removeprefix("run_").upper()
    assert parse_run_id("run_" + body.replace("0", "O").replace("1", "l")) == run_id
    assert parse_run_id("run_" + body.replace("0", "o").replace("1", "I")) == run_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "run_",
        "0000000000000",
        "job_0000000000000",
        "RUN_0000000000000",
        "run_000000000000",
        "run_00000000000000",
        "run_8000000000000",  # 2 ** 63
        "run_zzzzzzzzzzzzz",
        "run_000000000000u",
        "run_000000000000-",
        "run_ 000000000000",
        "run_0000000000000\n",
        " run_0000000000000",
        "run_run_000000000",
        "run_00000000000\u0660\u0661",  # Arabic digits
        "run_000000000000\u212a",  # the Kelvin sign, whose lower case is k
        "run_00000000000\u0130",  # whose lower case is two characters
    ],
)
def test_parse_run_id_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an id|out of range"):
        parse_run_id(text)


@pytest.mark.parametrize(
    "text", ["", "job_", "run_" + "0" * 26, "job_" + "0" * 25, "job_8" + "0" * 25, "x" * 10_000]
)
def test_parse_job_id_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an id|out of range"):
        parse_job_id(text)


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_job_id, "job_8" + "0" * 25), (parse_run_id, "run_8" + "0" * 12)]
)
def test_first_number_beyond_the_range_is_named_as_such(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is out of range"):
        parse(text)


@given(st.text(max_size=40))
def test_parse_accepts_only_other_spellings_of_an_id(text: str) -> None:
    for candidate in (text, "run_" + text):
        try:
            run_id = parse_run_id(candidate)
        except ValueError:
            continue
        assert parse_run_id(format_run_id(run_id)) == run_id


@given(job_ids, run_ids)
def test_ids_look_like_ids(job_id: JobId, run_id: RunId) -> None:
    job, run = format_job_id(job_id), format_run_id(run_id)
    assert looks_like_job_id(job)
    assert looks_like_job_id("job_" + job[4:].upper())
    assert looks_like_run_id(run)
    assert not looks_like_job_id(run)
    assert not looks_like_run_id(job)


def test_an_id_out_of_range_looks_like_one() -> None:
    assert looks_like_job_id("job_" + "z" * 26)
    assert looks_like_run_id("run_" + "z" * 13)
    assert not looks_like_job_id("job_" + "u" * 26)
    assert not looks_like_run_id("run_" + "\u212a" * 13)
