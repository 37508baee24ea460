"""Keyed state of one task. Read in this order: `store.py`, `cache.py`, `keyed.py`, `handle.py`."""
