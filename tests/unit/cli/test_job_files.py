"""Files of jobs: what they may hold, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mainspring.cli.job_files import read_job_files
from mainspring.errors import InvalidInput
from mainspring.importers.yaml_text import read_yaml

TOML = """
owner = "us"
[defaults]
tz = "Europe/Berlin"
timeout = "10m"
starts_at = 2026-12-01T00:00:00Z
[[jobs]]
name = "cron"
cron = "0 9 * * *"
function = "f"
[[jobs]]
name = "words"
schedule = "every 2 hours"
function = "f"
timeout_seconds = 5
[[jobs]]
name = "submitted"
function = "f"
"""


def write(folder: Path, **texts: str) -> str:
    for name, text in texts.items():
        file = folder / name.replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(folder)


def test_defaults_go_to_the_jobs_that_they_fit(tmp_path: Path) -> None:
    read = read_job_files([write(tmp_path, a_toml=TOML)])
    assert read.owners == ("us",)
    start = "2026-12-01T00:00:00+00:00"
    assert [(job.line, job.owner, job.body) for job in read.jobs] == [
        (
            7,
            "us",
            {
                "name": "cron",
                "cron": "0 9 * * *",
                "function": "f",
                "tz": "Europe/Berlin",
                "timeout": "10m",
                "starts_at": start,
            },
        ),
        (
            11,
            "us",
            {
                "name": "words",
                "schedule": "every 2 hours",
                "function": "f",
                "timeout_seconds": 5,
                "tz": "Europe/Berlin",
                "starts_at": start,
            },
        ),
        (16, "us", {"name": "submitted", "function": "f", "timeout": "10m"}),
    ]


def test_default_maximum_of_fires_goes_to_jobs_with_a_trigger(tmp_path: Path) -> None:
    triggers = ("every: 1h", "schedule: daily", "trigger: {type: cron, expression: '* * * * *'}", "queue: q")
    jobs = "".join(f"  - {{name: job {place}, {one}}}\n" for place, one in enumerate(triggers))
    read = read_job_files([write(tmp_path, a_yaml=f"defaults: {{max_fires: 5}}\njobs:\n{jobs}")])
    assert [job.body.get("max_fires") for job in read.jobs] == [5, 5, 5, None]


def test_folders_are_read_whole_once_and_without_hidden_files(tmp_path: Path) -> None:
    for place, name in enumerate(("b.toml", "a.toml", "deep/c.json", ".git/d.toml", "e.txt", ".f.toml")):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        job = f'[[jobs]]\nname = "{place}"\n' if file.suffix != ".json" else '{"jobs": [{"name": "2"}]}'
        file.write_text(job)
    read = read_job_files([str(tmp_path), str(tmp_path / "a.toml")], owner="them")
    assert [job.body["name"] for job in read.jobs] == ["1", "0", "2"]
    assert read.owners == ("them",)


YAML = """
owner: us
jobs:
  - &first
    name: a
    every: 1:30
    payload: {yes: no, at: 2026-12-01, n: 017, f: 1.5, t: true, nothing: ~, text: "1"}
  - <<: *first
    name: b
"""


def test_yaml_is_read_by_the_rules_of_today(tmp_path: Path) -> None:
    one, two = read_job_files([write(tmp_path, a_yaml=YAML)]).jobs
    assert (one.line, two.line) == (4, 8)
    assert one.body["every"] == "1:30"
    payload = {"yes": "no", "at": "2026-12-01", "n": 17, "f": 1.5, "t": True, "nothing": None, "text": "1"}
    assert one.body["payload"] == payload
    assert two.body == {**one.body, "name": "b"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("jobs = [", "a.toml: is not TOML: "),
        ("[[job]]\n", "a.toml: job: there is no such field; did you mean 'jobs'?"),
        ("", "a.toml: jobs: is missing"),
        ("jobs = 3", "a.toml: jobs: must be a list, not a number"),
        ("jobs = [3]", "a.toml: job 1: must be an object, not a number"),
        ("[[jobs]]\n", "a.toml: job 1 (line 1): name: is missing"),
        ("owner = 3\njobs = []", "a.toml: owner: must be text, not a number"),
        ("jobs = []\ndefaults = 1", "a.toml: defaults: must be an object, not a number"),
        (
            'jobs = []\n[defaults]\ncron = "@daily"',
            "a.toml: defaults.cron: is for a single job; give it there",
        ),
        (
            'jobs = []\n[defaults]\nqueu = "a"',
            "a.toml: defaults.queu: there is no such field; did you mean 'queue'?",
        ),
        (
            '[[jobs]]\nname = "a"\n[[jobs]]\nname = "a"\n',
            "a.toml: job 'a' (line 3): name: is that of another job, too, in a.toml, line 1",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a_toml=text)
    with pytest.raises(InvalidInput) as refused:
        read_job_files(["a.toml"])
    assert str(refused.value).startswith(told)


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a_toml='[[jobs]]\nname = "a"\n', b_json='{"jobs": [{"name": "a"}]}')
    with pytest.raises(
        InvalidInput, match=r"b\.json: job 'a': name: is that of another job, too, in .*a\.toml, line 1"
    ):
        read_job_files([str(tmp_path)])


@pytest.mark.parametrize("name", ["a.txt", "nowhere.toml", "empty"])
def test_what_is_no_file_of_jobs_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InvalidInput):
        read_job_files([str(tmp_path / name)])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", r"line 1|line 2"),
        ("a: 1\na: 2\n", r"'a' stands there twice \(line 2\)"),
        ("a: !!python/object:os.system x", "the tag"),
        ("a: &x [*x]", "too many values|too deep"),
        ("? [1]\n: 2", "a field's name is text"),
        (
            "a: 1\n---\nb: 2",
            "more than one document .the second begins in line 3.; give each a file of its own",
        ),
        ("<<: 3", "goes with an object"),
        ("\x00", "is not YAML"),
    ],
)
def test_wrong_yaml_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_yaml(text, "file")


def test_yaml_that_unfolds_without_end_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidInput, match="too many values"):
        read_yaml("\n".join(lines), "file")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<~", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text("abc", max_size=3), JSON, max_size=3))
def test_yaml_that_a_program_wrote_is_read_as_it_was(value: dict[str, object]) -> None:
    assert read_yaml(yaml.safe_dump(value), "f")[0] == value


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_yaml(text, "file")
    except InvalidInput as error:
        assert error.field == "file"  # noqa: PT017 - any refusal, or none
