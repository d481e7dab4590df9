"""Payments by an HTTP callback that is called again when in doubt, and books each payment once.

    python payments.py bank.db 8700            the payment service
    mainspring up --callback-allow 127.0.0.1:8700
    mainspring job add pay --callback-url http://127.0.0.1:8700/pay --retries 10
    mainspring job run pay --payload '{"order": 17, "cents": 4200}' --key order-17

A service can die after it has booked a payment, and before its answer arrives. Whoever called it cannot know, and has
to call again. So each call of a run has the same `Idempotency-Key`. The service writes the booking and the key in one
transaction, and answers a key that it knows as it did before.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TABLES = """
CREATE TABLE IF NOT EXISTS booking (
    key TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    "order" INTEGER NOT NULL,
    cents INTEGER NOT NULL
);
"""


def book(database: sqlite3.Connection, key: str, run_id: str, payment: dict[str, int]) -> bool:
    """Book a payment, unless it is booked already. Return whether it was new."""
    with database:  # one transaction
        done = database.execute(
            'INSERT INTO booking (key, run_id, "order", cents) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
            (key, run_id, payment["order"], payment["cents"]),
        )
    return done.rowcount == 1


class PaymentHandler(BaseHTTPRequestHandler):
    """Takes POST /pay."""

    database_path = ""

    def do_POST(self) -> None:
        """Answer 200 if the payment is booked, 410 if it never can be: a callback that gets 410 is not repeated."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if not isinstance(body.get("order"), int) or not isinstance(body.get("cents"), int):
            self.answer(410, {"error": "give order and cents, whole numbers"})
            return
        database = sqlite3.connect(self.database_path)
        try:
            is_new = book(database, self.headers["Idempotency-Key"], self.headers["Mainspring-Run-Id"], body)
        finally:
            database.close()
        self.answer(200, {"order": body["order"], "new": is_new})

    def answer(self, status: int, body: dict[str, object]) -> None:
        """Send JSON."""
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Write no line for each request."""


def service(path: str, port: int) -> ThreadingHTTPServer:
    """Return the payment service, ready to serve."""
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    database.close()
    handler = type("Handler", (PaymentHandler,), {"database_path": path})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


if __name__ == "__main__":
    service(sys.argv[1], int(sys.argv[2])).serve_forever()
