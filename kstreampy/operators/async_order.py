"""In which order the results of an asynchronous step go on.

In here: two ways to keep the elements that are under way, with the fences between them: `InputOrder` and `CompletionOrder`.
Used by the driver's thread only. Not in here: who calls (`async_flight.py`), and who hands on (`async_io.py`).

A fence is something that must go on behind all elements before it and before all behind it: a watermark, idleness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kstreampy.operators.async_flight import Element
from kstreampy.serde.batch import Token

Fence = Callable[[], None]
"""Called when its turn has come."""


class Order(Protocol):
    def is_empty(self) -> bool:
        """Nothing is kept, neither elements nor fences."""
        ...

    def add(self, elements: Sequence[Element], keys: list[Token] | None) -> None:
        """Elements that will be done; `keys`: theirs, on a keyed stream."""
        ...

    def fence(self, fence: Fence) -> None: ...

    def note_done(self, element: Element) -> None:
        """It is done."""
        ...

    def ready(self) -> Iterator[list[Element] | Fence]:
        """What may go on now, in this order; it is not kept any more."""
        ...


class InputOrder:
    """Elements go on in the order in which they came."""

    def __init__(self) -> None:
        self._entries: deque[Element | Fence] = deque()

    def is_empty(self) -> bool:
        return not self._entries

    def add(self, elements: Sequence[Element], keys: list[Token] | None) -> None:
        self._entries.extend(elements)

    def fence(self, fence: Fence) -> None:
        self._entries.append(fence)

    def note_done(self, element: Element) -> None: ...

    def ready(self) -> Iterator[list[Element] | Fence]:
        entries = self._entries
        run: list[Element] = []
        while entries:
            head = entries[0]
            if isinstance(head, Element):
                if not head.done:
                    break
                run.append(head)
                entries.popleft()
                continue
            if run:
                yield run
                run = []
            entries.popleft()
            yield head
        if run:
            yield run


class Section:
    """The elements between two fences."""

    __slots__ = ("done", "fence", "left")

    def __init__(self) -> None:
        self.left = 0
        """Elements that are not released."""
        self.done: list[Element] = []
        """Released, but not gone on yet."""
        self.fence: Fence | None = None
        """What follows; None for the last section."""


class CompletionOrder:
    """Elements go on as they are done, but never past a fence, and those of one key in the order in which they came."""

    def __init__(self) -> None:
        self._sections: deque[Section] = deque([Section()])
        self._lines: dict[Token, deque[Element]] = {}
        """Of each key, the elements that are not released."""

    def is_empty(self) -> bool:
        first = self._sections[0]
        return len(self._sections) == 1 and not first.left and not first.done

    def add(self, elements: Sequence[Element], keys: list[Token] | None) -> None:
        section = self._sections[-1]
        section.left += len(elements)
        for element in elements:
            element.section = section
        if keys is not None:
            lines = self._lines
            for element, key in zip(elements, keys, strict=True):
                line = lines.get(key)
                if line is None:
                    lines[key] = deque((element,))
                else:
                    line.append(element)

    def fence(self, fence: Fence) -> None:
        self._sections[-1].fence = fence
        self._sections.append(Section())

    def note_done(self, element: Element) -> None:
        keys = element.batch.keys
        if keys is None:
            self._release(element)
            return
        key = keys[element.index]
        line = self._lines.get(key)
        while line and line[0].done:
            self._release(line.popleft())
        if not line:
            self._lines.pop(key, None)

    @staticmethod
    def _release(element: Element) -> None:
        section = element.section
        section.left -= 1
        section.done.append(element)

    def ready(self) -> Iterator[list[Element] | Fence]:
        sections = self._sections
        while True:
            first = sections[0]
            if first.done:
                done, first.done = first.done, []
                yield done
            if first.left or first.fence is None:
                return
            sections.popleft()
            yield first.fence
