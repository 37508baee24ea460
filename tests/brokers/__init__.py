"""Brokers for tests: finding, starting and stopping them."""
