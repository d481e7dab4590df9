"""What goes over the wire: the requests and answers of the HTTP API and of the worker protocol, for both ends."""
