"""What becomes of leases whose worker is gone, and of rows that have served."""
