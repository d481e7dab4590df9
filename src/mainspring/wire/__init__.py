"""What goes over the wire: requests and answers of the HTTP API, and the worker protocol, for both ends."""
