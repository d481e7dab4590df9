"""A newsletter to all customers, which neither floods the mail server nor the shop.

    mainspring up marketing_mails:app

The campaign starts at ten, give or take half an hour (jitter): the newsletters of all countries do not start in the
same second. The mails go out at the rate that the mail server allows, on all workers together. Whoever submits the
campaign twice sends no mail twice, and a mail that could not be sent for a day is not sent any more.
"""

from __future__ import annotations

from mainspring import App, RetryRun, current_attempt

app = App(name="marketing")
outbox: list[tuple[str, str]] = []
"""What was sent. In your code, this is the mail server."""


class MailServerBusy(Exception):
    """The mail server asks us to come again later."""


def customers() -> list[str]:
    """Return who has agreed to get the newsletter."""
    return [f"customer-{number}@example.com" for number in range(200)]


@app.job(cron="0 10 * * TUE", tz="Europe/Berlin", jitter="30m", misfire="fire_latest")
async def newsletter() -> int:
    """Submit one run for each customer. Each has its key, so that a retry of this run submits none twice."""
    attempt = current_attempt()
    for customer in customers():
        one = newsletter_mail.options(idempotency_key=f"{attempt.idempotency_key}-{customer}")
        await one.enqueue(to=customer, issue=attempt.idempotency_key)
    return len(customers())


@app.job(
    rate="20/s",  # what the mail server allows, on all workers together
    queue="mail",
    priority="LOW",  # what customers wait for goes first
    retries=20,
    no_retry_on=(ValueError,),  # an address that is none
    expires_after="1d",
)
async def newsletter_mail(to: str, issue: str) -> None:
    """Send one mail."""
    if "@" not in to:
        raise ValueError(f"{to!r} is not an address")
    try:
        send(to, issue)
    except MailServerBusy:
        raise RetryRun("5m", "the mail server is busy") from None


def send(to: str, issue: str) -> None:
    outbox.append((to, issue))
