"""The shell executor with real processes: what they get, and that nothing of them is left (F23 to F25)."""

import asyncio
import contextlib
import errno
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.executors import ShellExecutor
from mainspring.executors._leftovers import sweep_leftovers, worker_marker
from mainspring.executors._spawner import spawner_command
from mainspring.ports.executor import DeferringExecutor, NotBegun, Outcome, Success
from tests.unit.executors.attempts import make_attempt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only")

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
async def shell() -> AsyncIterator[ShellExecutor]:
    executor = ShellExecutor(enabled=True, grace=timedelta(seconds=0.3))
    await executor.start()
    yield executor
    await executor.stop()


async def run(
    shell: ShellExecutor,
    command: str | list[str],
    *,
    payload: bytes | None = None,
    timeout: float = 20,
    soft_timeout: float | None = None,
    **params: Any,
) -> Outcome:
    if isinstance(command, str):
        params["shell"] = True
    attempt = make_attempt(
        {"command": command, **params}, payload=payload, timeout=timeout, soft_timeout=soft_timeout
    )
    return await shell.execute(attempt)


async def test_command_that_may_not_begin_any_more_does_not(shell: ShellExecutor, tmp_path: Path) -> None:
    assert isinstance(shell, DeferringExecutor)
    shell.ask_before_work(lambda: False)
    assert await run(shell, f"touch {tmp_path}/begun") == NotBegun()
    shell.ask_before_work(lambda: True)
    assert await run(shell, f"ls {tmp_path}") == Success(result=b'{"exit_code":0}')  # and no output


async def fail(shell: ShellExecutor, command: str | list[str], **options: Any) -> Failure:
    outcome = await run(shell, command, **options)
    assert isinstance(outcome, Failure)
    return outcome


async def output(shell: ShellExecutor, command: str | list[str], **options: Any) -> str:
    outcome = await run(shell, command, **options)
    assert isinstance(outcome, Success), outcome
    return outcome.output or ""


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", textwrap.dedent(code)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110 -- another process brings it about
            await asyncio.sleep(0.01)


def pids_in(path: Path, count: int) -> list[int]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [int(line) for line in lines] if len(lines) >= count else []


# What a command gets


async def test_success_carries_exit_code_and_output(shell: ShellExecutor) -> None:
    outcome = await run(shell, "echo out; echo err >&2")
    assert outcome == Success(result=b'{"exit_code":0}', output="out\nerr\n")
    assert await run(shell, ["true"]) == Success(result=b'{"exit_code":0}')


async def test_arguments_reach_the_program_untouched(shell: ShellExecutor) -> None:
    assert await output(shell, ["printf", "%s|", "a b", "$HOME", "*", "é"]) == "a b|$HOME|*|é|"


async def test_environment_is_clean_and_says_which_attempt_it_is(
    shell: ShellExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    text = await output(shell, ["env"], env={"OWN": "1", "LANG": "de_DE"})
    given = dict(line.split("=", 1) for line in text.splitlines())
    assert given.pop("MAINSPRING_WORKER") == worker_marker()
    assert given.pop("PATH").endswith("/bin")
    assert {given.pop(name) for name in ("HOME", "USER", "LOGNAME")}
    assert given == {
        "LANG": "de_DE",
        "OWN": "1",
        "MAINSPRING_RUN_ID": "run_0000000000080",
        "MAINSPRING_JOB_ID": "job_00000000000000000000000007",
        "MAINSPRING_ATTEMPT": "2",
        "MAINSPRING_TOKEN": "41",
        "MAINSPRING_FIRE_AT": "2026-03-29T01:30:00+00:00",
        "MAINSPRING_IDEMPOTENCY_KEY": "key-1",
    }


async def test_watching_processes_hold_none_of_the_workers_secrets(
    shell: ShellExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = await output(shell, "{ tr '\\0' '\\n' < /proc/$PPID/environ; } 2>/dev/null; echo end")
    assert text == "end\n"


async def test_stdin_is_the_text_the_payload_or_nothing(shell: ShellExecutor) -> None:
    assert await output(shell, ["cat"]) == ""
    assert await output(shell, ["cat"], payload=b'{"a": "\xc3\xa9"}') == '{"a": "é"}'
    assert await output(shell, ["cat"], payload=b"{}", stdin="line 1\nline 2\n") == "line 1\nline 2\n"
    assert await output(shell, ["wc", "-c"], payload=b"x" * 5_000_000) == "5000000\n"
    assert await run(shell, ["true"], payload=b"x" * 5_000_000) == Success(result=b'{"exit_code":0}')


async def test_folder_is_private_and_removed_unless_given(shell: ShellExecutor, tmp_path: Path) -> None:
    folder = Path((await output(shell, "pwd; touch left")).strip())
    assert folder.name.startswith("mainspring-")
    assert not folder.exists()  # noqa: ASYNC240 -- a test may block
    assert await output(shell, ["pwd"], cwd=str(tmp_path)) == f"{tmp_path}\n"
    assert await output(shell, 'test "$PWD" = "$HOME" && echo same', cwd="~") == "same\n"


async def test_process_is_confined(shell: ShellExecutor) -> None:
    text = await output(
        shell, "ulimit -c; grep -E 'NoNewPrivs|SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd"
    )
    words = text.split()
    ignored = int(words[4], 16) & ~(
        0b11 << 31
    )  # 32 and 33 are the C library's own, and `make` has them ignored
    words[4] = str(ignored)
    assert words == ["0", "SigBlk:", "0" * 16, "SigIgn:", "0", "NoNewPrivs:", "1", "0", "1", "2", "3"]
    ids = await output(shell, python("import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())"))
    assert ids == "True\n"


async def test_limits_hold() -> None:
    executor = ShellExecutor(enabled=True, limits={"fsize": 1000, "as": 1 << 30})
    await executor.start()
    assert (await fail(executor, "head -c 5000 /dev/zero > file")).error.startswith(
        ("exit status", "killed by SIGXFSZ")
    )
    assert "MemoryError" in ((await fail(executor, python("x = bytearray(2 << 30)"))).output or "")
    await executor.stop()


async def test_allow_list_lets_through() -> None:
    executor = ShellExecutor(enabled=True, allow=["/bin/echo", "/usr/bin/"])
    await executor.start()
    assert await output(executor, ["echo", "hi"]) == "hi\n"
    await executor.stop()


async def test_the_workers_own_user_needs_no_root(shell: ShellExecutor) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    assert (await output(shell, "id -un; echo $USER; pwd", user=own, cwd="/")).split() == [own, own, "/"]


@needs_root
async def test_user_is_who_carries_it_out(shell: ShellExecutor, tmp_path: Path) -> None:
    text = await output(shell, "id -un; id -gn; id -Gn; echo $USER", user="nobody", cwd="/")
    assert text.split() == ["nobody", "nogroup", "nogroup", "nobody"]
    failure = await fail(shell, ["id"], user="no-such-user", cwd="/")
    assert "cannot run as user 'no-such-user'" in failure.error


# How it ends


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("exit 3", "exit status 3"),
        ("exit 126", "exit status 126: command cannot be executed"),
        ("no-such-command", "exit status 127: command not found"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("kill -40 $$", "killed by signal 40"),
        (["no-such-command"], "command not found: 'no-such-command'"),
        (["/etc/passwd"], "the command '/etc/passwd' cannot be executed: Permission denied"),
    ],
)
async def test_failure_says_why(shell: ShellExecutor, command: str | list[str], error: str) -> None:
    failure = await fail(shell, command)
    assert failure.error == error
    assert failure.is_retryable
    assert not failure.is_timeout


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -KILL $$", -9)])
async def test_how_it_ended_is_reported_as_the_cause(shell: ShellExecutor, command: str, code: int) -> None:
    assert (await fail(shell, command)).cause == Cause(exit_code=code)


async def test_missing_folder_is_told(shell: ShellExecutor) -> None:
    failure = await fail(shell, ["true"], cwd="/no/such")
    assert failure.error == "the folder '/no/such' cannot be entered: No such file or directory"


async def test_missing_home_is_told_by_its_path(shell: ShellExecutor) -> None:
    failure = await fail(shell, ["true"], cwd="~", env={"HOME": "/no/home"})
    assert failure.error == "the folder '/no/home' cannot be entered: No such file or directory"


async def test_failure_keeps_exit_code_and_output(shell: ShellExecutor) -> None:
    failure = await fail(shell, "echo half; exit 4")
    assert (failure.result, failure.output) == (b'{"exit_code":4}', "half\n")


async def test_endless_output_is_cut_to_head_and_tail(shell: ShellExecutor) -> None:
    code = "import sys; sys.stdout.write('HEAD' + 'x' * 30_000_000 + 'TAIL')"
    text = await output(shell, python(code))
    assert text.startswith("HEADx")
    assert text.endswith("xTAIL")
    assert "[… 29,934,472 bytes left out …]" in text
    assert len(text) < 66_000


async def test_output_that_never_ends_is_stopped_by_the_timeout(shell: ShellExecutor) -> None:
    failure = await fail(shell, ["yes"], timeout=0.2)
    assert failure.is_timeout
    assert failure.output is not None
    assert len(failure.output) < 66_000


async def test_output_that_is_not_text_is_made_text(shell: ShellExecutor) -> None:
    assert await output(shell, "printf 'a\\377\\000b\\303'") == "a\ufffd\ufffdb\ufffd"


async def test_closing_all_descriptors_harms_nobody(shell: ShellExecutor) -> None:
    failure = await fail(shell, python("import os; os.closerange(0, 100); os._exit(5)"))
    assert failure.error == "exit status 5"


async def test_timeout_asks_first(shell: ShellExecutor) -> None:
    failure = await fail(shell, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done", timeout=0.3)
    assert failure.is_timeout
    assert failure.error == "timed out after 0.3 s (exit status 0)"
    assert (failure.output or "").endswith("bye\n")


async def test_timeout_kills_who_ignores_it(shell: ShellExecutor) -> None:
    failure = await fail(
        shell,
        python("""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        while True: signal.pause()
    """),
        timeout=0.3,
    )
    assert failure.is_timeout
    assert failure.error == "timed out after 0.3 s (killed by SIGKILL)"
    assert failure.cause is None  # the signal was not of its own doing
    assert failure.output == "deaf\n"


async def test_soft_timeout_leaves_time_until_the_hard_one(shell: ShellExecutor) -> None:
    command = "trap 'sleep 0.5; echo saved; exit 0' TERM; while :; do sleep 0.01; done"
    failure = await fail(shell, command, soft_timeout=0.2, timeout=20)
    assert failure.is_timeout
    assert failure.error == "timed out after 0.2 s (exit status 0)"
    assert (failure.output or "").endswith("saved\n")


# Nothing is left

DAEMON = """
    import os, sys, signal, time
    def note():
        with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()}\\n")
    def stay():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note()
        while True: signal.pause()
    def child():
        if os.fork() == 0: stay()
    def detached():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0: stay()
            os._exit(0)
    def cleared():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note()
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            os._exit(0)
    child(); detached(); cleared()
    while len(open(sys.argv[1]).readlines()) < 3: time.sleep(0.005)
"""


@pytest.mark.parametrize("then", ["", "os._exit(1)", "os.kill(os.getpid(), 9)", "stay()"])
async def test_whole_tree_is_dead_at_the_end(shell: ShellExecutor, tmp_path: Path, then: str) -> None:
    notes = tmp_path / "pids"
    notes.touch()
    command = [*python(textwrap.dedent(DAEMON) + then), str(notes)]
    begin = time.monotonic()
    await run(shell, command, timeout=1.0 if then == "stay()" else 20)
    assert time.monotonic() - begin < 10
    pids = pids_in(notes, 3)
    assert len(pids) >= 3
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_child_that_keeps_the_output_open_delays_nothing(shell: ShellExecutor) -> None:
    begin = time.monotonic()
    assert await output(shell, "setsid sleep 1000 & sleep 1000 & echo done") == "done\n"
    assert time.monotonic() - begin < 10


async def test_processes_that_multiply_are_stopped(shell: ShellExecutor, tmp_path: Path) -> None:
    code = """
        import os, sys
        for _ in range(6):
            os.fork()
            os.setsid() if os.getpgid(0) != os.getpid() else None
        with open(sys.argv[1], "a") as file: file.write(f"{os.getpid()}\\n")
        import signal; signal.pause()
    """
    notes = tmp_path / "pids"
    failure = await fail(shell, [*python(code), str(notes)], timeout=1)
    assert failure.is_timeout
    assert "not all" not in failure.error
    assert [pid for pid in pids_in(notes, 1) if is_alive(pid)] == []


async def test_cancel_ends_the_tree_before_it_is_let_through(shell: ShellExecutor, tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    notes.touch()
    attempt = asyncio.ensure_future(run(shell, [*python(textwrap.dedent(DAEMON) + "stay()"), str(notes)]))
    await wait_until(lambda: len(pids_in(notes, 4)) == 4)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert [pid for pid in pids_in(notes, 4) if is_alive(pid)] == []


async def test_supervisor_that_is_killed_takes_its_command_along(
    shell: ShellExecutor, tmp_path: Path
) -> None:
    notes = tmp_path / "pids"
    code = "import os, sys, signal; open(sys.argv[1], 'w').write(f'{os.getppid()}\\n{os.getpid()}\\n'); signal.pause()"
    attempt = asyncio.ensure_future(run(shell, [*python(code), str(notes)]))
    await wait_until(lambda: len(pids_in(notes, 2)) == 2)
    supervisor, command = pids_in(notes, 2)
    os.kill(supervisor, signal.SIGKILL)
    outcome = await attempt
    assert isinstance(outcome, Failure)
    assert outcome.is_retryable
    await wait_until(lambda: not is_alive(command))
    await wait_until(lambda: not list(Path(tempfile.gettempdir()).glob(f"mainspring-{supervisor}-*")))
    assert await output(shell, ["echo", "next"]) == "next\n"


def test_spawner_whose_worker_is_gone_already_ends_without_a_word() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = spawner_command(theirs.fileno(), gone.pid)
        done = subprocess.run(command, pass_fds=[theirs.fileno()], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


async def test_spawner_that_is_killed_is_started_again(shell: ShellExecutor) -> None:
    spawner = int(await output(shell, "cut -d' ' -f4 /proc/$PPID/stat"))
    os.kill(spawner, signal.SIGKILL)
    await wait_until(lambda: not is_alive(spawner))
    assert await asyncio.gather(*(output(shell, ["echo", "next"]) for _ in range(5))) == ["next\n"] * 5


WORKER = """
import asyncio, sys
from datetime import timedelta
sys.path.insert(0, {root!r})
from mainspring.executors import ShellExecutor
from tests.unit.executors.attempts import make_attempt

async def main():
    executor = ShellExecutor(enabled=True)
    await executor.start()
    await executor.execute(make_attempt({{"command": {command!r}}}, timeout=1000))

asyncio.run(main())
"""


async def test_command_dies_with_its_worker(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    notes.touch()
    command = [*python(textwrap.dedent(DAEMON) + "stay()"), str(notes)]
    worker = popen([sys.executable, "-c", WORKER.format(root=str(ROOT), command=command)])
    try:
        await wait_until(lambda: len(pids_in(notes, 4)) == 4)
    finally:
        worker.kill()
        worker.wait()
    await wait_until(lambda: not any(map(is_alive, pids_in(notes, 4))))


def popen(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command)


def start_marked(marker: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "1000"], env={"MAINSPRING_WORKER": marker}, start_new_session=True)


async def test_sweep_kills_what_workers_left_behind_and_nothing_else() -> None:
    namespace, pid, start = worker_marker().split(".")
    gone = popen(["true"])
    gone.wait()
    dead = [start_marked(f"{namespace}.{gone.pid}.5"), start_marked(f"{namespace}.{pid}.{int(start) - 1}")]
    living = [
        start_marked(marker)
        for marker in (worker_marker(), f"{int(namespace) + 1}.{gone.pid}.5", "odd", "a.b.c")
    ]
    try:
        await wait_until(
            lambda: all(Path(f"/proc/{p.pid}/comm").read_text() == "sleep\n" for p in dead + living)
        )
        await asyncio.to_thread(sweep_leftovers)
        # The sweep of a worker that starts elsewhere on this machine may have come first, with the same result.
        assert [process.wait(10) for process in dead] == [-signal.SIGKILL] * 2
        assert all(process.poll() is None for process in living)
    finally:
        for process in dead + living:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


async def test_many_at_once_all_end(shell: ShellExecutor) -> None:
    texts = await asyncio.gather(*(output(shell, ["echo", str(n)]) for n in range(100)))
    assert texts == [f"{n}\n" for n in range(100)]


async def test_loop_goes_on_while_commands_run(shell: ShellExecutor, tmp_path: Path) -> None:
    pipes = [tmp_path / str(n) for n in range(20)]
    for pipe in pipes:
        os.mkfifo(pipe)
    attempts = asyncio.gather(*(output(shell, ["cat", str(pipe)]) for pipe in pipes))
    # Each command ends only once this loop has written to it.
    for pipe in pipes:
        await _write(pipe, "go on")
    assert await attempts == ["go on"] * 20


async def _write(pipe: Path, text: str) -> None:
    """Write to a pipe as soon as a process reads it."""
    while True:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            await asyncio.sleep(0.001)
        else:
            os.write(descriptor, text.encode())
            os.close(descriptor)
            return
