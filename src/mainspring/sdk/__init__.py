"""The Python SDK: apps of decorated functions, and clients of the HTTP API."""
