"""The examples of web frameworks, each with its own server: the jobs run in its processes, and in no other one."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from mainspring.config.settings import StoreLocation
from mainspring.host.address import find_address
from tests.processes.processes import await_that, environment

EXAMPLES = Path(__file__).parents[2] / "examples"
BIN = Path(sys.executable).parent
SERVERS: dict[str, Sequence[object]] = {
    "fastapi": [BIN / "uvicorn", "fastapi_shop:web", "--workers", "2", "--port", "PORT"],
    "litestar": [BIN / "uvicorn", "litestar_shop:web", "--workers", "2", "--port", "PORT"],
    "flask": [BIN / "gunicorn", "flask_shop:web", "--workers", "2", "--bind", "127.0.0.1:PORT"],
    "django": [BIN / "gunicorn", "shop.wsgi", "--workers", "2", "--bind", "127.0.0.1:PORT"],
}
RELOADERS: dict[str, Sequence[object]] = {
    "uvicorn": [BIN / "uvicorn", "fastapi_shop:web", "--reload", "--port", "PORT"],
    "flask": [BIN / "flask", "--app", "flask_shop", "run", "--debug", "--port", "PORT"],
    "flask-script": [sys.executable, "flask_script.py", "PORT"],
    "django": [sys.executable, "manage.py", "runserver", "PORT"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("fastapi_shop", "litestar_shop", "flask_shop"):
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path)
    shutil.copytree(EXAMPLES / "django_shop", tmp_path, dirs_exist_ok=True)
    script = "import sys\nfrom flask_shop import web\nweb.run(debug=True, port=int(sys.argv[1]))\n"
    (tmp_path / "flask_script.py").write_text(script)
    return tmp_path


def of_web(folder: Path) -> dict[str, str]:
    return environment(MAINSPRING_PORT="0", MAINSPRING_DATA=str(folder / "data"), PYTHONPATH=str(folder))


def carry_out(folder: Path, *arguments: object) -> None:
    done = subprocess.run(
        [*map(str, arguments)], cwd=folder, env=of_web(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def web_server(folder: Path, arguments: Sequence[object]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a server; give it and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(one).replace("PORT", str(port)) for one in arguments],
            cwd=folder,
            env=of_web(folder),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(ask: Callable[[], httpx.Response]) -> httpx.Response:
    found: list[httpx.Response] = []

    def is_there() -> bool:
        with contextlib.suppress(httpx.TransportError):
            found.append(ask())
        return bool(found)

    await_that("the server answers", is_there)
    return found[0]


def place_an_order(framework: str, url: str) -> None:
    """Have the job of an order carried out."""
    if framework == "django":
        order = answers(lambda: httpx.post(f"{url}/orders", timeout=30)).json()["order"]
        await_that("confirmed", lambda: httpx.get(f"{url}/orders/{order}").json()["is_confirmed"])
        return
    answer = answers(lambda: httpx.post(f"{url}/orders/7", timeout=30))
    assert answer.status_code == 202, answer.text
    look = f"{url}/runs/{answer.json()['run']}"
    await_that("it succeeds", lambda: httpx.get(look).json()["status"] == "SUCCEEDED")
    assert httpx.get(look).json()["result"] == "order 7 is confirmed"
    assert httpx.get(f"{url}/runs/run_00000000zzzzz").status_code == 404


def holder(folder: Path) -> int:
    """Return the process that wrote itself into the store's lock."""
    return int((folder / "data" / "mainspring.db.lock").read_text().split()[0])


def uses_store(folder: Path, pid: int) -> bool:
    files = Path(f"/proc/{pid}/fd")
    return any(str(file.readlink()).startswith(str(folder / "data")) for file in files.iterdir())


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
@pytest.mark.parametrize("framework", SERVERS)
def test_jobs_run_in_one_of_the_processes_of_the_server(framework: str, folder: Path) -> None:
    if framework == "django":
        carry_out(folder, sys.executable, "manage.py", "migrate")
        assert not (folder / "data").exists()
    with web_server(folder, SERVERS[framework]) as (process, url):
        for _ in range(4):
            place_an_order(framework, url)
        assert parent(holder(folder)) == process.pid
        address = find_address(StoreLocation("sqlite", str(folder / "data")))
        jobs = httpx.get(f"{address}/api/v1/jobs").json()["items"]
        assert sorted(job["name"] for job in jobs) == ["confirm", "report"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in {0, -signal.SIGTERM}
    log = (folder / "log").read_text()
    assert "Traceback" not in log
    assert "embedding failed" not in log


@pytest.mark.slow
@pytest.mark.parametrize("server", RELOADERS)
def test_nothing_runs_in_the_parent_of_a_reloader(server: str, folder: Path) -> None:
    framework = "django" if server == "django" else "flask"
    if framework == "django":
        carry_out(folder, sys.executable, "manage.py", "migrate")
    with web_server(folder, RELOADERS[server]) as (process, url):
        place_an_order(framework, url)
        assert holder(folder) != process.pid
        assert uses_store(folder, holder(folder))
        assert not uses_store(folder, process.pid)


def test_a_command_of_flask_that_serves_nothing_starts_nothing(folder: Path) -> None:
    carry_out(folder, BIN / "flask", "--app", "flask_shop", "routes")
    assert not (folder / "data").exists()


@pytest.mark.parametrize(
    ("page", "files"),
    [
        ("fastapi", ["fastapi_shop.py", "litestar_shop.py"]),
        ("flask", ["flask_shop.py"]),
        ("django", ["django_shop/shop/wsgi.py", "django_shop/shop/jobs.py", "django_shop/shop/urls.py"]),
    ],
)
def test_the_page_shows_the_example(page: str, files: list[str]) -> None:
    text = (EXAMPLES.parent / "docs" / "howto" / f"{page}.md").read_text()
    for name in files:
        code = (EXAMPLES / name).read_text()
        shown = code.split('"""\n\n', 1)[1] if code.startswith('"""') else code
        assert f"```python\n# {Path(name).name}\n{shown}```\n" in text, name


def test_the_documented_test_passes(folder: Path) -> None:
    page = (EXAMPLES.parent / "docs" / "howto" / "fastapi.md").read_text()
    code = page.split("## Test it")[1].split("```python\n")[1].split("```")[0]
    (folder / "test_shop.py").write_text(f"import httpx\n\nfrom fastapi_shop import jobs, web\n\n\n{code}")
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    carry_out(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert not (folder / "data").exists()
