"""The app of the workers in compose.yaml: put your own jobs here."""

import socket

from mainspring import App

app = App()


@app.job(every="10s")
async def heartbeat() -> str:
    """Say that the cluster is alive."""
    return f"still here, says {socket.gethostname()}"


@app.job()
def add(x: int, y: int) -> int:
    """Add two numbers."""
    return x + y
