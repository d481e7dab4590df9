from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from shop.jobs import confirm
from shop.models import Order


@csrf_exempt
def place(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create()
        transaction.on_commit(lambda: confirm.enqueue_sync(order.id))
    return JsonResponse({"order": order.id}, status=202)


def look(request: HttpRequest, order: int) -> JsonResponse:
    return JsonResponse({"is_confirmed": get_object_or_404(Order, id=order).is_confirmed})


urlpatterns = [path("orders", place), path("orders/<int:order>", look)]
