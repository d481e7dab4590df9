"""gRPC without generated code: what a server takes and gives is read from its descriptors."""
