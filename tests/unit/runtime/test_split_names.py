"""A source whose uid is also the name of one of its splits goes on where it was, run after run."""

from __future__ import annotations

from kstreampy.testing import JobHarness


def test_a_source_reads_on_behind_a_restart() -> None:
    with JobHarness() as harness:
        source = harness.source("numbers")
        stream = harness.env.from_source(source, source.watermarks(), "numbers").uid("numbers")
        found = harness.collect(stream.map(lambda number: number + 1))
        for number in range(4):
            source.send(number)
            harness.run()
            harness.restart()
        source.end()
        harness.run()
        assert found.values() == [1, 2, 3, 4]
