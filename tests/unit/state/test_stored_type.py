"""A state whose type or kind changed from one start of the job to the next."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import field, make_dataclass
from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import TypeInformation, Types
from kstreampy.common.types import Row
from kstreampy.errors import JobError
from kstreampy.operators.function import AggregateFunction
from kstreampy.serde.typed import codec_for
from kstreampy.state.budget import CacheBudget
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import value_cache
from kstreampy.state.memory import MemoryStore
from kstreampy.state.stored_type import REDUCING, ROLLING, VALUE, StoredType, merged
from kstreampy.state.ttl import StateTtlConfig
from tests.unit.state.stage import Stage

LONG, STRING, DOUBLE = Types.LONG(), Types.STRING(), Types.DOUBLE()


def row(**fields: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


OLD, NEW = row(a=Types.INT(), b=STRING), row(b=STRING, c=LONG, a=DOUBLE)
OLD_VALUE, NEW_VALUE = Row(a=1, b="x"), Row("b", "c", "a")("x", None, 1.0)


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_b


class Kind:
    """One kind of state, as it is asked for, written and read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def descriptor(self, info: Any, name: str = "s") -> Any:
        match self.name:
            case "value":
                return ValueStateDescriptor(name, info)
            case "list":
                return ListStateDescriptor(name, info)
            case "map":
                return MapStateDescriptor(name, STRING, info)
            case "reducing":
                return ReducingStateDescriptor(name, lambda one, other: other, info)
        return AggregatingStateDescriptor(name, Last(), info)

    def handle(self, stage: Stage, info: Any, ttl: StateTtlConfig | None = None) -> Any:
        descriptor = self.descriptor(info)
        if ttl is not None:
            descriptor.enable_time_to_live(ttl)
        get = "get_state" if self.name == "value" else f"get_{self.name}_state"
        return getattr(stage.handles, get)(descriptor)

    def write(self, stage: Stage, info: Any, value: Any, ttl: StateTtlConfig | None = None) -> None:
        state = self.handle(stage, info, ttl)
        match self.name:
            case "value":
                state.update(value)
            case "map":
                state.put("k", value)
            case _:
                state.add(value)

    def read(self, stage: Stage, info: Any, ttl: StateTtlConfig | None = None) -> Any:
        state = self.handle(stage, info, ttl)
        match self.name:
            case "value":
                return state.value()
            case "map":
                return state.get("k")
            case "list":
                return next(iter(state.get()))
        return state.get()


KINDS = [Kind(name) for name in ("value", "list", "map", "reducing", "aggregating")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]  # one of KINDS


@pytest.fixture
def version() -> Iterator[Callable[[dict[str, Any]], type]]:
    """Makes versions of one dataclass `Order`: the last one is the present one."""

    def make(fields: dict[str, Any]) -> type:
        cls = make_dataclass(
            "Order", [(key, *hint) if isinstance(hint, tuple) else (key, hint) for key, hint in fields.items()]
        )
        cls.__module__ = __name__
        sys.modules[__name__].__dict__["Order"] = cls
        return cls

    yield make
    delattr(sys.modules[__name__], "Order")


def test_a_row_reads_its_old_state_by_name(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, OLD, OLD_VALUE)
    stage.restart()
    assert kind.read(stage, NEW) == NEW_VALUE
    stage.commit()
    stage.rebuild()
    assert kind.read(stage, NEW) == NEW_VALUE


def test_old_and_new_values_lie_side_by_side_over_many_starts() -> None:
    stage = Stage()
    types = [OLD, NEW, row(a=DOUBLE), row(a=DOUBLE, d=STRING)]
    values = [OLD_VALUE, Row("b", "c", "a")("y", 2, 2.5), Row(a=3.5), Row(a=4.5, d="z")]
    for number, (info, value) in enumerate(zip(types, values, strict=True)):
        stage.scope.token = number
        stage.handles.get_state(ValueStateDescriptor("s", info)).update(value)
        stage.restart()
        stage.state.value("other", codec_for(None), "other")
        stage.restart()  # a start that does not ask for the state keeps what is known of its type
    state = stage.handles.get_state(ValueStateDescriptor("s", types[-1]))
    found = []
    for stage.scope.token in range(4):
        found.append(state.value())
    assert found == [Row(a=1.0, d=None), Row(a=2.5, d=None), Row(a=3.5, d=None), Row(a=4.5, d="z")]


def test_a_dataclass_reads_its_old_state_by_name(kind: Kind, version: Callable[[dict[str, Any]], type]) -> None:
    stage = Stage()
    old = version({"id": int, "amount": int, "gone": str})
    kind.write(stage, old, old(1, 2, "x"))
    stage.restart()
    new = version({"amount": float, "id": int | None, "tags": (list[str], field(default_factory=list))})
    got = kind.read(stage, new)
    assert got == new(2.0, 1, [])
    assert type(got.amount) is float


def test_a_dataclass_with_a_new_field_without_a_default_is_refused_at_start(
    kind: Kind, version: Callable[[dict[str, Any]], type]
) -> None:
    stage = Stage()
    old = version({"id": int})
    kind.write(stage, old, old(1))
    stage.restart()
    new = version({"id": int, "amount": int})
    with pytest.raises(
        JobError, match=r"state 'op/s' holds .*Order.*field 'amount' is new and has no default.*give it one"
    ):
        kind.handle(stage, new)


def test_what_is_incompatible_is_refused_with_what_changed(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, OLD, OLD_VALUE)
    stage.restart()
    expected = (
        r"state 'op/s' holds .*RowTypeInfo\(a: Integer, b: String\), and the job now declares .*"
        r"RowTypeInfo\(a: Integer, b: Long\) \(field 'b' was STRING and is now LONG\): "
        r"keep the type, or give the state another name"
    )
    with pytest.raises(JobError, match=expected):
        kind.handle(stage, row(a=Types.INT(), b=LONG))
    assert kind.read(stage, OLD) == OLD_VALUE


def test_another_kind_is_refused() -> None:
    for before in KINDS:
        stage = Stage()
        before.write(stage, LONG, 1)
        stage.restart()
        for now in KINDS:
            if now is not before:
                with pytest.raises(
                    JobError, match=r"state 'op/s' is a \w+State in what is stored, .* asks for a \w+State"
                ):
                    now.handle(stage, LONG)


def test_a_name_that_is_asked_for_twice_is_one_state(kind: Kind) -> None:
    stage = Stage()
    kind.write(stage, LONG, 1)
    assert kind.read(stage, LONG) == 1
    with pytest.raises(JobError, match=r"state 'op/s' is declared twice, as \w+ of .* and as \w+ of"):
        kind.handle(stage, STRING)
    for other in KINDS:
        if other is not kind:
            with pytest.raises(JobError, match=r"state 'op/s' is declared twice"):
                other.handle(stage, LONG)


def test_the_type_and_a_ttl_change_at_once(kind: Kind) -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
    stage = Stage()
    kind.write(stage, OLD, OLD_VALUE)
    stage.restart()
    assert kind.read(stage, NEW, ttl) == NEW_VALUE
    stage.restart()
    assert kind.read(stage, NEW) == NEW_VALUE


@pytest.mark.parametrize(("before", "now"), [(Types.INT(), LONG), (LONG, Types.BIG_INT())])
def test_the_keys_of_a_map_may_become_wider_as_they_lie_as_before(
    before: TypeInformation, now: TypeInformation
) -> None:
    stage = Stage()
    stage.handles.get_map_state(MapStateDescriptor("s", before, STRING)).put(1, "x")
    stage.restart()
    assert list(stage.handles.get_map_state(MapStateDescriptor("s", now, STRING)).items()) == [(1, "x")]


def test_keys_of_a_map_that_would_lie_elsewhere_are_refused(version: Callable[[dict[str, Any]], type]) -> None:
    order = version({"id": int})
    for before, now in ((LONG, STRING), (LONG, DOUBLE), (order, None)):
        stage = Stage()
        stage.handles.get_map_state(MapStateDescriptor("s", before, STRING))
        stage.restart()
        after = version({"id": int, "x": (int, 0)}) if now is None else now
        with pytest.raises(JobError, match=r"state 'op/s' holds .* to String, and the job now declares .* to String"):
            stage.handles.get_map_state(MapStateDescriptor("s", after, STRING))


def test_nothing_is_unpickled_that_the_job_does_not_declare_pickled() -> None:
    stage = Stage()
    stage.handles.get_state(ValueStateDescriptor("s", Types.PICKLED_BYTE_ARRAY())).update(1)
    stage.restart()
    with pytest.raises(JobError, match="nothing is unpickled unless its type says so"):
        stage.handles.get_state(ValueStateDescriptor("s", LONG))


def test_a_class_that_cannot_be_found_again_is_refused_at_start() -> None:
    local = make_dataclass("Local", [("a", int)])
    local.__qualname__ = "test.<locals>.Local"
    with pytest.raises(JobError, match="defined inside a function"):
        Stage().handles.get_state(ValueStateDescriptor("s", local))


# What earlier versions stored


def stored(text: str) -> KeyedState:
    from kstreampy.state.task_meta import LocalMeta, TaskMeta

    state = KeyedState(MemoryStore(), CacheBudget(1 << 20))
    state.apply([], LocalMeta("t", 1, 1, True, TaskMeta(1, states={"s": text}).encode()))
    return state


@pytest.mark.parametrize("kind_name", [VALUE, REDUCING, ROLLING])
def test_a_text_that_is_only_the_types_is_read_as_before(kind_name: str) -> None:
    value_cache(stored("Long"), "s", kind_name, LONG)
    value_cache(stored("None"), "s", kind_name, None)
    with pytest.raises(JobError, match=r"state 's' holds Long, and the job now declares .*String"):
        value_cache(stored("Long"), "s", kind_name, STRING)


def test_an_opaque_text_is_compared() -> None:
    assert stored("anything").value("s", codec_for(None), "anything") is not None
    with pytest.raises(JobError, match="state 's' holds anything, and the job now declares other"):
        stored("anything").value("s", codec_for(None), "other")
    assert merged("s", "{not json", "{not json") == "{not json"
    with pytest.raises(JobError, match=r"holds \{not json"):
        merged("s", "{not json", "other")


def test_what_is_stored_of_a_type_comes_back() -> None:
    for made in (StoredType.of(VALUE, NEW), StoredType.of("MapState", LONG, STRING), StoredType.of(ROLLING, None)):
        assert StoredType.decode(made.encode()) == made
        assert merged("s", made.encode(), made.encode()) == made.encode()


def test_a_change_that_needs_no_reading_of_older_bytes_keeps_no_history() -> None:
    first = StoredType.of(VALUE, None).encode()
    second = StoredType.of(VALUE, Types.LIST(LONG)).encode()
    assert StoredType.decode(merged("s", first, second)) is not None
    text = merged("s", second, second)
    assert text == second
    back = StoredType.decode(merged("s", merged("s", first, second), second))
    assert back is not None
    assert back == StoredType.decode(merged("s", first, second))


def test_state_that_was_opened_too_early_is_refused() -> None:
    from kstreampy.state.task_meta import LocalMeta, TaskMeta

    state = KeyedState(MemoryStore(), CacheBudget(1 << 20))
    value_cache(state, "s", VALUE, NEW)
    old = StoredType.of(VALUE, OLD).encode()
    with pytest.raises(JobError, match="'s' was opened before what is stored of it was restored"):
        state.apply([], LocalMeta("t", 1, 1, True, TaskMeta(1, states={"s": old}).encode()))
