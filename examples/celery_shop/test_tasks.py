"""The tests of the shop's tasks. They need no server, no Redis, and no waiting."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
import tasks
from tasks import ask_for_review, charge_order, nightly_report, resize_image, send_welcome_mail, sync_stock

from mainspring import InvalidInput
from mainspring.testing import AppTester


@pytest.fixture(autouse=True)
def shop() -> tasks.Shop:
    tasks.shop = tasks.Shop()
    return tasks.shop


@pytest.mark.usefixtures("mainspring_app")
def test_a_user_is_welcomed(shop: tasks.Shop) -> None:
    send_welcome_mail.enqueue_sync("ann@example.com")
    assert shop.mails == [("ann@example.com", "Welcome!")]


@pytest.mark.mainspring(mode="held")
def test_a_mail_is_tried_again(mainspring_app: AppTester, shop: tasks.Shop) -> None:
    shop.is_mail_down = True
    run = send_welcome_mail.enqueue_sync("ann@example.com")
    mainspring_app.work()
    assert mainspring_app.run(run).state == "RETRYING"
    shop.is_mail_down = False
    mainspring_app.run_all()
    assert shop.mails == [("ann@example.com", "Welcome!")]


@pytest.mark.mainspring(raise_errors=False)
def test_another_error_is_not_tried_again(
    mainspring_app: AppTester, shop: tasks.Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "mail", lambda *_: 1 / 0)
    run = send_welcome_mail.enqueue_sync("ann@example.com")
    assert (mainspring_app.run(run).state, mainspring_app.run(run).attempt) == ("FAILED", 1)


@pytest.mark.usefixtures("mainspring_app")
def test_an_image_is_resized() -> None:
    run = resize_image.enqueue_sync(17, width=320)
    assert run.result_sync() == "17-320.webp"
    assert run.get_sync().queue == "images"


def test_an_order_is_charged_once_and_reviewed_a_week_later(
    mainspring_app: AppTester, shop: tasks.Shop
) -> None:
    charge_order.enqueue_sync(order=17, customer="ann@example.com")
    assert list(shop.charges.values()) == [17]
    mainspring_app.assert_enqueued(ask_for_review, order=17, times=1)
    (review,) = mainspring_app.enqueued(ask_for_review)
    assert review.ready_at is not None
    assert review.ready_at - mainspring_app.now == timedelta(days=7)
    assert shop.mails == []


@pytest.mark.mainspring(mode="held")
def test_the_bank_gets_one_key_in_all_attempts(mainspring_app: AppTester, shop: tasks.Shop) -> None:
    shop.is_bank_busy = True
    run = charge_order.enqueue_sync(order=17, customer="ann@example.com")
    mainspring_app.work()
    shop.is_bank_busy = False
    mainspring_app.jump("10m")
    assert (mainspring_app.run(run).state, mainspring_app.run(run).attempt) == ("SUCCEEDED", 2)
    assert len(shop.charges) == 1


@pytest.mark.mainspring(raise_errors=False)
def test_an_order_that_cannot_be_is_given_up(mainspring_app: AppTester) -> None:
    run = charge_order.enqueue_sync(order=-1, customer="ann@example.com")
    assert (mainspring_app.run(run).state, mainspring_app.run(run).attempt) == ("FAILED", 1)
    mainspring_app.assert_not_enqueued(ask_for_review)


def test_the_stock_is_synchronized_every_ten_minutes(mainspring_app: AppTester, shop: tasks.Shop) -> None:
    mainspring_app.jump("1h")
    assert shop.stock_syncs == 6
    assert sync_stock.definition["overlap"] == "skip"


def test_each_night_has_its_report(mainspring_app: AppTester, shop: tasks.Shop) -> None:
    mainspring_app.jump("1d")
    nights = [run.fire_at for run in mainspring_app.runs if run.job == nightly_report.name]
    assert len(nights) == 1
    assert shop.reports == [date(2026, 1, 6)]


@pytest.mark.usefixtures("mainspring_app")
def test_a_wrong_argument_is_an_error_of_the_web_request() -> None:
    with pytest.raises(InvalidInput, match="order: must be int, not str"):
        charge_order.enqueue_sync(order="seventeen", customer="ann@example.com")
