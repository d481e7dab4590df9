"""Each wrong input is refused: without a traceback, with what is wrong named, and with what would be right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.wrong_inputs.table import CASES, attempt, scene
from tests.wrong_inputs.trying import Answer, Case, Code, Scene, faults_of


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(tmp_path_factory.mktemp("wrong-inputs")) as made:
        yield made


@pytest.mark.xdist_group("wrong-inputs")
@pytest.mark.parametrize(
    ("number", "case"), list(enumerate(CASES)), ids=[case.trial.shown[:60] for case in CASES]
)
def test_a_wrong_input_is_told(number: int, case: Case, here: Scene) -> None:
    answer = attempt(case, number, here)
    assert faults_of(case, answer) == [], answer.text


def test_there_are_sixty_of_them_by_all_ways() -> None:
    assert len(CASES) >= 60
    assert {case.surface for case in CASES} == {"CLI", "DSN", "Python", "HTTP", "cron", "file"}
    assert len({case.trial.shown for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Answer("delay: write 5m", is_refused=False), "not refused"),
        (Answer("Traceback (most recent call last): delay: 5m", is_refused=True), "a traceback"),
        (Answer("write 5m", is_refused=True), "does not name 'delay'"),
        (Answer("delay: is wrong", is_refused=True), "does not say '5m'"),
        (Answer("delay: 5m " + "x" * 1000, is_refused=True), "characters long"),
        (Answer("delay: 5m <class 'int'>", is_refused=True), "what is inside"),
    ],
)
def test_a_bad_answer_is_seen(answer: Answer, fault: str) -> None:
    assert [fault in told for told in faults_of(Case("CLI", Code(""), "delay", "5m"), answer)] == [True]
