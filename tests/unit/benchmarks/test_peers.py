"""The peers of the table: who is left out, what may come into `.cache`, and that none loses a job unnoticed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.at_once import make_row, read_starts, sum_up
from benchmarks.peers import find_contestants
from benchmarks.peers.contestants import OURS, PEERS
from benchmarks.peers.installing import HERE, check_sums, is_fresh, set_fresh
from benchmarks.peers.notes import STAMPS
from benchmarks.pickup import SLOW

COUNT = 100_000
JAVA = HERE / "java"


def first_words(names: list[str]) -> list[str]:
    return [name.partition(",")[0] for name in names]


def test_peer_without_its_toolchain_is_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in ("npm", "java", "javac"):
        (tmp_path / tool).touch(mode=0o755)
    found = first_words([one.name for one in find_contestants(with_peers=True)])
    assert found == ["Mainspring", "graphile-worker", "pgqueuer", "pg-boss", "procrastinate"]
    assert capsys.readouterr().err.splitlines() == [
        "River, 2,000 workers is left out: no go on the PATH",
        "db-scheduler, 20 threads, lock-and-fetch of 400 is left out: no mvn on the PATH",
        "Quartz, 50 threads, batches of 50 is left out: no mvn on the PATH",
    ]


def test_ours_alone_asks_for_no_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_contestants(with_peers=False) == [OURS]
    assert capsys.readouterr().err == ""


def test_lines_of_peers_are_told_apart_by_their_first_words() -> None:
    names = first_words([one.name for one in PEERS])
    assert len(set(names)) == len(names)
    assert set(SLOW) < set(names)


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"a.jar": "a", "b.jar": "b"}, None),
        ({"a.jar": "a", "b.jar": "x"}, "b.jar"),
        ({"a.jar": "a"}, "b.jar"),
        ({"a.jar": "a", "b.jar": "b", "c.jar": "c"}, "c.jar"),
    ],
)
def test_jars_are_taken_only_as_their_sums_say(
    tmp_path: Path, files: dict[str, str], wrong: str | None
) -> None:
    sums = tmp_path / "jars.sha256"
    sums.write_text("".join(f"{hashlib.sha256(x.encode()).hexdigest()}  {x}.jar\n" for x in "ab"))
    folder = tmp_path / "jars"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    if wrong is None:
        check_sums(folder, sums)
    else:
        with pytest.raises(RuntimeError, match=re.escape(f"not as jars.sha256 says: {wrong}")):
            check_sums(folder, sums)


def test_every_jar_that_is_asked_for_has_a_sum() -> None:
    asked = {
        f"{one.findtext('artifactId')}-{one.findtext('version')}.jar"
        for one in ET.parse(JAVA / "pom.xml").iterfind("dependencies/dependency")
    }
    named = {line.split()[1] for line in (JAVA / "jars.sha256").read_text().splitlines()}
    assert asked
    assert asked <= named


def test_every_module_that_is_asked_for_has_a_sum() -> None:
    asked = set(re.findall(r"^\t(\S+ v\S+)", (HERE / "river" / "go.mod").read_text(), re.MULTILINE))
    sums = (HERE / "river" / "go.sum").read_text()
    named = {" ".join(line.split()[:2]) for line in sums.splitlines()}
    assert asked
    assert asked <= named


def test_what_is_installed_is_made_anew_when_a_source_changes(tmp_path: Path) -> None:
    folder, source = tmp_path / "made", tmp_path / "source"
    assert not is_fresh(folder, [])
    folder.mkdir()
    source.write_text("one")
    set_fresh(folder, [source])
    assert is_fresh(folder, [source])
    source.write_text("two")
    assert not is_fresh(folder, [source])


def test_starts_are_read_in_order_and_in_seconds(tmp_path: Path) -> None:
    (tmp_path / STAMPS).write_text("2500.000\n500.000\n1000.000\n")
    assert read_starts(OURS, tmp_path, 3) == [0.5, 1.0, 2.5]


@pytest.mark.parametrize("count", [1, 3])
def test_job_that_was_lost_or_began_twice_fails_the_round(tmp_path: Path, count: int) -> None:
    (tmp_path / STAMPS).write_text("500.000\n1000.000\n")
    with pytest.raises(RuntimeError, match=f"Mainspring: 2 starts of {count} jobs"):
        read_starts(OURS, tmp_path, count)


def test_line_of_several_rounds_is_the_median_one_with_the_spread() -> None:
    rounds = [make_row(COUNT, [first, 4.0, last]) for first, last in ((0.1, 9.0), (0.2, 7.0), (0.3, 8.0))]
    assert sum_up("River", rounds) == {
        "name": "100,000 one-off jobs due at one instant: all begun after",
        "contestant": "River",
        "value": 8.0,
        "low": 7.0,
        "high": 9.0,
        "unit": "s",
        "detail": {"first, s": 0.3, "half, s": 4.0},
    }
