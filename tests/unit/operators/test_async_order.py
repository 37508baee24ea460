"""The orders against a plain model: elements are done in any order, fences lie between them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kstreampy.operators.async_flight import Element
from kstreampy.operators.async_order import CompletionOrder, InputOrder, Order
from kstreampy.serde.batch import Batch


class Scene:
    """An order, fed with numbers; fences are their names."""

    def __init__(self, order: Order, keys: list[str] | None) -> None:
        self.order = order
        self.keys = keys
        self.elements: list[Element] = []
        self.came: list[Any] = []
        self.gone: list[Any] = []

    def add(self, count: int) -> None:
        begin = len(self.elements)
        numbers = list(range(begin, begin + count))
        keys = None if self.keys is None else [self.keys[number % len(self.keys)] for number in numbers]
        batch = Batch(numbers, numbers, keys)  # type: ignore[arg-type]
        new = [Element(batch, index, number, None) for index, number in enumerate(numbers)]
        self.elements += new
        self.order.add(new, batch.keys)
        self.came += numbers

    def fence(self) -> None:
        if self.order.is_empty():
            return
        name = f"fence {len(self.came)}"
        self.came.append(name)
        self.order.fence(lambda: self.gone.append(name))

    def do(self, number: int, *, told: bool = True) -> None:
        self.elements[number].done = True
        if told:
            self.order.note_done(self.elements[number])

    def take(self) -> None:
        for part in self.order.ready():
            if isinstance(part, list):
                self.gone += [element.value for element in part]
            else:
                part()

    def key_of(self, number: int) -> str:
        assert self.keys is not None
        return self.keys[number % len(self.keys)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)), st.just("fence"), st.tuples(st.just("do"), st.integers(0, 99))
    ),
    max_size=40,
)


def play(scene: Scene, steps: list[Any], after_each: Any) -> None:
    open_ones: list[int] = []
    for step in steps:
        if step == "fence":
            scene.fence()
        elif step[0] == "add":
            open_ones += range(len(scene.elements), len(scene.elements) + step[1])
            scene.add(step[1])
        elif open_ones:
            scene.do(open_ones.pop(step[1] % len(open_ones)))
        scene.take()
        after_each(scene)
    while open_ones:
        scene.do(open_ones.pop())
        scene.take()
        after_each(scene)
    assert scene.order.is_empty()
    assert sorted(scene.gone, key=str) == sorted(scene.came, key=str)


@given(STEPS)
def test_input_order(steps: list[Any]) -> None:
    """What has gone on is always the longest beginning of what came in which all is done."""

    def check(scene: Scene) -> None:
        until = next(
            (at for at, what in enumerate(scene.came) if isinstance(what, int) and not scene.elements[what].done),
            len(scene.came),
        )
        assert scene.gone == scene.came[:until]

    play(Scene(InputOrder(), None), steps, check)


def sections(entries: list[Any]) -> list[set[Any]]:
    found: list[set[Any]] = [set()]
    for entry in entries:
        if isinstance(entry, str):
            found.append(set())
        else:
            found[-1].add(entry)
    return found


@given(STEPS)
def test_completion_order_waits_for_nothing_but_fences(steps: list[Any]) -> None:
    def check(scene: Scene) -> None:
        parts, gone = sections(scene.came), sections(scene.gone)
        reached = next(
            (at for at, part in enumerate(parts) if any(not scene.elements[one].done for one in part)), len(parts) - 1
        )
        assert gone[:reached] == parts[:reached]
        assert gone[reached] == {one for one in parts[reached] if scene.elements[one].done}
        assert len(gone) == reached + 1

    play(Scene(CompletionOrder(), None), steps, check)


@given(STEPS, st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
def test_completion_order_keeps_the_order_of_each_key(steps: list[Any], keys: list[str]) -> None:
    def check(scene: Scene) -> None:
        for key in set(keys):
            of_key = [number for number in scene.gone if isinstance(number, int) and scene.key_of(number) == key]
            assert of_key == sorted(of_key)
        fences = [entry for entry in scene.came if isinstance(entry, str)]
        assert [entry for entry in scene.gone if isinstance(entry, str)] == fences[: len(sections(scene.gone)) - 1]
        for came, gone in zip(sections(scene.came), sections(scene.gone)[:-1], strict=False):
            assert came == gone

    play(Scene(CompletionOrder(), keys), steps, check)


def test_elements_go_on_as_they_are_done() -> None:
    scene = Scene(CompletionOrder(), None)
    scene.add(3)
    scene.do(2)
    scene.take()
    scene.do(0)
    scene.take()
    assert scene.gone == [2, 0]


def test_another_key_does_not_wait() -> None:
    scene = Scene(CompletionOrder(), ["a", "b"])
    scene.add(4)
    scene.do(2)
    scene.do(3)
    scene.do(1)
    scene.take()
    assert scene.gone == [1, 3]
    scene.do(0)
    scene.take()
    assert scene.gone == [1, 3, 0, 2]


def test_an_element_is_released_once_though_told_late() -> None:
    """It is seen to be done before its own note comes."""
    scene = Scene(CompletionOrder(), ["a"])
    scene.add(2)
    scene.do(1, told=False)
    scene.do(0)
    scene.order.note_done(scene.elements[1])
    scene.take()
    assert scene.gone == [0, 1]
    assert scene.order.is_empty()
