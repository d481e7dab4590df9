"""examples/outbox.py: a relay that dies between the server's answer and its own commit submits nothing twice."""

import importlib.util
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mainspring import Unreachable
from tests.processes.processes import server

EXAMPLE = Path(__file__).parents[2] / "examples" / "outbox.py"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("outbox")
    (folder / "outbox.py").write_text(EXAMPLE.read_text())
    with server("outbox:app", "--store", "memory://", cwd=folder) as (_, address):
        yield address


@pytest.fixture
def outbox(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("MAINSPRING_SERVER", url)
    spec = importlib.util.spec_from_file_location("outbox_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module.app.close()


def count(database: sqlite3.Connection) -> int:
    found: int = database.execute("SELECT count(*) FROM outbox").fetchone()[0]
    return found


def test_each_order_gets_one_run(outbox: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    database = outbox.open_database(path)
    orders = [outbox.place_order(database, f"customer-{number}") for number in range(20)]

    killed = outbox.open_database(path)
    killed.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_DELETE else 0)
    with pytest.raises(sqlite3.DatabaseError):  # the server has the runs, and the lines stay
        outbox.relay(killed)
    killed.close()
    assert count(database) == 20

    assert outbox.relay(database) == 20
    assert outbox.relay(database) == count(database) == 0
    payloads = [run.payload["order"] for run in outbox.app.sync.runs()]
    assert sorted(payloads) == orders
    database.close()


def test_lines_stay_while_no_server_answers(
    outbox: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.app.close()
    monkeypatch.setenv("MAINSPRING_SERVER", "http://127.0.0.1:9")
    database = outbox.open_database(tmp_path / "shop.db")
    outbox.place_order(database, "customer")
    with pytest.raises(Unreachable):
        outbox.relay(database)
    assert count(database) == 1
    database.close()
