"""What tests of several kinds use: a private PostgreSQL, clocks, proxies, networks of their own."""
