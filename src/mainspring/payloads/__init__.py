"""Arguments and results by the annotations of a function: Python values out of JSON, and JSON out of them."""
