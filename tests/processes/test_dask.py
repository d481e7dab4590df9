"""The code of the page on Dask, on a real scheduler of Dask with a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-dask.md"


@pytest.fixture
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", host="tcp://127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


def total_of(shop: str) -> tuple[str, float]:
    return shop, float(len(shop))


@pytest.mark.filterwarnings("ignore")
def test_function_of_the_page_uses_the_cluster(scheduler: str) -> None:
    code = PAGE.read_text().split("```python\n")[1].partition("```")[0]
    assert "tcp://dask-scheduler:8786" in code
    names: dict[str, Any] = {"total_of": total_of, "shops": lambda day: [f"{day}-a", f"{day}-bc"]}
    exec(code.replace("tcp://dask-scheduler:8786", scheduler), names)
    assert names["totals"]("monday") == {"monday-a": 8.0, "monday-bc": 9.0}
