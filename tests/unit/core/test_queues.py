from datetime import timedelta

import pytest

from mainspring.core.queues import Queue, QueueOrder, change_queue
from mainspring.errors import InvalidInput


def test_what_a_body_leaves_out_gets_its_default() -> None:
    mail = Queue(name="mail", order=QueueOrder.FIFO, aging_share=0.5)
    assert change_queue(mail, {}) == Queue(name="mail")
    assert change_queue(mail, {"order": "round_robin", "aging": "90s"}) == Queue(
        name="mail", order=QueueOrder.ROUND_ROBIN, aging=timedelta(seconds=90)
    )
    assert change_queue(mail, {"aging_seconds": 2, "aging_share": 0}) == Queue(
        name="mail", aging=timedelta(seconds=2), aging_share=0.0
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"order": "lifo"}, "order"),
        ({"order": None}, "order"),
        ({"aging": 0}, "aging"),
        ({"aging": "31d"}, "aging"),
        ({"aging_share": 0.6}, "aging_share"),
        ({"aging_share": -0.1}, "aging_share"),
        ({"aging_share": "half"}, "aging_share"),
        ({"weight": 7}, "weight"),
    ],
)
def test_a_wrong_value_is_refused_by_its_field(body: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        change_queue(Queue(name="mail"), body)
    assert refused.value.field == field


@pytest.mark.parametrize("share", [0.6, 1.5, -0.1, "half", None, True])
def test_every_wrong_share_is_told_the_bounds_of_this_one(share: object) -> None:
    with pytest.raises(InvalidInput, match=r"must be a number from 0 to 0\.5"):
        change_queue(Queue(name="mail"), {"aging_share": share})
