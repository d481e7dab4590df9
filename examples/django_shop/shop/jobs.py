from django.db import close_old_connections

from mainspring import App
from shop.models import Order

jobs = App(name="shop")


@jobs.job(retries=5)
def confirm(order: int) -> str:
    close_old_connections()
    Order.objects.filter(id=order).update(is_confirmed=True)
    return f"order {order} is confirmed"


@jobs.job(cron="0 7 * * *", tz="Europe/Berlin")
def report() -> None:
    close_old_connections()
    print(Order.objects.count(), "orders")
