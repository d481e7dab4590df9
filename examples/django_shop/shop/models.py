from django.db import models


class Order(models.Model):
    is_confirmed = models.BooleanField(default=False)
