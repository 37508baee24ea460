"""State with a TTL: boundaries, visibilities, update types, restores, switching on and off, cleaning up."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.operators.function import AggregateFunction
from kstreampy.state import element_reader, expiry
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.ttl import Builder, StateTtlConfig
from tests.unit.state.stage import Stage

TTL = 100
ANY = Types.PICKLED_BYTE_ARRAY()


def builder() -> Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TTL))


PLAIN = builder().build()
ON_READ = builder().update_ttl_on_read_and_write().build()
VISIBLE = builder().return_expired_if_not_cleaned_up().build()
VISIBLE_ON_READ = builder().return_expired_if_not_cleaned_up().update_ttl_on_read_and_write().build()


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def with_ttl(descriptor: Any, config: StateTtlConfig | None) -> Any:
    if config is not None:
        descriptor.enable_time_to_live(config)
    return descriptor


class Kind:
    """One kind of state, written and read in one way."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, stage: Stage, config: StateTtlConfig | None) -> Any:
        handles = stage.handles
        match self.name:
            case "value":
                return handles.get_state(with_ttl(ValueStateDescriptor("s", ANY), config))
            case "list":
                return handles.get_list_state(with_ttl(ListStateDescriptor("s", ANY), config))
            case "map":
                return handles.get_map_state(with_ttl(MapStateDescriptor("s", ANY, ANY), config))
            case "reducing":
                return handles.get_reducing_state(with_ttl(ReducingStateDescriptor("s", lambda a, b: b, ANY), config))
        return handles.get_aggregating_state(with_ttl(AggregatingStateDescriptor("s", Count(), ANY), config))

    def write(self, stage: Stage, config: StateTtlConfig | None) -> None:
        state = self.handle(stage, config)
        match self.name:
            case "value":
                state.update([1])
            case "list":
                state.update([[1]])
            case "map":
                state.put("a", [1])
            case _:
                state.add([1])

    def read(self, stage: Stage, config: StateTtlConfig | None) -> bool:
        """Whether the value is there."""
        state = self.handle(stage, config)
        match self.name:
            case "value":
                return state.value() is not None
            case "list":
                return list(state.get()) != []
            case "map":
                return state.get("a") is not None
        return state.get() is not None


KINDS = [Kind(name) for name in ("value", "list", "map", "reducing", "aggregating")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]  # one of KINDS


@pytest.fixture(params=["memory", "store", "changelog"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """`turn` makes state come from there."""
    stage = Stage(now_ms=1000)
    stage.turn = {"memory": stage.commit, "store": stage.restart, "changelog": lambda: rebuild(stage)}[request.param]  # type: ignore[attr-defined]
    return stage


def rebuild(stage: Stage) -> None:
    stage.commit()
    stage.rebuild()


@pytest.mark.parametrize(("after_ms", "is_there"), [(TTL - 1, True), (TTL, False), (TTL + 1, False)])
def test_it_is_expired_when_the_ttl_has_passed(stage: Stage, kind: Kind, after_ms: int, is_there: bool) -> None:
    """The access time survives a restart and a restore."""
    kind.write(stage, PLAIN)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += after_ms
    assert kind.read(stage, PLAIN) == is_there


def test_a_read_that_finds_it_expired_leaves_a_tombstone(stage: Stage, kind: Kind) -> None:
    kind.write(stage, PLAIN)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL
    assert not kind.read(stage, PLAIN)
    assert [value for _, value in stage.commit()] in ([None], [])  # [] where the sweep was there first
    assert stage.stored() == {}


def test_a_write_keeps_it_alive_and_a_read_does_not(stage: Stage, kind: Kind) -> None:
    kind.write(stage, PLAIN)
    stage.now_ms += TTL - 1
    kind.write(stage, PLAIN)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL - 1
    assert kind.read(stage, PLAIN)
    stage.now_ms += 1
    assert not kind.read(stage, PLAIN)


def test_on_read_and_write_a_read_keeps_it_alive(stage: Stage, kind: Kind) -> None:
    kind.write(stage, ON_READ)
    for _ in range(5):
        stage.now_ms += TTL - 1
        assert kind.read(stage, ON_READ)
        stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL
    assert not kind.read(stage, ON_READ)


@pytest.mark.parametrize("config", [VISIBLE, VISIBLE_ON_READ])
def test_an_expired_one_may_be_seen_once(stage: Stage, kind: Kind, config: StateTtlConfig) -> None:
    kind.write(stage, config)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += 10 * TTL
    assert kind.read(stage, config)
    assert not kind.read(stage, config)
    stage.turn()  # type: ignore[attr-defined]
    assert not kind.read(stage, config)
    assert stage.stored() == {}


def test_switched_on_the_time_counts_from_the_first_read(stage: Stage, kind: Kind) -> None:
    kind.write(stage, None)
    stage.restart()
    stage.now_ms += 10 * TTL
    assert kind.read(stage, PLAIN)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL - 1
    assert kind.read(stage, PLAIN)
    stage.now_ms += 1
    assert not kind.read(stage, PLAIN)


def test_switched_off_it_is_kept_for_ever(stage: Stage, kind: Kind) -> None:
    kind.write(stage, PLAIN)
    stage.restart()
    stage.now_ms += 10 * TTL
    assert kind.read(stage, None)
    stage.turn()  # type: ignore[attr-defined]
    assert kind.read(stage, None)
    kind.write(stage, None)
    stage.restart()
    assert kind.read(stage, None)


def test_disabled_is_as_none(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    stage.now_ms = 10 * TTL
    assert kind.read(stage, None)


def test_a_state_has_one_ttl_at_a_time(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, PLAIN)
    for other in (None, ON_READ):
        with pytest.raises(JobError, match=r"state 'op/s' is declared twice.* TTL"):
            kind.handle(stage, other)
    assert kind.read(stage, builder().build())


def test_without_a_key_it_is_refused(kind: Kind) -> None:
    stage = Stage()
    stage.scope.token = None
    for use in (lambda: kind.read(stage, PLAIN), lambda: kind.write(stage, PLAIN), kind.handle(stage, PLAIN).clear):
        with pytest.raises(JobError, match=r"state 'op/s': no key"):
            use()


@pytest.mark.parametrize("budget_bytes", [1, 1 << 26])
@pytest.mark.parametrize("is_visible", [True, False])
def test_what_nobody_asks_for_is_swept_away(kind: Kind, budget_bytes: int, is_visible: bool) -> None:
    config = VISIBLE if is_visible else PLAIN
    stage = Stage(budget_bytes=budget_bytes)
    for stage.scope.token in range(20):
        kind.write(stage, config)
    stage.commit()
    stage.now_ms = TTL - 1
    for stage.scope.token in range(5):
        kind.write(stage, config)
    for _ in range(3):
        stage.commit()
    assert len(stage.stored()) == 20
    stage.now_ms = TTL
    for _ in range(3):
        stage.commit()
    assert len(stage.stored()) == 5
    stage.now_ms = 2 * TTL
    for _ in range(3):
        stage.commit()
    assert stage.stored() == {}
    assert {key: value for key, value in dict(stage.log).items() if value is not None and b"s\x00\x00" not in key} == {}


def test_a_sweep_goes_on_where_it_stopped(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreampy.state.keyed.SWEEP", 7)
    stage = Stage()
    for stage.scope.token in range(20):
        kind.write(stage, PLAIN)
    stage.restart()
    kind.handle(stage, PLAIN)
    stage.now_ms = TTL
    left = [len(stage.stored())]
    for _ in range(6):
        stage.commit()
        left.append(len(stage.stored()))
    assert left[:4] in ([20, 20, 13, 6], [20, 20, 14, 7])  # lists have a counter among the entries
    assert left[-1] == 0


def test_a_sweep_gives_a_time_to_what_has_none(kind: Kind) -> None:
    stage = Stage()
    for stage.scope.token in range(5):
        kind.write(stage, None)
    stage.restart()
    kind.handle(stage, PLAIN)
    stage.commit()
    stage.commit()
    stage.now_ms = TTL
    for _ in range(2):
        stage.commit()
    assert stage.stored() == {}


def test_nothing_is_swept_that_nothing_is_to_be_cleaned_up_of(kind: Kind) -> None:
    config = builder().disable_cleanup_in_background().build()
    stage = Stage()
    kind.write(stage, config)
    stage.now_ms = TTL
    for _ in range(3):
        stage.commit()
    assert len(stage.stored()) == 1
    assert not kind.read(stage, config)
    stage.commit()
    assert stage.stored() == {}


def test_a_checkpoint_may_be_taken_twice(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, PLAIN)
    stage.commit()
    stage.now_ms = TTL
    assert stage.state.take_dirty() == stage.state.take_dirty()


# Elements and entries on their own


@pytest.mark.parametrize("most_whole", [2, 10_000])
def test_each_element_of_a_list_expires_by_itself(
    stage: Stage, most_whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(element_reader, "MOST_WHOLE", most_whole)
    descriptor = with_ttl(ListStateDescriptor("s", ANY), PLAIN)
    state = stage.handles.get_list_state(descriptor)
    for number in range(5):
        state.add(number)
        stage.now_ms += 10
    stage.turn()  # type: ignore[attr-defined]
    state = stage.handles.get_list_state(descriptor)
    stage.now_ms = 1000 + TTL + 10
    assert list(state.get()) == [2, 3, 4]
    stage.turn()  # type: ignore[attr-defined]
    assert len(stage.stored()) == 3
    state = stage.handles.get_list_state(descriptor)
    state.add_all([5])
    assert list(state) == [2, 3, 4, 5]
    stage.now_ms += 50
    assert list(state) == [5]


def test_reading_a_list_keeps_all_of_it_alive(stage: Stage) -> None:
    descriptor = with_ttl(ListStateDescriptor("s", ANY), ON_READ)
    stage.handles.get_list_state(descriptor).add(1)
    stage.now_ms += 50
    stage.handles.get_list_state(descriptor).add(2)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += 49
    assert list(stage.handles.get_list_state(descriptor)) == [1, 2]
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += 99
    assert list(stage.handles.get_list_state(descriptor)) == [1, 2]


def test_expired_elements_may_be_seen_once(stage: Stage) -> None:
    descriptor = with_ttl(ListStateDescriptor("s", ANY), VISIBLE)
    stage.handles.get_list_state(descriptor).add(1)
    stage.now_ms += 50
    stage.handles.get_list_state(descriptor).add(2)
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += 50
    state = stage.handles.get_list_state(descriptor)
    assert list(state) == [1, 2]
    assert list(state) == [2]


@pytest.mark.parametrize("most_whole", [2, 10_000])
def test_each_entry_of_a_map_expires_by_itself(stage: Stage, most_whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_reader, "MOST_WHOLE", most_whole)
    descriptor = with_ttl(MapStateDescriptor("s", ANY, ANY), PLAIN)
    state = stage.handles.get_map_state(descriptor)
    for number in range(5):
        state.put(number, None)
        stage.now_ms += 10
    stage.turn()  # type: ignore[attr-defined]
    state = stage.handles.get_map_state(descriptor)
    stage.now_ms = 1000 + TTL + 10
    assert 0 not in state
    assert 2 in state
    assert sorted(state.keys()) == [2, 3, 4]
    assert dict(state.items()) == {2: None, 3: None, 4: None}
    assert list(state.values()) == [None] * 3
    state.put_all({2: 20})
    stage.turn()  # type: ignore[attr-defined]
    assert len(stage.stored()) == 3
    stage.now_ms += 50
    assert dict(stage.handles.get_map_state(descriptor).items()) == {2: 20}


def test_contains_is_an_access(stage: Stage) -> None:
    descriptor = with_ttl(MapStateDescriptor("s", ANY, ANY), ON_READ)
    stage.handles.get_map_state(descriptor).put("a", 1)
    for _ in range(3):
        stage.now_ms += TTL - 1
        assert "a" in stage.handles.get_map_state(descriptor)
        stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL
    assert "a" not in stage.handles.get_map_state(descriptor)


@pytest.mark.parametrize(("config", "is_empty"), [(PLAIN, True), (VISIBLE, False)])
def test_a_map_is_empty_when_nothing_of_it_may_be_seen(stage: Stage, config: StateTtlConfig, is_empty: bool) -> None:
    descriptor = with_ttl(MapStateDescriptor("s", ANY, ANY), config)
    state = stage.handles.get_map_state(descriptor)
    assert state.is_empty()
    state.put("a", 1)
    assert not state.is_empty()
    stage.turn()  # type: ignore[attr-defined]
    stage.now_ms += TTL
    state = stage.handles.get_map_state(descriptor)
    assert [state.is_empty(), state.is_empty()] == [is_empty] * 2
    assert list(state) == ([] if is_empty else ["a"])
    assert state.is_empty()


# Accumulators


def test_what_is_added_to_an_expired_accumulator_begins_anew(stage: Stage) -> None:
    for config in (PLAIN, VISIBLE):
        summed = with_ttl(ReducingStateDescriptor(f"r{id(config)}", lambda a, b: a + b, ANY), config)
        counted = with_ttl(AggregatingStateDescriptor(f"a{id(config)}", Count(), ANY), config)
        handles: list[tuple[StateDescriptor, Any]] = [(summed, None), (counted, None)]
        for _ in range(3):
            for descriptor, _ in handles:
                get(stage, descriptor).add(1)
        assert [get(stage, descriptor).get() for descriptor, _ in handles] == [3, 3]
        stage.turn()  # type: ignore[attr-defined]
        stage.now_ms += TTL
        for descriptor, _ in handles:
            get(stage, descriptor).add(1)
            assert get(stage, descriptor).get() == 1


def get(stage: Stage, descriptor: Any) -> Any:
    if isinstance(descriptor, ReducingStateDescriptor):
        return stage.handles.get_reducing_state(descriptor)
    return stage.handles.get_aggregating_state(descriptor)


def test_merging_keeps_what_is_alive(stage: Stage) -> None:
    descriptor = with_ttl(AggregatingStateDescriptor("a", Count(), ANY), PLAIN)
    for stage.scope.token in ("old", "new"):
        get(stage, descriptor).add(1)
        stage.now_ms += TTL // 2
    stage.turn()  # type: ignore[attr-defined]
    get(stage, descriptor).merge_namespaces("k", ["old", "new"])
    for token, expected in (("old", None), ("new", None), ("k", 1)):
        stage.scope.token = token
        assert get(stage, descriptor).get() == expected


def test_none_is_refused_and_falsy_values_are_kept(stage: Stage) -> None:
    state = stage.handles.get_list_state(with_ttl(ListStateDescriptor("s", ANY), PLAIN))
    with pytest.raises(ValueError, match="None cannot be added"):
        state.add(None)
    state.add_all([0, "", False])
    assert list(state) == [0, "", False]
    value = stage.handles.get_state(with_ttl(ValueStateDescriptor("v", ANY), PLAIN))
    value.update(0)
    assert value.value() == 0
    value.update(None)
    assert value.value() is None


def test_what_was_given_and_what_is_returned_belong_to_the_caller(kind: Kind) -> None:
    if kind.name == "aggregating":
        return
    stage = Stage()
    state = kind.handle(stage, PLAIN)
    given = [1]
    {"value": lambda: state.update(given), "map": lambda: state.put("a", given)}.get(
        kind.name, lambda: state.add(given)
    )()
    given.append(2)

    def got() -> Any:
        match kind.name:
            case "value":
                return state.value()
            case "list":
                return next(iter(state))
            case "map":
                return state.get("a")
        return state.get()

    got().append(3)
    assert got() == [1]


def test_the_sweep_is_bounded() -> None:
    assert 0 < expiry.SWEEP <= 10_000
