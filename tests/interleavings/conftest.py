"""The bench that all orders are played on."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.interleavings.bench import Bench, open_bench
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import template_database


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def bench(postgres_server: str, runner: asyncio.Runner) -> Iterator[Bench]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        opened = open_bench(dsn)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))
