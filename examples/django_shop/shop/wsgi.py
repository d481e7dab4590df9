import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
application = get_wsgi_application()

from shop.jobs import jobs  # noqa: E402 -- it needs Django set up

jobs.embedded().start()
