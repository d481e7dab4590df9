"""What every test may ask for: a PostgreSQL server, a database of its own; and the last line of the run."""

import os
import resource
import sys
from collections import Counter
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import settings

from tests.support.durations import lines_by_folder
from tests.support.postgres import (
    NO_PGBOUNCER,
    NO_POSTGRES,
    missing_pooler_reason,
    missing_reason,
    pooled_dsn,
    server_dsn,
    temporary_database,
)
from tests.support.postgres_databases import template_database

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")

_PATIENCE = 4 if os.environ.get("CI") == "true" else 1
"""How many times its time limit a test gets: a limit ends what hangs, and a machine of CI may be a slow one."""

_MEMORY_LIMIT = 8 * 1024**3
"""Bytes of address space for the tests' process and its children: one that runs away fails, not the machine."""
_hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT if _hard == resource.RLIM_INFINITY else _hard, _hard))

# Some images forbid bytecode files. Each process that a test starts would then compile the whole product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# structlog's own default draws every frame's locals, which takes longer than most tests.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(),
    ],
)
_LOGGING = structlog.get_config()


def pytest_report_header() -> str:
    """Say which older versions the tests of upgrades run: without a history there is one less."""
    from tests.upgrade.versions import describe_older

    return f"older versions: {describe_older()}"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give an item the address that its name says: schemathesis gives the operations of a test one address for all."""
    if item.parent is not None and not item.nodeid.endswith(item.name):
        _readdress(item, f"{item.parent.nodeid}::{item.name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let several test workers begin with the slow tests, so that none is left alone with one in the end."""
    repeated = [nodeid for nodeid, count in Counter(item.nodeid for item in items).items() if count > 1]
    if repeated:  # of tests with one address, the test workers would run one
        raise pytest.UsageError(f"several tests are called {repeated[0]}")
    _stretch_time_limits(config, items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
        for item in items:
            if group := item.get_closest_marker("xdist_group"):
                _readdress(item, f"{item.nodeid}@{group.args[0]}")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Take back what a test has set of structlog, as the next one would log by it."""
    if structlog.get_config() != _LOGGING:
        structlog.configure(**_LOGGING)


def _stretch_time_limits(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _PATIENCE == 1:
        return
    for item in items:
        own = item.get_closest_marker("timeout")
        limit = float(config.getini("timeout") or 0) if own is None else own.args[0]
        item.add_marker(pytest.mark.timeout(limit * _PATIENCE), append=False)


def _readdress(item: pytest.Item, nodeid: str) -> None:
    """Give an item another address where pytest 9.2 keeps it; schemathesis and xdist still write to the old place."""
    item._id = type(item.id).parse(nodeid)


@pytest.fixture(scope="session")
def postgres_server() -> str:
    """The DSN of a server, without a database. Skips where there is none."""
    dsn = server_dsn()
    if dsn is None:
        pytest.skip(missing_reason())
    return dsn


@pytest.fixture(scope="session")
def pooled_server(postgres_server: str) -> str:
    """The DSN of the same server through PgBouncer in transaction mode. Skips where there is none."""
    del postgres_server
    return _pooled_dsn("transaction")


@pytest.fixture(scope="session")
def session_pooled_server(postgres_server: str) -> str:
    """The DSN of the same server through PgBouncer in session mode. Skips where there is none."""
    del postgres_server
    return _pooled_dsn("session")


def _pooled_dsn(mode: str) -> str:
    dsn = pooled_dsn(mode)
    if dsn is None:
        pytest.skip(missing_pooler_reason())
    return dsn


@pytest.fixture
def postgres_database(postgres_server: str) -> Iterator[str]:
    """The DSN of a fresh, empty database, dropped after the test. For sync and async tests alike."""
    with temporary_database(postgres_server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database, for copies; nobody connects to it."""
    with template_database(postgres_server) as name:
        yield name


@pytest.fixture
def migrated_database(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """The DSN of a fresh, migrated database, dropped after the test."""
    with temporary_database(postgres_server, template=postgres_template) as dsn:
        yield dsn


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With `--durations`, also say which folders took how long."""
    if terminalreporter.config.getoption("durations") is not None:
        terminalreporter.write_sep("=", "time by folder")
        for line in lines_by_folder(
            report for reports in terminalreporter.stats.values() for report in reports
        ):
            terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Say last what was skipped for want of PostgreSQL; on CI that fails the run."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return result
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
        and any(missing in report.longrepr[2] for missing in (NO_POSTGRES, NO_PGBOUNCER))
    ]
    if not reasons:
        return result
    failed = os.environ.get("CI") == "true"
    if failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    passed = len(reporter.stats.get("passed", []))
    verdict = "; a failure, since CI=true" if failed else ""
    line = f"{passed} passed, {len(reasons)} skipped: {reasons[0]}{verdict}"
    reporter.write_line(line, red=failed, yellow=not failed)
    return result
