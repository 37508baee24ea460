"""Side outputs under crashes: the main stream and the side, each in a topic of its own, are what a clean run gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import OutputTag, Types, WatermarkStrategy
from kstreampy.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.graph.plan import Plan
from tests.unit.runtime.chaos import RECORDS, Chaos, record
from tests.unit.runtime.jobs import compiled, sink, source, user_and_amount

ODD = OutputTag("odd", Types.TUPLE([Types.STRING(), Types.LONG()]))


class RunningTotal(KeyedProcessFunction):
    """Running totals per user: even ones go on, odd ones to the side."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        if total % 2:
            yield ODD, (value[0], total)
        else:
            yield value[0], total


def split(*, again: bool) -> Plan:
    """`again`: what goes to the side is keyed and summed once more, in a stage of its own."""
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    main = numbers.map(user_and_amount).key_by(lambda pair: pair[0]).process(RunningTotal()).uid("total")
    side = main.get_side_output(ODD)
    main.sink_to(sink())
    (side.key_by(lambda pair: pair[0]).sum(1).uid("again") if again else side).sink_to(sink("side"))
    return compiled(env)


def clean(*, again: bool) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    amounts: dict[str, list[int]] = {}
    for number in range(RECORDS):
        amounts.setdefault(record(number)[0], []).append(number)
    totals = {user: list(accumulate(found)) for user, found in amounts.items()}
    main = {user: [total for total in found if total % 2 == 0] for user, found in totals.items()}
    side = {user: [total for total in found if total % 2] for user, found in totals.items()}
    if again:
        side = {user: list(accumulate(found)) for user, found in side.items()}
    return _shown(main), _shown(side)


def _shown(found: dict[str, list[int]]) -> dict[str, list[str]]:
    return {user: [str(total) for total in totals] for user, totals in found.items() if totals}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_both_streams_are_exactly_once(seed: int, again: bool, tmp_path: Path) -> None:
    chaos = Chaos(split(again=again), tmp_path, 8000 + seed, disk="kept")
    chaos.scene.create("side", 2)
    chaos.topics.append("side")
    main = chaos.run()
    expected_main, expected_side = clean(again=again)
    assert all((expected_main, expected_side))
    assert main == expected_main, chaos.happened
    assert chaos.scene.by_key("side") == expected_side, chaos.happened
