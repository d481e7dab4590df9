"""The pytest plugin, in suites of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from mainspring.sdk import staging

SHOP = """
from mainspring import App

app = App("http://127.0.0.1:1")
sent = []

@app.job()
def send_mail(to):
    sent.append(to)

@app.job(cron="0 9 * * *")
async def report():
    await send_mail.enqueue("boss")

@app.job()
def fail():
    raise ValueError("broken")
"""
ASYNC_TESTS = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.Pytester]:
    """A folder with an app, under the setting `mainspring_app`."""
    pytester.makepyfile(shop=SHOP)
    pytester.makeini("[pytest]\nmainspring_app = shop:app\n")
    monkeypatch.syspath_prepend(pytester.path)
    yield pytester
    sys.modules.pop("shop", None)
    assert staging._refusal is None


def outcome(suite: pytest.Pytester, text: str, *args: str) -> pytest.RunResult:
    suite.makepyfile(test_it=text)
    settings = () if "no:asyncio" in args else ASYNC_TESTS
    return suite.runpytest_inprocess("-p", "no:cacheprovider", *settings, *args)


def test_the_fixture_tests_the_app(suite: pytest.Pytester) -> None:
    result = outcome(
        suite,
        """
        import pytest
        import shop

        def test_sync(mainspring_app):
            shop.send_mail.enqueue_sync("a@b")
            mainspring_app.assert_enqueued(shop.send_mail, to="a@b", times=1)
            assert shop.sent == ["a@b"]
            mainspring_app.jump("1d")
            assert shop.sent == ["a@b", "boss"]

        async def test_async(mainspring_app):
            await shop.send_mail.enqueue("c@d")
            assert await mainspring_app.jump("1d") == 2
            mainspring_app.assert_enqueued("send_mail", to="boss")

        class TestInAClass:
            @pytest.mark.mainspring(mode="held", raise_errors=False)
            async def test_options(self, mainspring_app):
                shop.fail.enqueue_sync()
                assert mainspring_app.runs[0].state == "PENDING"
                await mainspring_app.run_all()
                assert mainspring_app.runs[0].state == "FAILED"

        def test_that_fails(mainspring_app):
            shop.fail.options().enqueue_sync()
        """,
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*ValueError: broken", "*fail, run_*, failed for good at attempt *"])


def test_without_plug_ins_for_asyncio_and_with_anyio(suite: pytest.Pytester) -> None:
    result = outcome(
        suite,
        """
        import pytest
        import shop

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_async(mainspring_app):
            await shop.send_mail.enqueue("c@d")
            assert await mainspring_app.jump("1d") == 2

        def test_sync(mainspring_app):
            assert mainspring_app.jump("1d") == 2
        """,
        "-p",
        "no:asyncio",
    )
    result.assert_outcomes(passed=2)


def test_the_source_may_be_a_fixture(pytester: pytest.Pytester) -> None:
    text = """
    import pytest
    from mainspring import App

    @pytest.fixture
    def mainspring_source():
        return App()

    def test_it(mainspring_app):
        assert mainspring_app.runs == []
    """
    result = outcome(pytester, text)
    result.assert_outcomes(passed=1)


def test_without_a_source_the_fixture_says_so(pytester: pytest.Pytester) -> None:
    result = outcome(pytester, "def test_it(mainspring_app): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*which app is to be tested? Set mainspring_app = shop.jobs:app*"])


def test_a_source_that_is_wrong_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmainspring_app = absent_shop:app\n")
    result = outcome(pytester, "def test_it(mainspring_app): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*mainspring_app = absent_shop:app: *there is no module 'absent_shop'*"])


BLOCKED = """
import pytest
import shop

def test_refused():
    with pytest.raises(Exception, match="tests must not submit to a real server. Use the fixture mainspring_app"):
        shop.send_mail.enqueue_sync("a@b")

async def test_refused_async():
    with pytest.raises(Exception, match="no call to http://127.0.0.1:1: tests must not"):
        await shop.app.client.count_runs()

@pytest.fixture
def early():
    shop.send_mail.enqueue_sync("a@b")

def test_refused_in_fixture(early): ...

@pytest.mark.mainspring(network=True)
def test_allowed():
    with pytest.raises(Exception, match="is a Mainspring server running there"):
        shop.send_mail.enqueue_sync("a@b")
"""


def test_real_servers_are_refused(suite: pytest.Pytester) -> None:
    outcome(suite, BLOCKED).assert_outcomes(passed=3, errors=1)


def test_the_refusal_can_be_set_by_itself(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nmainspring_block_network = true\n")
    outcome(suite, BLOCKED).assert_outcomes(passed=3, errors=1)
    suite.makeini("[pytest]\nmainspring_app = shop:app\nmainspring_block_network = no\n")
    outcome(suite, BLOCKED, "-k", "test_refused").assert_outcomes(failed=2, errors=1, deselected=1)


def test_the_plugin_loads_next_to_nothing() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import mainspring.pytest_plugin;"
        "print(sorted(name for name in set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['mainspring', 'mainspring.pytest_plugin']"
