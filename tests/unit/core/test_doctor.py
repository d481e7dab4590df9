"""The doctor's checks, each both ways: what is right is fine, and what is wrong is told with its remedy."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from mainspring.core.ciphertexts import KeyUses
from mainspring.core.doctor import (
    ChannelLook,
    Checked,
    ClusterLook,
    FileFinding,
    FolderFacts,
    Grade,
    InstallationFacts,
    NodeLook,
    ServerLook,
    SettingFacts,
    StoreLook,
    TokenLook,
    WaitingQueue,
    examine,
    worst_of,
)
from mainspring.core.doctor.checks import CHECKS
from mainspring.core.doctor.findings import number, tell, weigh
from mainspring.core.ids import JobId
from mainspring.core.ledger_check import LedgerCheck, UnevenJob
from mainspring.core.storage import Disk

AT = datetime(2026, 11, 27, tzinfo=UTC)
GB = 1_000_000_000
DAY = 86_400.0
FINE, WARNING, FAILURE = Grade
LEDGER = LedgerCheck(
    began_at=AT,
    ended_at=AT,
    since=AT,
    jobs=1,
    uneven=0,
    expected=5,
    without_work=0,
    missing=0,
    surplus=0,
)
UNEVEN = UnevenJob(tenant="t", job_id=JobId(UUID(int=1)), name="report", missing=1, surplus=0, first_at=AT)
NODE = NodeLook(host="a", version="1.0", tzdata="2026a", refusal=None, silent=1, period=1.4)
CLUSTER = ClusterLook(
    tzdata="2026a",
    nodes=[NODE],
    free_shards=0,
    accounts=1,
    jobs=3,
    dead=0,
    unsealed_for=None,
    overdue=0,
    overdue_by=0,
    workers=1,
    slots=10,
    queues=[],
    tokens=[],
    channels=[],
    ledger=LEDGER,
    ledger_age=100,
    keys=["k1"],
)
FOLDER = FolderFacts(
    path="data",
    filesystem="ext4",
    free=50 * GB,
    size=100 * GB,
    is_private=True,
    is_own=True,
    journal="wal",
    log_size=0,
    sync=0.005,
)
SERVER = ServerLook(
    version=16,
    is_standby=False,
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    autovacuum=True,
    max_connections=100,
    connections=20,
    longest_transaction=1,
    longest_idle=0,
    stale_slots=0,
    table="run",
    live_rows=10,
    dead_rows=20,
    commit=0.003,
    role="mainspring",
    is_here=True,
    folder="/srv/postgresql",
    has_right=True,
    disk=Disk("/srv/postgresql", free=50 * GB, size=100 * GB),
)
SECRET = FileFinding(setting="tls.key", path="key.pem", is_private=True)
SETTINGS = SettingFacts(
    certificate_ends_in=60 * DAY,
    secrets=[SECRET],
    is_encrypted=True,
    tzdata="2026a",
    history_keep=30 * DAY,
    archive="/srv/archive",
    artifacts="/srv/files",
    vault_secrets=3,
    keys=["k2", "k1"],
)
STORE = StoreLook(label="data/mainspring.db", schema=35, folder=FOLDER, cluster=CLUSTER)
SQLITE = InstallationFacts(product="1.0", schema=35, store=STORE, settings=SETTINGS, address="http://a")
POSTGRES = replace(SQLITE, store=replace(STORE, folder=None, server=SERVER))


def with_store(**changes: Any) -> InstallationFacts:
    return replace(SQLITE, store=replace(STORE, **changes))


def with_folder(**changes: Any) -> InstallationFacts:
    return with_store(folder=replace(FOLDER, **changes))


def with_server(**changes: Any) -> InstallationFacts:
    return replace(POSTGRES, store=replace(POSTGRES.store, server=replace(SERVER, **changes)))


def with_settings(**changes: Any) -> InstallationFacts:
    return replace(SQLITE, settings=replace(SETTINGS, **changes))


def with_cluster(**changes: Any) -> InstallationFacts:
    return with_store(cluster=replace(CLUSTER, **changes))


def open_without_accounts() -> InstallationFacts:
    facts = with_cluster(accounts=0)
    return replace(facts, settings=replace(SETTINGS, is_open=True, is_encrypted=False))


WRONG: list[tuple[str, InstallationFacts, Grade, str]] = [
    ("reachable", with_store(error="no route"), FAILURE, "cannot be read: no route"),
    ("schema", with_store(schema=None), WARNING, "the store is empty"),
    ("schema", with_store(schema=34), WARNING, "is 0034, and this program has 0035"),
    ("schema", with_store(schema=36), WARNING, "is 0036, and this program ends at 0035"),
    ("clock", with_store(clock_ahead=0.6), WARNING, "600 ms ahead of"),
    ("clock", with_store(clock_ahead=-0.6), WARNING, "600 ms behind"),
    ("clock", with_store(clock_ahead=3), FAILURE, "3.0 s ahead of"),
    ("clock", with_store(clock_ahead=-3), FAILURE, "3.0 s behind"),
    ("write latency", with_folder(sync=0.06), WARNING, "after 60 ms"),
    ("write latency", with_server(commit=0.6), FAILURE, "after 600 ms"),
    ("disk space", with_folder(free=GB, size=8 * GB), WARNING, "1.0 GB are free"),
    ("disk space", with_folder(free=90 * GB, size=1000 * GB), WARNING, "90.0 GB are free"),
    ("disk space", with_folder(free=GB // 10), FAILURE, "100 MB are free"),
    ("disk space", with_folder(free=10 * GB, size=1000 * GB), FAILURE, "10.0 GB are free"),
    ("disk space", with_server(disk=Disk("/srv", free=GB, size=8 * GB)), WARNING, "1.0 GB are free at /srv"),
    ("disk space", with_server(disk=Disk("/srv", free=GB // 10, size=8 * GB)), FAILURE, "100 MB are free"),
    (
        "disk space",
        with_server(folder=None, disk=None, has_right=False),
        WARNING,
        "the role mainspring may not read where PostgreSQL keeps its data",
    ),
    ("disk space", with_server(disk=None), WARNING, "this user cannot look at /srv/postgresql"),
    ("disk space", with_server(disk=None, is_disk_slow=True), WARNING, "does not answer"),
    ("file system", with_folder(filesystem="nfs4"), FAILURE, "is on nfs4"),
    ("file system", with_folder(filesystem="tmpfs"), WARNING, "is in memory"),
    ("journal", with_folder(journal="delete"), WARNING, "is delete, not wal"),
    ("journal", with_folder(log_size=2 * GB), WARNING, "has 2.0 GB"),
    ("permissions", with_folder(is_own=False), FAILURE, "may not write data"),
    ("permissions", with_folder(is_private=False), WARNING, "others may read data"),
    ("server version", with_server(version=14), FAILURE, "PostgreSQL is 14"),
    ("primary", with_server(is_standby=True), FAILURE, "is a standby"),
    ("connections", with_server(connections=81), WARNING, "81 of 100"),
    ("durability", with_server(fsync=False), FAILURE, "fsync is off"),
    ("durability", with_server(full_page_writes=False), FAILURE, "full_page_writes is off"),
    ("durability", with_server(synchronous_commit="off"), WARNING, "synchronous_commit is off"),
    ("autovacuum", with_server(autovacuum=False), FAILURE, "autovacuum is off"),
    ("autovacuum", with_server(dead_rows=200_000), WARNING, "200,000 dead rows"),
    ("long transactions", with_server(longest_idle=400), WARNING, "idle for 7 min"),
    ("long transactions", with_server(longest_transaction=2000), WARNING, "open for 33 min"),
    ("replication slots", with_server(stale_slots=1), WARNING, "1 replication slots"),
    ("settings", with_settings(problems=["port: must be a number"]), FAILURE, "1 problem: port: must"),
    ("server answers", replace(SQLITE, api_error="refused"), WARNING, "no server answers at http://a"),
    ("network", open_without_accounts(), FAILURE, "everyone in the network"),
    ("network", with_settings(is_open=True, is_encrypted=False), WARNING, "in the clear"),
    ("certificate", with_settings(certificate_ends_in=-DAY), FAILURE, "over for 24 h"),
    ("certificate", with_settings(certificate_ends_in=5 * DAY), WARNING, "ends in 5 days"),
    (
        "secrets",
        with_settings(secrets=[replace(SECRET, is_private=False)]),
        WARNING,
        "others may read key.pem",
    ),
    ("secrets", with_settings(secrets=[replace(SECRET, is_private=None)]), FAILURE, "cannot be read"),
    (
        "vault",
        with_settings(vault_errors=["secrets.a: cannot be read: it is sealed"]),
        FAILURE,
        "secrets.a: cannot be read: it is sealed",
    ),
    (
        "vault",
        with_settings(vault_errors=["vault.address: is needed", "b", "c"]),
        FAILURE,
        "vault.address: is needed; and 2 more problems",
    ),
    ("encryption", with_settings(keys=None), WARNING, "encrypted with 1 key, and this host has no keys_file"),
    ("encryption", with_settings(keys=["k2"]), FAILURE, "keys_file lacks k1, with which"),
    (
        "encryption",
        replace(with_settings(keys=["k2"]), key_uses={"k1": KeyUses(3, 1, 2)}),
        FAILURE,
        "with which the store was encrypted (k1 is needed by 3 jobs, 1 run that waits, 2 dead letters)",
    ),
    (
        "encryption",
        replace(with_settings(keys=None), key_uses={"k1": KeyUses(0, 2, 0)}),
        WARNING,
        "no keys_file that can be read (k1 is needed by 2 runs that wait)",
    ),
    (
        "encryption",
        replace(
            with_cluster(key_checks={"k1": b"right"}),
            settings=replace(SETTINGS, key_checks={"k1": b"wrong", "k2": b"x"}),
            key_uses={"k1": KeyUses(0, 0, 0)},
        ),
        FAILURE,
        "another key under the id k1 than the one with which the store was encrypted (k1 is needed by ended runs",
    ),
    ("shell", with_settings(allows_shell=True), WARNING, "any command"),
    (
        "executors",
        with_settings(
            executors=["grpc"],
            executor_problems=[("executors.grpc.enabled is set, and the extra is missing", "pip install it")],
        ),
        FAILURE,
        "the extra is missing",
    ),
    ("zone data", with_settings(tzdata="2025b"), WARNING, "zone data 2025b, and the cluster goes by 2026a"),
    (
        "archive",
        with_settings(archive_error="there is no folder /srv/archive"),
        FAILURE,
        "the archive cannot be used: there is no folder /srv/archive",
    ),
    (
        "artifacts",
        with_settings(artifacts_error="there is no folder /srv/files"),
        FAILURE,
        "the place for files of runs cannot be used: there is no folder /srv/files",
    ),
    ("archive", with_cluster(unarchived_for=33 * DAY), WARNING, "ended 33 days ago is not in the archive"),
    (
        "archive",
        replace(with_cluster(installation="mine"), settings=replace(SETTINGS, archive_owner="theirs")),
        FAILURE,
        "the archive /srv/archive is of the installation theirs, and this is mine",
    ),
    (
        "archive",
        replace(with_cluster(archive_url="/srv/archive"), settings=replace(SETTINGS, archive=None)),
        WARNING,
        "servers write days of the history to /srv/archive, and this host has no archive.url",
    ),
    ("servers", with_cluster(nodes=[]), FAILURE, "no server schedules"),
    ("servers", with_cluster(nodes=[replace(NODE, silent=9)]), FAILURE, "no server schedules"),
    ("refused servers", with_cluster(nodes=[replace(NODE, refusal="clock")]), WARNING, "its clock is wrong"),
    ("shards", with_cluster(free_shards=7), WARNING, "7 of 256 shards"),
    ("versions", with_cluster(nodes=[NODE, replace(NODE, version="1.1")]), WARNING, "1.0, 1.1"),
    (
        "versions",
        with_cluster(nodes=[replace(NODE, version="0.9")]),
        WARNING,
        "version 0.9, and this program is 1.0",
    ),
    ("clocks", with_cluster(overdue=2, overdue_by=120), FAILURE, "2 jobs should have fired, up to 2 min ago"),
    ("ledger", with_cluster(ledger=replace(LEDGER, missing=1, examples=(UNEVEN,))), FAILURE, "of report"),
    ("ledger", with_cluster(ledger=replace(LEDGER, surplus=1, examples=(UNEVEN,))), FAILURE, "1 doubled"),
    ("ledger", with_cluster(ledger_age=3 * DAY), WARNING, "72 h ago"),
    ("workers", with_cluster(workers=0), WARNING, "there is no worker"),
    (
        "queues",
        with_cluster(queues=[WaitingQueue(queue="mail", runs=3, oldest=60)]),
        FAILURE,
        "3 runs of the queue mail",
    ),
    ("dead letters", with_cluster(dead=1), WARNING, "1 run failed for good"),
    (
        "channels",
        with_cluster(channels=[ChannelLook(tenant="*", name="ops", error="no such host", waiting=2)]),
        WARNING,
        "the channel ops takes no messages: no such host; 2 messages wait",
    ),
    ("audit", with_cluster(unsealed_for=400), WARNING, "without a seal for 7 min"),
    (
        "tokens",
        with_cluster(tokens=[TokenLook(name="ci", account="bot", ends_in=DAY)]),
        WARNING,
        "ci of bot ends in 24 h",
    ),
    (
        "tokens",
        with_cluster(tokens=[TokenLook(name="ci", account="bea", ends_in=DAY, is_renewed_by_login=True)]),
        WARNING,
        "ci of bea ends in 24 h",
    ),
]


def found_by(facts: InstallationFacts, check: str) -> Checked:
    [found] = [one for one in examine(facts) if one.check == check]
    return found


@pytest.mark.parametrize("facts", [SQLITE, POSTGRES], ids=["sqlite", "postgresql"])
def test_what_is_right_is_fine(facts: InstallationFacts) -> None:
    checked = examine(facts)
    assert {one.check: one.found for one in checked if one.severity is not FINE} == {}
    assert worst_of(checked).exit_code == 0
    assert not any(one.why or one.remedy for one in checked)


@pytest.mark.parametrize(
    ("check", "facts", "severity", "said"), WRONG, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_wrong_is_told_with_its_remedy(
    check: str, facts: InstallationFacts, severity: Grade, said: str
) -> None:
    found = found_by(facts, check)
    assert (found.severity, said in found.found) == (severity, True), found.found
    assert found.why
    assert found.remedy
    assert worst_of(examine(facts)).exit_code >= severity.exit_code > 0


@pytest.mark.parametrize(
    ("facts", "statement"),
    [
        (with_server(folder=None, disk=None, has_right=False), "GRANT pg_read_all_settings TO mainspring"),
        (
            with_server(folder=None, disk=None, has_right=False, role='"main spring"'),
            'GRANT pg_read_all_settings TO "main spring"',
        ),
        (
            with_server(folder=None, disk=None, version=16),
            "GRANT pg_read_all_settings TO mainspring WITH INHERIT TRUE",
        ),
        (with_server(folder=None, disk=None, version=15), "ALTER ROLE mainspring INHERIT"),
    ],
)
def test_the_right_to_know_the_disk_is_named_as_a_statement(facts: InstallationFacts, statement: str) -> None:
    found = found_by(facts, "disk space")
    assert found.remedy == f"as an administrator of PostgreSQL: {statement}"
    assert "the alert disk never fires" in found.why


def test_of_postgresql_over_the_network_the_disk_is_nothing_to_look_at() -> None:
    facts = with_server(is_here=False, folder=None, disk=None, has_right=False)
    assert worst_of(examine(facts)) is FINE
    assert "the alert disk does not see its disk" in found_by(facts, "disk space").found


def test_every_check_is_shown_to_find_something() -> None:
    every = {check.__name__.replace("_", " ") for checks in CHECKS.values() for check in checks}
    assert {check for check, *_ in WRONG} == every
    assert len(every) >= 30
    fine = {one.check for facts in (SQLITE, POSTGRES) for one in examine(facts)}
    assert fine == every


@pytest.mark.parametrize(
    "facts",
    [
        with_server(longest_idle=299),
        with_server(longest_transaction=1799),
        with_server(dead_rows=100000),
        with_server(connections=80),
        with_folder(sync=0.049),
        with_store(clock_ahead=0.49),
        with_cluster(unsealed_for=299),
        with_cluster(ledger_age=2 * DAY),
        with_cluster(nodes=[replace(NODE, silent=7)]),
        with_cluster(nodes=[], jobs=0, workers=0),
        with_settings(allows_shell=True, has_shell_list=True),
        with_settings(executors=["process", "grpc"]),
        with_settings(tzdata="2026b"),
        with_settings(certificate_ends_in=14 * DAY),
        with_cluster(ledger=None),
        with_cluster(unarchived_for=31 * DAY),
    ],
)
def test_what_is_nearly_wrong_is_fine(facts: InstallationFacts) -> None:
    assert worst_of(examine(facts)) is FINE


@pytest.mark.parametrize(
    ("keys", "used", "said"),
    [
        (["k2", "k1"], ["k1"], "encrypted with 1 key: k1; k2 writes"),
        (["k2"], [], "nothing is encrypted yet; a server that starts with keys_file begins"),
        (None, [], None),
    ],
)
def test_keys_of_this_host_are_compared_with_those_of_the_store(
    keys: list[str] | None, used: list[str], said: str | None
) -> None:
    facts = replace(with_cluster(keys=used), settings=replace(SETTINGS, keys=keys))
    assert [one.found for one in examine(facts) if one.check == "encryption"] == (
        [] if said is None else [said]
    )


def test_of_a_store_that_cannot_be_read_nothing_else_is_told() -> None:
    facts = replace(SQLITE, store=StoreLook(label="data", error="away"))
    assert {one.check for one in examine(facts) if one.area != "settings"} == {"reachable"}


def test_the_worst_finding_is_the_exit_code() -> None:
    assert [severity.exit_code for severity in Grade] == [0, 1, 2]
    assert worst_of([]) is FINE


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (tell, 0.012, "12 ms"),
        (tell, 4.25, "4.2 s"),
        (tell, 99.9, "99.9 s"),
        (tell, 180, "3 min"),
        (tell, 7200, "2 h"),
        (tell, 5 * DAY, "5 days"),
        (weigh, 512_000_000, "512 MB"),
        (weigh, 3_100_000_000, "3.1 GB"),
    ],
)
def test_durations_and_sizes_are_told_in_one_unit(
    write: Callable[[float], str], value: float, text: str
) -> None:
    assert write(value) == text


def test_a_number_has_its_noun() -> None:
    assert (number(1, "job"), number(1200, "job")) == ("1 job", "1,200 jobs")
