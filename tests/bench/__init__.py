"""Speed, beside others: the same jobs as a hand-written loop, on Quix Streams and on kstreampy.

In here: `data.py` (the input topic, and whether an output is right), `meter.py` (what is measured), `hand_loops.py`,
`quix_jobs.py`, `kstreampy_jobs.py`. Input records are JSON as of `data.record_values`, keyed by user. Jobs with windows are in
`window_data.py`, those with two inputs and look-ups in `pair_data.py`, Nexmark's queries in `nexmark.py`. The others:

- `filter`: records with kind "view" as {"id", "user", "cents"}; no key.
- `sum`: per user the sum of amounts so far, after each record: the user's first record with "amount" the sum, keyed by user
  (what Flink's rolling `sum("amount")` gives).
- `recount`: re-keyed by `data.item_of` (1,000 keys), per key the number of records so far, after each record:
  {"item", "count"}, keyed by item.

The guarantees: `alo` (at least once: what was produced is acknowledged, then offsets are committed, once a second) and
`eo` (exactly once: a transaction every 500 ms).
"""
