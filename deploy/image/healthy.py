"""Ends with 0 when the server in this container, and its store, answer: `python3 healthy.py [PORT]`.

The standard library alone, since it is started every few seconds; and straight, whatever proxy the environment names.
"""

import http.client
import sys

server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 8620, timeout=4)
try:
    server.request("GET", "/health")
    status = server.getresponse().status
except OSError as error:
    sys.exit(f"no answer: {error}")
if status != 200:
    sys.exit(f"the server answers {status}")
