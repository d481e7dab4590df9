"""Lines that outlast whoever writes them; imports nothing of the product, as peers write theirs with it too."""

from __future__ import annotations

import os
from pathlib import Path


def append_line(path: Path, line: str, *, is_durable: bool = True) -> None:
    """Append a line, and make it durable before returning, unless it need only outlast this process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
