"""A primary and its standby for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.failover.servers import NoServers, Pair, running_pair
from tests.support.postgres import NO_POSTGRES

StartPair = Callable[..., Pair]


@pytest.fixture
def start_pair() -> Iterator[StartPair]:
    """Give what starts a pair, synchronous or not; it ends with the test. Skips where there is no PostgreSQL."""
    with ExitStack() as stack:

        def start(**options: Any) -> Pair:
            try:
                return stack.enter_context(running_pair(**options))
            except NoServers as error:
                pytest.skip(f"{NO_POSTGRES}: {error}")

        yield start
