"""A shop on Django whose jobs run in the processes of the web server.

Try it in this folder: `python manage.py migrate`, then `python manage.py runserver`, then
`curl -X POST localhost:8000/orders`.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
