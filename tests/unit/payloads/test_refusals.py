"""What does not fit its annotation is refused by the name of the argument and the type."""

from __future__ import annotations

import dataclasses
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from uuid import UUID

import pydantic
import pytest

from mainspring import App, InvalidInput

if TYPE_CHECKING:
    from decimal import Decimal as Hidden


@dataclasses.dataclass
class Order:
    id: UUID
    count: int = 1


class Customer(pydantic.BaseModel):
    name: str
    born: date


class Extra(TypedDict, total=False):
    due: date


async def work(
    order: Order | None = None,
    day: date | None = None,
    count: int = 1,
    *,
    orders: list[Order] | None = None,
    moment: date | datetime | None = None,
    prices: dict[str, float] | None = None,
    customer: Customer | None = None,
    label: str | UUID = "",
    wait: timedelta = timedelta(0),
    hidden: Hidden | None = None,
    **extra: Unpack[Extra],
) -> None: ...


async def collect(*days: date, **prices: Decimal) -> None: ...


ID = UUID(int=7)
WRONG: Any = 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"order": "x"}, "order: must be Order | None, not str"),
        ({"order": {"count": 1}}, "order: must be Order | None: Object missing required field id"),
        ({"order": {"id": 5}}, "order: must be Order | None: expected uuid, got int, at id"),
        ({"orders": [Order(ID), Order(WRONG)]}, "orders: must be list[Order] | None: expected uuid, got int, at [1]"),
        ({"day": "yesterday"}, "day: must be date | None, not 'yesterday'"),
        ({"day": 5}, "day: must be date | None, not int"),
        ({"due": 5}, "due: must be date, not int"),
        ({"count": "three"}, "count: must be int, not str"),
        ({"count": 1.5}, "count: must be int, not float"),
        ({"moment": "soon"}, "moment: must be date | datetime | None, not 'soon'"),
        ({"prices": {"a": "b"}}, "prices: must be dict[str, float] | None: expected float, got str, at [...]"),
        ({"customer": {"name": "Ada"}}, "customer: must be Customer | None: Field required, at born"),
        ({"label": str(ID)}, "label: must be str | UUID, told apart as JSON; this str would be read as UUID"),
        ({"wait": "5m"}, "wait: must be timedelta, not '5m'"),
        ({"hidden": {1}}, "hidden: must be JSON, not set, because Hidden | None cannot be read: the name is not known"),
        ({"count": object()}, "count: must be int: JSON has nothing for an object of type object"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_with_its_type_before_anything_is_sent(
    given: dict[str, Any], message: str
) -> None:
    function = App().job()(work)
    with pytest.raises(InvalidInput) as refused:
        function.payload((), given)
    assert str(refused.value).startswith(message)
    assert refused.value.field == next(iter(given))


def test_the_arguments_of_stars_are_checked_one_by_one() -> None:
    function = App().job()(collect)
    assert function.payload((date(2026, 1, 2),), {}) == ["2026-01-02"]
    assert function.payload((), {"a": Decimal("1.5")}) == {"a": "1.5"}
    with pytest.raises(InvalidInput, match=r"^days\[1\]: must be date, not int$"):
        function.payload((date(2026, 1, 2), 5), {})
    with pytest.raises(InvalidInput, match=r"^a: must be Decimal, not list$"):
        function.payload((), {"a": []})


def test_one_of_many_calls_is_named_by_its_place() -> None:
    function = App().job()(work)
    with pytest.raises(InvalidInput) as refused:
        function.options().enqueue_many_sync([{"count": 1}, {"count": "x"}])
    assert refused.value.field == "calls[1].count"


def test_json_in_place_of_what_it_is_read_into_is_taken() -> None:
    function = App().job()(work)
    given = {"order": {"id": str(ID)}, "day": "2026-01-02", "hidden": 5, "wait": 90}
    assert function.payload((), given) == given


def test_plain_arguments_stay_the_same_objects() -> None:
    function = App().job()(work)
    prices = {"a": 1.0}
    payload = function.payload((), {"prices": prices, "count": True})
    assert isinstance(payload, dict)
    assert payload["prices"] is prices
    assert payload["count"] is True


def test_none_is_right_where_it_is_the_default() -> None:
    async def old(day: date = None) -> None: ...  # type: ignore[assignment] # noqa: RUF013 -- code from before PEP 484 changed

    assert App().job()(old).payload((), {"day": None}) == {"day": None}


def test_a_class_that_json_cannot_be_read_into_is_named() -> None:
    class Session: ...

    def query(session: Session) -> None: ...

    query.__annotations__["session"] = Session
    with pytest.raises(
        InvalidInput, match="session: must be JSON, not Session, because Session cannot be read"
    ):
        App().job()(query).payload((Session(),), {})


def test_pydantic_is_never_imported() -> None:
    import subprocess

    code = (
        "import sys, datetime, mainspring\n"
        "def work(day: datetime.date): ...\n"
        "mainspring.App().job()(work).payload((datetime.date(2026, 1, 2),), {})\n"
        "print('pydantic' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_the_payload_of_a_job_may_hold_what_its_function_takes() -> None:
    payload = {
        "order": Order(ID),
        "day": date(2026, 1, 2),
        "customer": Customer(name="Ada", born=date(1815, 12, 10)),
    }
    function = App().job(payload=payload)(work)
    assert function.definition["payload"] == {
        "order": {"id": str(ID), "count": 1},
        "day": "2026-01-02",
        "customer": {"name": "Ada", "born": "1815-12-10"},
    }
