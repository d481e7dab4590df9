"""Shows that what goes wrong is told: real servers, real receivers, and faults made by hand."""
