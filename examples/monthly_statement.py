"""A statement for a customer, which the run leaves behind as a file: docs/howto/keep-the-file-that-a-run-made.md.

    mainspring up examples.monthly_statement:app --artifacts-url "$PWD/files"
    mainspring job run monthly_statement --payload '{"customer": "ACME"}' --wait 10
    mainspring artifact list run_…

The worker may be anywhere, and gone the next day. The file stays for as long as `artifacts.keep` says.
"""

import csv
import io

from mainspring import App, current_attempt

app = App()
BOOKINGS = (("2026-01-01", 120), ("2026-01-17", -40), ("2026-01-30", 15))
"""What a real job would read from a database."""


@app.job()
async def monthly_statement(customer: str) -> dict[str, object]:
    """Write a customer's bookings into a file, and return where it is."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("day", "amount"))
    rows.writerows(BOOKINGS)
    artifact = await current_attempt().artifact(f"statement-{customer}.csv", text.getvalue().encode())
    return {"bookings": len(BOOKINGS), "artifact": artifact}
