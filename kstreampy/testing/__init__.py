"""For tests of your own jobs: a whole job in one thread, on a log in memory, under a clock that the test moves.

Begin with `JobHarness`.
"""

from kstreampy.testing.clock import VirtualClock
from kstreampy.testing.harness import JobHarness
from kstreampy.testing.source import HarnessSource
from kstreampy.testing.topic import InputTopic, Output, OutputRecord

__all__ = ["HarnessSource", "InputTopic", "JobHarness", "Output", "OutputRecord", "VirtualClock"]
