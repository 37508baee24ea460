"""State with a TTL against dicts with a clock, over commits, sweeps, evictions and restores."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.state import element_reader
from kstreampy.state.descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.ttl import StateTtlConfig
from tests.unit.state.stage import Stage

ANY = Types.PICKLED_BYTE_ARRAY()
TTL = 10
KEYS = st.sampled_from(["a", 1])
MAP_KEYS = st.sampled_from([0, False, "0"])
VALUES = st.integers(0, 9)

Live = list[Any]
"""A value and the time of its last access."""


class Expiring(RuleBasedStateMachine):
    """Each model holds `[value, time of last access]`; what is expired goes when it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.value: dict[Any, Live] = {}
        self.reduced: dict[Any, Live] = {}
        self.list: dict[Any, list[Live]] = {}
        self.map: dict[Any, dict[Any, Live]] = {}
        self.most_whole = element_reader.MOST_WHOLE

    @initialize(
        budget=st.sampled_from([1, 1 << 26]),
        most_whole=st.sampled_from([2, 10_000]),
        on_read=st.booleans(),
        visible=st.booleans(),
    )
    def begin(self, budget: int, most_whole: int, on_read: bool, visible: bool) -> None:
        element_reader.MOST_WHOLE = most_whole
        self.on_read = on_read
        # What may be seen once depends on when the sweep comes by, so that is off where it may.
        self.visible = visible
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
        if on_read:
            builder.update_ttl_on_read_and_write()
        if visible:
            builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background()
        self.config = builder.build()
        self.stage = Stage(budget_bytes=budget)
        self.ask()

    def ask(self) -> None:
        value = ValueStateDescriptor("value", ANY)
        reduced = ReducingStateDescriptor("reduced", lambda one, other: one + other, ANY)
        listed = ListStateDescriptor("list", ANY)
        mapped = MapStateDescriptor("map", ANY, ANY)
        for descriptor in (value, reduced, listed, mapped):
            descriptor.enable_time_to_live(self.config)
        self.value_state = self.stage.handles.get_state(value)
        self.reduced_state = self.stage.handles.get_reducing_state(reduced)
        self.list_state = self.stage.handles.get_list_state(listed)
        self.map_state = self.stage.handles.get_map_state(mapped)

    def now(self) -> int:
        return self.stage.now_ms

    def at(self, key: Any) -> Any:
        self.stage.scope.token = key
        return key

    def seen(self, live: Live) -> tuple[bool, bool]:
        """Whether it may be seen, and whether it stays."""
        if live[1] + TTL <= self.now():
            return self.visible, False
        if self.on_read:
            live[1] = self.now()
        return True, True

    @rule(by_ms=st.sampled_from([1, TTL - 1, TTL, 3]))
    def time_passes(self, by_ms: int) -> None:
        self.stage.now_ms += by_ms

    @rule(key=KEYS, value=VALUES)
    def update(self, key: Any, value: int) -> None:
        self.value[self.at(key)] = [value, self.now()]
        self.value_state.update(value)

    @rule(key=KEYS)
    def read(self, key: Any) -> None:
        live = self.value.get(self.at(key))
        seen, stays = (False, False) if live is None else self.seen(live)
        assert self.value_state.value() == (live[0] if live is not None and seen else None)
        if not stays:
            self.value.pop(key, None)

    @rule(key=KEYS, value=VALUES)
    def reduce(self, key: Any, value: int) -> None:
        live = self.reduced.get(self.at(key))
        so_far = live[0] if live is not None and live[1] + TTL > self.now() else 0
        self.reduced[key] = [so_far + value, self.now()]
        self.reduced_state.add(value)

    @rule(key=KEYS)
    def read_reduced(self, key: Any) -> None:
        live = self.reduced.get(self.at(key))
        seen, stays = (False, False) if live is None else self.seen(live)
        assert self.reduced_state.get() == (live[0] if live is not None and seen else None)
        if not stays:
            self.reduced.pop(key, None)

    @rule(key=KEYS, values=st.lists(VALUES, max_size=3))
    def append(self, key: Any, values: list[int]) -> None:
        self.list.setdefault(self.at(key), []).extend([value, self.now()] for value in values)
        self.list_state.add_all(values)

    @rule(key=KEYS, values=st.lists(VALUES, max_size=3))
    def replace(self, key: Any, values: list[int]) -> None:
        self.list[self.at(key)] = [[value, self.now()] for value in values]
        self.list_state.update(values)

    @rule(key=KEYS)
    def read_list(self, key: Any) -> None:
        elements = self.list.get(self.at(key), [])
        judged = [(live, *self.seen(live)) for live in elements]
        assert list(self.list_state.get()) == [live[0] for live, seen, _ in judged if seen]
        self.list[key] = [live for live, _, stays in judged if stays]

    @rule(key=KEYS, map_key=MAP_KEYS, value=VALUES)
    def put(self, key: Any, map_key: Any, value: int) -> None:
        self.map.setdefault(self.at(key), {})[repr(map_key)] = [value, self.now()]
        self.map_state.put(map_key, value)

    @rule(key=KEYS, map_key=MAP_KEYS)
    def remove(self, key: Any, map_key: Any) -> None:
        self.map.setdefault(self.at(key), {}).pop(repr(map_key), None)
        self.map_state.remove(map_key)

    @rule(key=KEYS, map_key=MAP_KEYS, only_ask=st.booleans())
    def read_entry(self, key: Any, map_key: Any, only_ask: bool) -> None:
        entries = self.map.setdefault(self.at(key), {})
        live = entries.get(repr(map_key))
        seen, stays = (False, False) if live is None else self.seen(live)
        if only_ask:
            assert self.map_state.contains(map_key) == seen
        else:
            assert self.map_state.get(map_key) == (live[0] if live is not None and seen else None)
        if not stays:
            entries.pop(repr(map_key), None)

    @rule(key=KEYS)
    def read_map(self, key: Any) -> None:
        entries = self.map.setdefault(self.at(key), {})
        alive = [live for live in entries.values() if self.visible or live[1] + TTL > self.now()]
        assert self.map_state.is_empty() == (not alive)
        judged = {map_key: (live, *self.seen(live)) for map_key, live in entries.items()}
        found = {repr(map_key): value for map_key, value in self.map_state.items()}
        assert found == {map_key: live[0] for map_key, (live, seen, _) in judged.items() if seen}
        self.map[key] = {map_key: live for map_key, (live, _, stays) in judged.items() if stays}

    @rule(by_ms=st.sampled_from([TTL - 1, TTL]))
    def time_passes_and_all_is_read(self, by_ms: int) -> None:
        self.stage.now_ms += by_ms
        for key in ("a", 1):
            self.read(key)
            self.read_reduced(key)
            self.read_list(key)
            self.read_map(key)

    @rule(key=KEYS, value=VALUES)
    def all_is_written(self, key: Any, value: int) -> None:
        self.update(key, value)
        self.reduce(key, value)
        self.append(key, [value])
        self.put(key, 0, value)

    @rule(key=KEYS, kind=st.sampled_from(["value", "reduced", "list", "map"]))
    def clear(self, key: Any, kind: str) -> None:
        getattr(self, kind).pop(self.at(key), None)
        getattr(self, f"{kind}_state").clear()

    @rule(times=st.integers(1, 3))
    def checkpoints(self, times: int) -> None:
        for _ in range(times):
            self.stage.commit()

    @rule()
    def restart(self) -> None:
        self.stage.restart()
        self.ask()

    @rule()
    def restore(self) -> None:
        self.stage.commit()
        self.stage.rebuild()
        self.ask()

    @rule(idle=st.booleans())
    def all_that_is_expired_goes(self, idle: bool) -> None:
        if self.visible:
            return
        self.stage.commit()
        for _ in range(3):
            if not idle or self.stage.state.sweep():
                self.stage.commit()
        alive = 0
        for model in (self.value, self.reduced):
            alive += sum(live[1] + TTL > self.now() for live in model.values())
        alive += sum(live[1] + TTL > self.now() for elements in self.list.values() for live in elements)
        alive += sum(live[1] + TTL > self.now() for entries in self.map.values() for live in entries.values())
        assert len(self.stage.stored()) == alive

    def teardown(self) -> None:
        element_reader.MOST_WHOLE = self.most_whole


TestExpiring = Expiring.TestCase
TestExpiring.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
