"""The imperative shell: asyncio services and use cases over the ports and the pure core."""
