"""The six tasks of a web shop, moved over from Celery. README.md has each beside what it was."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

from mainspring import App, FailRun, RetryRun, current_attempt

app = App(name="shop")


class MailServerDown(Exception):
    """The mail server does not answer."""


class BankBusy(Exception):
    """The bank asks us to come again later."""


class Shop:
    """What the shop has outside of its tasks: mails, images, the bank, the stock."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, str]] = []
        self.images: list[tuple[int, int]] = []
        self.charges: dict[str, int] = {}
        self.stock_syncs = 0
        self.reports: list[date] = []
        self.is_mail_down = False
        self.is_bank_busy = False

    def mail(self, to: str, text: str) -> None:
        """Send a mail."""
        if self.is_mail_down:
            raise MailServerDown(to)
        self.mails.append((to, text))

    def charge(self, key: str, order: int) -> None:
        """Charge an order at the bank, which takes each key once."""
        if self.is_bank_busy:
            raise BankBusy
        self.charges.setdefault(key, order)


shop = Shop()


@app.job(retry_on=(MailServerDown,), retries=5)
def send_welcome_mail(user: str) -> None:
    """Welcome a user."""
    shop.mail(user, "Welcome!")


@app.job(queue="images", timeout="1m", retries=2)
def resize_image(image: int, width: int = 800) -> str:
    """Make the picture of an article smaller; return the name of its file."""
    shop.images.append((image, width))
    return f"{image}-{width}.webp"


@app.job(retries=10, priority="HIGH")
async def charge_order(order: int, customer: str) -> None:
    """Charge an order once, however often this is tried, and ask for a review a week later."""
    if order <= 0:
        raise FailRun(f"there is no order {order}")
    attempt = current_attempt()
    try:
        shop.charge(attempt.idempotency_key, order)
    except BankBusy:
        raise RetryRun("10m", "the bank is busy") from None
    once = ask_for_review.options(delay="7d", idempotency_key=f"review-{order}")
    await once.enqueue(order=order, customer=customer)


@app.job(every="10m", overlap="skip", timeout="9m")
def sync_stock() -> None:
    """Ask the warehouse what it has; never twice at the same time."""
    shop.stock_syncs += 1


@app.job(cron="0 2 * * *", tz="Europe/Berlin", misfire={"policy": "fire_all", "max_age": "7d"}, retries=5)
def nightly_report() -> None:
    """Report the day that has ended; a night that was missed is made up for."""
    fire_at = current_attempt().fire_at
    assert fire_at is not None
    shop.reports.append(fire_at.astimezone(ZoneInfo("Europe/Berlin")).date())


@app.job(retry_on=(MailServerDown,), retries=5, queue="mail", rate="50/s")
def ask_for_review(order: int, customer: str) -> None:
    """Ask a customer how the order was."""
    shop.mail(customer, f"How was order {order}?")
