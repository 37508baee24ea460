"""What each account has paid, told two seconds after each payment: PyFlink's example `datastream/event_time_timer.py`, written
afresh.

A payment is a row of time (ms), account and amount, and comes at most two seconds late. Each is added to its account's sum,
which is keyed state, and sets a timer in event time; when that fires, the sum as it then is goes out. So an account that pays
twice at the same time is told of once.

    kstreampy run examples/event_time_timer.py --bootstrap-servers localhost:9092 -- --input payments --output paid

Without `--input` (a topic of JSON objects) it has payments of its own, without `--output` (a topic too) it prints. The topics
must be there.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from topic_rows import rows_from, rows_to

from kstreampy.common import Duration, Types, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import DataStream, StreamExecutionEnvironment
from kstreampy.datastream.functions import KeyedProcessFunction, RuntimeContext
from kstreampy.datastream.state import ValueStateDescriptor

PAYMENTS = [(1000, "ada", 10.5), (2500, "bob", 3.0), (1800, "ada", 4.25), (2500, "bob", 0.5), (1200, "bob", 7.0)]
PAYMENT = Types.ROW_NAMED(["time", "account", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
PAID = Types.ROW_NAMED(["account", "paid"], [Types.STRING(), Types.DOUBLE()])
DELAY_MS = 2000


class Paid(KeyedProcessFunction):
    """The sum of an account, at its timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.paid = runtime_context.get_state(ValueStateDescriptor("paid", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.paid.update((self.paid.value() or 0.0) + value[2])
        at = ctx.timestamp()
        assert at is not None, "the strategy gives every payment its time"
        ctx.timer_service().register_event_time_timer(at + DELAY_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[str, float]]:
        yield ctx.get_current_key(), self.paid.value() or 0.0


class TimeOfPayment(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def paid(payments: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    return (
        payments.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(TimeOfPayment()))
        .key_by(lambda payment: payment[1], key_type=Types.STRING())
        .process(Paid(), PAID)
        .uid("paid")
    )


def main(input_topic: str | None, output_topic: str | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    if input_topic is None:
        payments = env.from_collection(PAYMENTS, PAYMENT)
    else:
        payments = env.from_source(rows_from(input_topic, PAYMENT), WatermarkStrategy.no_watermarks(), "payments")

    told = paid(payments.uid("payments"))
    if output_topic is None:
        told.print()
    else:
        told.sink_to(rows_to(output_topic, PAID))
    env.execute("event-time-timer")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", help="topic to read")
    parser.add_argument("--output", help="topic to write to")
    arguments = parser.parse_args()
    main(arguments.input, arguments.output)
