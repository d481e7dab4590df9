"""What signing in needs besides the engine: slow hashes of passwords, and identity providers. The extra `login`."""
